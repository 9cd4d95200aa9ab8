package cli

import (
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// TestAwaitSocket waits for the socket of a server that restarts, even if the old socket is left;
// but not if the directory belongs to no cluster.
func TestAwaitSocket(t *testing.T) {
	for _, left := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, socketName)
		if left {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			l.Close()
		}
		if err := os.WriteFile(filepath.Join(dir, stateName), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var began atomic.Bool
		opened := make(chan net.Listener, 1)
		go func() {
			time.Sleep(5 * restartPoll)
			began.Store(true)
			os.Remove(path)
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Error(err)
			}
			opened <- l
		}()
		awaitSocket(t.Context(), dir)
		if !began.Load() {
			t.Error("it did not wait until there was a socket")
		}
		if l := <-opened; l != nil {
			l.Close()
		}
	}
	awaitSocket(t.Context(), t.TempDir()) // or it would take the test's time
}
