package daemon

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"polystalk/codec/conversation"
)

// Client opens a connection that is closed with the test.
func Client(t *testing.T, s *conversation.Server) *conversation.Client {
	t.Helper()
	return client(t, s.Address)
}

func client(t *testing.T, address string) *conversation.Client {
	t.Helper()
	c, err := conversation.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// Expect sends a command and checks its reply.
func Expect(t *testing.T, c *conversation.Client, command, want string) {
	t.Helper()
	if got := MustAsk(t, c, "%s", command); got != want {
		t.Fatalf("%.60q: got %.200q, want %.200q", command, got, want)
	}
}

// MustAsk sends a command and returns the reply.
func MustAsk(t *testing.T, c *conversation.Client, format string, args ...any) string {
	t.Helper()
	command := fmt.Sprintf(format, args...)
	got, err := c.Ask(command)
	if err != nil {
		t.Fatalf("%.60q: %v", command, err)
	}
	return string(got)
}

// Feed writes in the background, and sends how it ended.
func Feed(c *conversation.Client, parts ...[]byte) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := c.SetWriteDeadline(time.Now().Add(time.Minute))
		for _, b := range parts {
			if err == nil {
				_, err = c.Write(b)
			}
		}
		done <- err
	}()
	return done
}

// Reset closes a connection, and discards what is under way.
func Reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// ResetClient is Reset for a client.
func ResetClient(c *conversation.Client) { Reset(c.Conn) }

// Dial connects to one of the server's addresses as its log names them.
func Dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	conn, err := net.DialTimeout(network, addr, Hang)
	must(t, err)
	conn.SetDeadline(time.Now().Add(Hang))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Ask sends a command and returns the first line of the reply.
func Ask(t *testing.T, conn net.Conn, command string) string {
	t.Helper()
	if _, err := io.WriteString(conn, command); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatalf("reply to %q: %q, %v", command, line, err)
	}
	return strings.TrimSuffix(line, "\r\n")
}

// Says sends a packet or a line, and wants exactly this answer.
func Says(t *testing.T, conn net.Conn, text, want string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	Hears(t, conn, want)
}

// Hears wants exactly this from the server.
func Hears(t *testing.T, conn io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); string(got[:n]) != want {
		t.Fatalf("got %.200q (%v), want %.200q", got[:n], err, want)
	}
}

// Stats returns the lines of the stats reply as a map.
func Stats(t *testing.T, addr string) map[string]string {
	t.Helper()
	conn := Dial(t, addr)
	if _, err := io.WriteString(conn, "stats\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	var size int
	if _, err := fmt.Fscanf(r, "OK %d\r\n", &size); err != nil {
		t.Fatalf("reply to stats: %v", err)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		t.Fatal(err)
	}
	m := make(map[string]string)
	for line := range strings.Lines(string(body)) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); ok {
			m[key] = strings.Trim(value, `"`)
		}
	}
	return m
}
