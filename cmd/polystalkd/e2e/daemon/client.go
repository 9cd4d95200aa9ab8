package daemon

import (
	"fmt"
	"net"
	"testing"
	"time"

	"polystalk/codec/conversation"
)

// Client opens a connection that is closed with the test.
func Client(t *testing.T, s *conversation.Server) *conversation.Client {
	t.Helper()
	c, err := conversation.Dial("tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Expect sends a command and checks its reply.
func Expect(t *testing.T, c *conversation.Client, command, want string) {
	t.Helper()
	got, err := c.Ask(command)
	if err != nil {
		t.Fatalf("%q: %v", command, err)
	}
	if string(got) != want {
		t.Fatalf("%q: got %q, want %q", command, got, want)
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

// Feed writes in the background and tells how it ended.
func Feed(c *conversation.Client, parts ...[]byte) <-chan error {
	done := make(chan error, 1)
	go func() {
		for _, b := range parts {
			if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				done <- err
				return
			}
			if _, err := c.Write(b); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return done
}

// Reset closes a connection the hard way: what is under way is thrown away,
// and no port is kept back.
func Reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// ResetClient is Reset for a client.
func ResetClient(c *conversation.Client) { Reset(c.Conn) }
