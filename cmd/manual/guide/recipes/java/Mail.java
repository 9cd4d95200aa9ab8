import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** Puts three mails into the tube java-mail, or sends them. Use: javac *.java && java Mail put|work */
public final class Mail {
    public static void main(String[] args) throws Exception {
        // The servers of a cluster, with commas between them, or one.
        String[] hosts = System.getenv().getOrDefault("BEANSTALKD_HOST", "127.0.0.1").split(",");
        int port = Integer.parseInt(System.getenv().getOrDefault("BEANSTALKD_PORT", "11300"));
        if (args[0].equals("put")) {
            try (Beanstalk queue = new Beanstalk(hosts[0], port)) {
                put(queue);
            }
            return;
        }
        for (int i = 0;; i++) {
            try (Beanstalk queue = new Beanstalk(hosts[i % hosts.length], port)) {
                work(queue); // watches its tubes again, and reserves
            } catch (IOException e) {
                System.err.println(e.getMessage() + ": trying the next server");
                Thread.sleep(1000);
            }
        }
    }

    static void put(Beanstalk queue) throws Exception {
        queue.use("java-mail");
        for (String to : new String[] {"alice", "bob", "nobody"}) {
            System.out.println("put job " + queue.put(to.getBytes(StandardCharsets.UTF_8), 100, 0, 60));
        }
    }

    static void work(Beanstalk queue) throws Exception {
        queue.watch("java-mail");
        queue.ignore("default");
        while (true) {
            Beanstalk.Job job = queue.reserve();
            String to = new String(job.body(), StandardCharsets.UTF_8);
            if (to.equals("nobody")) {
                System.err.println("buried job " + job.id() + ": " + to + " has no address");
                queue.bury(job.id());
            } else {
                System.out.println("sent to " + to);
                queue.delete(job.id());
            }
        }
    }
}
