package daemon

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"polystalk/codec/conversation"
)

// Client opens a connection and closes it at the end of the test.
func Client(t *testing.T, s *conversation.Server) *conversation.Client {
	t.Helper()
	return client(t, s.Address)
}

func client(t *testing.T, addr string) *conversation.Client {
	t.Helper()
	c, err := conversation.Dial(split(addr))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// split returns network and address of an address in the server's log.
func split(addr string) (network, address string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", path
	}
	return "tcp", addr
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

// Feed writes in the background, and sends the result.
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

// ResetClient closes a connection and discards data in flight.
func ResetClient(c *conversation.Client) {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// Dial connects to an address from the server's log.
func Dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	network, address := split(addr)
	conn, err := net.DialTimeout(network, address, Hang)
	must(t, err)
	conn.SetDeadline(time.Now().Add(Hang))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Says sends a packet or a line, and expects exactly this answer.
func Says(t *testing.T, conn net.Conn, text, want string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	Hears(t, conn, want)
}

// Hears expects exactly this text from the server.
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
	m := make(map[string]string)
	for line := range strings.Lines(MustAsk(t, client(t, addr), "stats\r\n")) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); ok {
			m[key] = strings.Trim(value, `"`)
		}
	}
	return m
}
