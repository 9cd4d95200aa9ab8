package cli

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestAwaitSocket waits for the socket of a server that restarts, even if the old socket still
// exists; but not if the directory belongs to no cluster.
func TestAwaitSocket(t *testing.T) {
	for _, left := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, socketName)
		listen := func() *net.UnixListener {
			t.Helper()
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			must(t, err)
			return l
		}
		if left {
			l := listen()
			l.SetUnlinkOnClose(false)
			l.Close()
		}
		must(t, os.WriteFile(filepath.Join(dir, stateName), nil, 0o600))
		done := make(chan struct{})
		go func() {
			defer close(done)
			awaitSocket(t.Context(), dir)
		}()
		select {
		case <-done:
			t.Error("it did not wait for a socket")
		default:
		}
		os.Remove(path)
		l := listen()
		<-done
		l.Close()
	}
	awaitSocket(t.Context(), t.TempDir())
}
