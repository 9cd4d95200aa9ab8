package router_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/router"
)

// A liveServer serves both protocols on TCP, and beanstalkd also on a unix socket, until the end of
// the test.
type liveServer struct {
	*router.Server
	t                  testing.TB
	beans, gears, unix net.Addr
	end                func() // shuts the server down, once
}

func serve(t testing.TB, cfg router.Config) *liveServer {
	t.Helper()
	srv, err := router.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	s := &liveServer{Server: srv, t: t}
	served := make(chan error, 3)
	listen := func(network, address string, serve func(net.Listener) error) net.Addr {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		go func() { served <- serve(l) }()
		return l.Addr()
	}
	s.beans = listen("tcp", "127.0.0.1:0", srv.Serve)
	s.gears = listen("tcp", "127.0.0.1:0", srv.ServeGearman)
	s.unix = listen("unix", filepath.Join(t.TempDir(), "s"), srv.Serve)
	s.end = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		for range 3 {
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
		}
	})
	t.Cleanup(s.end)
	return s
}

// A remote is a blocking client of a liveServer. Its deadline only ends a test that hangs.
type remote struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func (s *liveServer) dial(addr net.Addr) *remote {
	s.t.Helper()
	c, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	return &remote{c, s.t, bufio.NewReaderSize(c, 1<<16)}
}

// worker opens a client that uses and watches only the tube.
func (s *liveServer) worker(tube string) *remote {
	s.t.Helper()
	k := s.dial(s.beans)
	k.say("use " + tube + "\r\nwatch " + tube + "\r\nignore default\r\n")
	k.hears("USING " + tube + "\r\nWATCHING 2\r\nWATCHING 1\r\n")
	return k
}

func (k *remote) say(text string) {
	k.t.Helper()
	if _, err := io.WriteString(k, text); err != nil {
		k.t.Fatal(err)
	}
}

// hears checks that the next output is text.
func (k *remote) hears(text string) {
	k.t.Helper()
	b := make([]byte, len(text))
	if n, err := io.ReadFull(k.r, b); err != nil || string(b) != text {
		k.t.Fatalf("received %q, %v, want %q", b[:n], err, text)
	}
}

// line returns the next line.
func (k *remote) line() string {
	k.t.Helper()
	s, err := k.r.ReadString('\n')
	if err != nil {
		k.t.Fatal(err)
	}
	return strings.TrimSuffix(s, "\r\n")
}

// ask sends a command, and returns the first line of the reply.
func (k *remote) ask(format string, args ...any) string {
	k.t.Helper()
	k.say(fmt.Sprintf(format, args...) + "\r\n")
	return k.line()
}

// reserve reserves a job and returns its id; ok is false if no job is ready.
func (k *remote) reserve() (id string, ok bool) {
	k.t.Helper()
	w := strings.Fields(k.ask("reserve-with-timeout 0"))
	if w[0] != "RESERVED" {
		return "", false
	}
	k.line() // the body
	return w[1], true
}

// fill puts n jobs with small bodies and various priorities.
func (k *remote) fill(n int) {
	k.t.Helper()
	for n > 0 {
		part := min(n, 2000)
		var b strings.Builder
		for i := range part {
			fmt.Fprintf(&b, "put %d 0 600 10\r\n0123456789\r\n", uint32(i*0x9E3779B9)>>8)
		}
		k.say(b.String())
		for range part {
			if got := k.line(); !strings.HasPrefix(got, "INSERTED ") {
				k.t.Fatal(got)
			}
		}
		n -= part
	}
}

// gone checks that the connection is closed.
func (k *remote) gone() {
	k.t.Helper()
	if b, err := io.ReadAll(k.r); err != nil && !strings.Contains(err.Error(), "reset") || len(b) > 0 {
		k.t.Errorf("received %q, %v, want the end", b, err)
	}
}

// eventually fails the test unless ok returns true in time.
func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("the condition was never met")
}
