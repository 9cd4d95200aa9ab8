package forward

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/router"
)

// A whole server, and the addresses at a follower for its clients.
type whole struct {
	srv          *router.Server
	end          func()
	beans, gears net.Addr
}

// serveAt starts a whole server at the second node for the clients that the first forwards.
func serveAt(t testing.TB, nodes []*node, cfg router.Config) *whole {
	t.Helper()
	srv, err := router.New(cfg)
	if err == nil {
		err = srv.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), ample)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	nodes[1].receiver = NewReceiver(t.Context(), srv.Take, 16, slog.New(slog.DiscardHandler))
	l := listen(t, "tcp", "127.0.0.1:0")
	go nodes[0].forwarder.Serve(l, "Gearman")
	lead(nodes, 2)
	return &whole{srv, end, nodes[0].listener.Addr(), l.Addr()}
}

// dialTo connects a client.
func dialTo(t testing.TB, addr net.Addr) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(ample))
	return c
}

// asks sends a command and expects an answer.
func asks(t *testing.T, c net.Conn, say, want string) {
	t.Helper()
	go io.WriteString(c, say)
	hear(t, c, want)
}

// Both protocols work through a follower. A client that disconnects, and the end of the server,
// reach the other side. The leader's limit of connections holds.
func TestServerIsReachedThroughAFollower(t *testing.T) {
	forBoth(t, func(t *testing.T, nodes []*node) {
		w := serveAt(t, nodes, router.Config{Loops: 2, MaxConnections: 3})
		c := dialTo(t, w.beans)
		asks(t, c, "put 0 0 60 5\r\nhello\r\n", "INSERTED 1\r\n")
		asks(t, c, "reserve\r\n", "RESERVED 1 5\r\nhello\r\n")

		waits := dialTo(t, w.beans)
		asks(t, waits, "watch nothing\r\nignore default\r\n", "WATCHING 2\r\nWATCHING 1\r\n")
		g := dialTo(t, w.gears)
		asks(t, g, "version\n", "OK 2.0.0\n")
		asks(t, g, "shutdown\n", "ERR UNKNOWN_COMMAND Unknown+server+commandshutdown\r\n")
		wantEnd(t, dialTo(t, w.beans)) // one too many

		io.WriteString(waits, "reserve\r\n")
		waits.(*net.TCPConn).CloseWrite()
		if got, err := io.ReadAll(waits); err != nil || string(got) != "TIMED_OUT\r\n" {
			t.Errorf("read %q, %v", got, err)
		}
		c.Close()
		var other net.Conn
		await(t, "its job is ready again", func() bool {
			other = dialTo(t, w.beans)
			io.WriteString(other, "peek-ready\r\n")
			b := make([]byte, len("FOUND 1 5\r\nhello\r\n"))
			n, _ := io.ReadAtLeast(other, b, len("NOT_FOUND\r\n"))
			return strings.HasPrefix(string(b[:n]), "FOUND 1 ")
		})
		w.end()
		io.Copy(io.Discard, other)
	})
}
