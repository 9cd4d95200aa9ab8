package main

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestWatchdogStarvesWithTheServer: nothing is sent while the server makes no progress, and the log
// has the reason. Without an interval nothing is sent at all.
func TestWatchdogStarvesWithTheServer(t *testing.T) {
	dir, err := os.MkdirTemp("", "ps") // short enough for a unix socket's path
	must(t, err)
	defer os.RemoveAll(dir)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(dir, "n")})
	must(t, err)
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", socket.LocalAddr().String())
	t.Setenv("WATCHDOG_PID", "")
	heard := func(within time.Duration) string {
		t.Helper()
		socket.SetReadDeadline(time.Now().Add(within))
		b := make([]byte, 100)
		n, _ := socket.Read(b)
		return string(b[:n])
	}
	var log strings.Builder
	var stuck atomic.Bool
	var asked atomic.Int64
	alive := func() error {
		asked.Add(1)
		if stuck.Load() {
			return errors.New("the shards [7] could not be owned")
		}
		return nil
	}
	logger := slog.New(slog.NewTextHandler(&log, nil))

	t.Setenv("WATCHDOG_USEC", "")
	startWatchdog(alive, logger)()
	if asked.Load() != 0 {
		t.Error("the server is asked though nobody wants to hear")
	}
	t.Setenv("WATCHDOG_USEC", "20000")
	stop := startWatchdog(alive, logger)
	for range 3 {
		if got := heard(20 * time.Second); got != "WATCHDOG=1" {
			t.Fatalf("it says %q", got)
		}
	}
	stuck.Store(true)
	for n := asked.Load() + 2; asked.Load() < n; {
		time.Sleep(time.Millisecond)
	}
	for heard(time.Millisecond) != "" { // what was said before
	}
	if got := heard(100 * time.Millisecond); got != "" {
		t.Errorf("it says %q while the server is stuck", got)
	}
	stuck.Store(false)
	if got := heard(20 * time.Second); got != "WATCHDOG=1" {
		t.Errorf("afterwards it says %q", got)
	}
	stop()
	if !strings.Contains(log.String(), "the shards [7] could not be owned") {
		t.Errorf("log: %s", &log)
	}
}
