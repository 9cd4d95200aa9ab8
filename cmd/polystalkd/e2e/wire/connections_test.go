package wire

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// startWithDescriptors starts the daemon with at most n descriptors.
func startWithDescriptors(t *testing.T, n int, args ...string) *conversation.Server {
	t.Helper()
	script := filepath.Join(t.TempDir(), "few-descriptors")
	text := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec '%s' \"$@\"\n", n, daemon.Program(t))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := conversation.StartServer(script, append(daemon.ShardArgs(4), args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// tryConnection returns a new connection that is served, or nil.
func tryConnection(address string) *conversation.Client {
	c, err := conversation.Dial("tcp", address)
	if err != nil {
		return nil
	}
	if err := c.Say([]byte("list-tube-used\r\n")); err == nil && c.Ready(4*conversation.Silence) {
		if reply, err := c.Reply(conversation.Patience); err == nil && string(reply) == "USING default\r\n" {
			return c
		}
	}
	c.Close()
	return nil
}

// TestTooManyConnectionsAreRefused: without a free descriptor connections are refused, and served
// again once others have left.
func TestTooManyConnectionsAreRefused(t *testing.T) {
	const descriptors = 64
	s := startWithDescriptors(t, descriptors, "--max-connections", "1000")
	recovers := func() {
		t.Helper()
		for end := time.Now().Add(conversation.Patience); time.Now().Before(end); {
			if c := tryConnection(s.Address); c != nil {
				c.Close()
				return
			}
		}
		t.Fatal("no connection is served again")
	}
	for range 2 {
		var crowd []*conversation.Client
		for refused := 0; refused < 3; refused++ {
			if c := tryConnection(s.Address); c != nil {
				crowd, refused = append(crowd, c), -1
			}
		}
		if len(crowd) == 0 || len(crowd) > descriptors {
			t.Fatalf("%d connections are served", len(crowd))
		}
		for i, c := range crowd {
			daemon.Expect(t, c, "list-tube-used\r\n", "USING default\r\n")
			c.Close()
			if i == len(crowd)/2 {
				recovers()
			}
		}
		recovers()
	}
	daemon.AwaitStat(t, s, "current-connections", 0)
}

// putOne puts the job with that id, of a body of size bytes, and returns the body.
func putOne(t *testing.T, c *conversation.Client, id, size int) string {
	t.Helper()
	body := strings.Repeat("b", size)
	daemon.Expect(t, c, fmt.Sprintf("put 0 0 100 %d\r\n%s\r\n", size, body), fmt.Sprintf("INSERTED %d\r\n", id))
	return body
}

// TestConnectionsTogetherAreBounded: many clients send ahead, or leave their replies unread,
// as much as each may for itself. The server's memory stays within the bound for all of them.
func TestConnectionsTogetherAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const (
		clients = 300
		most    = 32 << 20
		slack   = 64 << 20 // for the collector, the kernel's pages and the connections themselves
	)
	for name, text := range map[string]string{
		"commands sent ahead": "reserve\r\n" + strings.Repeat("stats-job 77777\r\n", 100_000),
		"replies unread":      strings.Repeat("peek 1\r\n", 200),
	} {
		t.Run(name, func(t *testing.T) {
			s := daemon.Start(t, append(daemon.ShardArgs(4), "--connection-memory", fmt.Sprint(most))...)
			was := daemon.Memory(s)
			if was == 0 {
				t.Skip("the system does not tell a process's memory")
			}
			c := daemon.Client(t, s)
			daemon.Expect(t, c, "use other\r\n", "USING other\r\n")
			putOne(t, c, 1, 60000)
			var all sync.WaitGroup
			for range clients {
				f := daemon.Client(t, s)
				defer daemon.ResetClient(f)
				all.Go(func() {
					f.SetWriteDeadline(time.Now().Add(2 * time.Second))
					f.Write([]byte(text)) // as much as goes
				})
			}
			all.Wait()
			putOne(t, c, 2, 5)
			time.Sleep(time.Second)
			daemon.Bounded(t, s, was, most+slack)
			t.Logf("%d MB more", (daemon.Memory(s)-was)>>20)
			daemon.Expect(t, c, "delete 2\r\n", "DELETED\r\n")
		})
	}
}

// TestSlowReadersTakeNoDescriptors: almost as many clients as there are descriptors read
// nothing of what they asked for, and then stop sending too. New clients are served all the
// same, and the journal goes on to its next segments.
func TestSlowReadersTakeNoDescriptors(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const descriptors, readers = 300, 220
	s := startWithDescriptors(t, descriptors, "--loops", "2", "-z", "2000000", "-b", t.TempDir(), "-s", "100000")
	putOne(t, daemon.Client(t, s), 1, 2_000_000)
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
		c := daemon.Client(t, s)
		for k := range 5 {
			putOne(t, c, 2+5*i+k, 50_000)
		}
		c.Close()
	}
}
