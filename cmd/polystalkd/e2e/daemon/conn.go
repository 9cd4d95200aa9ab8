package daemon

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Dial connects to one of the server's addresses as its log names them.
func Dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	conn, err := net.DialTimeout(network, addr, Hang)
	if err != nil {
		t.Fatal(err)
	}
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

// Says sends a packet or a line and wants exactly that answer.
func Says(t *testing.T, conn net.Conn, text, want string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	Hears(t, conn, want)
}

// Hears wants exactly that from the server.
func Hears(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(conn, got)
	if string(got[:n]) != want {
		t.Fatalf("got %q (%v), want %q", got[:n], err, want)
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
