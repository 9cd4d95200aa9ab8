package wire

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// TestSlowReadersTakeNoDescriptors: as many clients as there are places for, less a few,
// read nothing of what they asked for, and then stop sending too. New clients are served
// all the same, and the journal goes on to its next segments.
func TestSlowReadersTakeNoDescriptors(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const descriptors, readers, size = 300, 220, 2_000_000
	script := filepath.Join(t.TempDir(), "few-descriptors")
	text := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec '%s' \"$@\"\n", descriptors, daemon.Program(t))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := conversation.StartServer(script, append(daemon.ShardArgs(4), "--loops", "2", "-z", "2000000", "-b", t.TempDir(), "-s", "100000")...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	first, err := conversation.Dial("tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	inserts(t, first, size, 1)

	small := net.Dialer{Timeout: conversation.Patience, Control: func(_, _ string, raw syscall.RawConn) (err error) {
		raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		return err
	}}
	for i := range readers {
		c, err := small.Dial("tcp", s.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("peek 1\r\npeek 1\r\npeek 1\r\n")); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 { // gnet lets go of these
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 20 {
		c, err := conversation.Dial("tcp", s.Address)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 5 {
			inserts(t, c, 50_000, 2+5*i+k)
		}
		c.Close()
	}
}

// inserts puts a job of that size, which gets that id.
func inserts(t *testing.T, c *conversation.Client, size, id int) {
	t.Helper()
	got, err := c.Ask(fmt.Sprintf("put 0 0 100 %d\r\n%s\r\n", size, bytes.Repeat([]byte("x"), size)))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("INSERTED %d\r\n", id); string(got) != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}
