package router_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/codec/gearman"
	"polystalk/router"
)

// TestRefusalIsRead: a client in the middle of a body that is too large reads why it is
// closed, and not a reset, also when it sends all of it first.
func TestRefusalIsRead(t *testing.T) {
	srv, err := router.New(router.Config{Loops: 1, Shards: 2, Gearman: router.GearmanConfig{Prefix: "H:x", MaxBody: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.ServeGearman(l)
	text := packet(gearman.SubmitJobBG, "f", "", strings.Repeat("x", 16<<20))
	want := answer(gearman.Error, "DATA_TOO_LARGE", "Packet too large")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.WriteString(c, text); err != nil {
				t.Errorf("while it sends: %v", err)
				return
			}
			got, err := io.ReadAll(c)
			if err != nil || string(got) != want {
				t.Errorf("read %q, %v, want %q", got, err, want)
			}
		})
	}
	all.Wait()
}

// TestClosedConnectionsAreForgotten: a client that quits and then reads its unread replies
// no longer counts as one with unread replies.
func TestClosedConnectionsAreForgotten(t *testing.T) {
	srv, err := router.New(router.Config{Loops: 1, Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	keepers := func() (n int) {
		for _, l := range srv.Host().Loops() {
			l.Enter()
			n += l.View().Holders
			l.Exit()
		}
		return n
	}
	await := func(what string, done func() bool) {
		t.Helper()
		for range 2000 {
			if done() {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatal(what)
	}
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		io.WriteString(c, "put 0 0 60 60000\r\n"+strings.Repeat("x", 60_000)+"\r\n"+
			strings.Repeat("peek 1\r\n", 300)+"quit\r\n")
		await("nothing is left unread", func() bool { return keepers() > 0 })
		io.Copy(io.Discard, c)
		await("a connection that has read all is not forgotten", func() bool { return keepers() == 0 })
	}
}
