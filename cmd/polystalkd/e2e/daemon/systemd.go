package daemon

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// NotifySocket returns the socket on which a service manager listens.
func NotifySocket(t *testing.T) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(ShortDir(t), "n")})
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ReadState reads the next message to the service manager.
func ReadState(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(Hang))
	buf := make([]byte, 256)
	n, err := conn.Read(buf)
	must(t, err)
	return string(buf[:n])
}

// FileOf returns a copy of a socket's descriptor until the end of the test.
func FileOf(t *testing.T, l interface{ File() (*os.File, error) }) *os.File {
	t.Helper()
	f, err := l.File()
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}
