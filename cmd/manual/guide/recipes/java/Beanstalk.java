import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** A client of beanstalkd's protocol in the standard library. Copy it, and change it as you like. */
final class Beanstalk implements AutoCloseable {
    /** A job that this connection holds. */
    record Job(long id, byte[] body) {}

    private final Socket socket;
    private final InputStream in;
    private final OutputStream out;

    Beanstalk(String host, int port) throws IOException {
        socket = new Socket(host, port);
        socket.setTcpNoDelay(true);
        in = new BufferedInputStream(socket.getInputStream());
        out = socket.getOutputStream();
    }

    /** Sends a command and returns the words of a reply that begins with want. */
    private String[] ask(String want, String command, byte[] body) throws IOException {
        byte[] line = (command + "\r\n").getBytes(StandardCharsets.US_ASCII);
        byte[] all = java.util.Arrays.copyOf(line, line.length + (body == null ? 0 : body.length + 2));
        if (body != null) {
            System.arraycopy(body, 0, all, line.length, body.length);
            all[all.length - 2] = '\r';
            all[all.length - 1] = '\n';
        }
        out.write(all);
        StringBuilder reply = new StringBuilder();
        for (int b; (b = in.read()) != '\n';) {
            if (b < 0) throw new IOException("the server closed the connection");
            if (b != '\r') reply.append((char) b);
        }
        String[] words = reply.toString().split(" ");
        if (!words[0].equals(want)) throw new IOException(reply.toString());
        return words;
    }

    void use(String tube) throws IOException { ask("USING", "use " + tube, null); }
    void watch(String tube) throws IOException { ask("WATCHING", "watch " + tube, null); }
    void ignore(String tube) throws IOException { ask("WATCHING", "ignore " + tube, null); }

    /** Puts a job, and returns its number. Delay and time to run are seconds. */
    long put(byte[] body, long priority, int delay, int ttr) throws IOException {
        return Long.parseLong(ask("INSERTED", "put " + priority + " " + delay + " " + ttr + " " + body.length, body)[1]);
    }

    /** Waits for a job. */
    Job reserve() throws IOException {
        String[] words = ask("RESERVED", "reserve", null);
        byte[] body = in.readNBytes(Integer.parseInt(words[2]));
        in.skipNBytes(2);
        return new Job(Long.parseLong(words[1]), body);
    }

    void delete(long job) throws IOException { ask("DELETED", "delete " + job, null); }
    void release(long job, int delay) throws IOException { ask("RELEASED", "release " + job + " 100 " + delay, null); }
    void bury(long job) throws IOException { ask("BURIED", "bury " + job + " 100", null); }
    void touch(long job) throws IOException { ask("TOUCHED", "touch " + job, null); }

    @Override public void close() throws IOException { socket.close(); }
}
