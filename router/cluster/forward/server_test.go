package forward

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/router"
)

// A whole server, and where a follower listens for its clients by both protocols.
type whole struct {
	srv          *router.Server
	end          func()
	beans, gears net.Addr
}

// serveAt has a whole server serve at the second node what the first hands on.
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

// dialTo makes a client.
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

// asks says something and wants that answer.
func asks(t *testing.T, c net.Conn, say, want string) {
	t.Helper()
	go io.WriteString(c, say)
	hear(t, c, want)
}

func TestServerIsReachedThroughAFollower(t *testing.T) {
	forBoth(t, func(t *testing.T, nodes []*node) {
		w := serveAt(t, nodes, router.Config{Loops: 2, MaxJobSize: 4 << 20})
		c := dialTo(t, w.beans)
		asks(t, c, "put 0 0 60 5\r\nhello\r\n", "INSERTED 1\r\n")
		asks(t, c, "reserve\r\n", "RESERVED 1 5\r\nhello\r\n")
		asks(t, c, "delete 1\r\n", "DELETED\r\n")

		// Many commands in a piece, and a body that takes many pieces.
		const n = 5000
		var say, want strings.Builder
		for i := range n {
			fmt.Fprintf(&say, "put 0 0 60 1\r\nx\r\n")
			fmt.Fprintf(&want, "INSERTED %d\r\n", i+2)
		}
		asks(t, c, say.String(), want.String())
		body := bytes.Repeat([]byte("0123456789"), 300_000)
		asks(t, c, fmt.Sprintf("use large\r\nput 0 0 60 %d\r\n%s\r\n", len(body), body), fmt.Sprintf("USING large\r\nINSERTED %d\r\n", n+2))
		asks(t, c, fmt.Sprintf("peek %d\r\n", n+2), fmt.Sprintf("FOUND %d %d\r\n%s\r\n", n+2, len(body), body))

		// A client that half-closes while it waits is told so.
		waits := dialTo(t, w.beans)
		asks(t, waits, "watch nothing\r\nignore default\r\n", "WATCHING 2\r\nWATCHING 1\r\n")
		io.WriteString(waits, "reserve\r\n")
		waits.(*net.TCPConn).CloseWrite()
		if got, err := io.ReadAll(waits); err != nil || string(got) != "TIMED_OUT\r\n" {
			t.Errorf("read %q, %v", got, err)
		}

		g := dialTo(t, w.gears)
		asks(t, g, "version\n", "OK 2.0.0\n")
		asks(t, g, "shutdown\n", "ERR UNKNOWN_COMMAND Unknown+server+commandshutdown\r\n")

		// A client that disconnects is gone at the leader as well.
		asks(t, c, "watch default\r\nreserve\r\n", "WATCHING 1\r\nRESERVED 2 1\r\nx\r\n")
		c.Close()
		other := dialTo(t, w.beans)
		await(t, "its job is ready again", func() bool {
			asks(t, other, "peek-ready\r\n", "FOUND ")
			b := make([]byte, 2)
			if _, err := io.ReadFull(other, b); err != nil {
				t.Fatal(err)
			}
			asks(t, other, "", "1\r\nx\r\n")
			return b[0] == '2'
		})

		// The end of the server is the end for its clients.
		w.end()
		wantEnd(t, other)
	})
}

func TestLimitOfTheServerHolds(t *testing.T) {
	forBoth(t, func(t *testing.T, nodes []*node) {
		w := serveAt(t, nodes, router.Config{Loops: 1, MaxConnections: 2})
		one, two := dialTo(t, w.beans), dialTo(t, w.beans)
		asks(t, one, "use a\r\n", "USING a\r\n")
		asks(t, two, "use a\r\n", "USING a\r\n")
		wantEnd(t, dialTo(t, w.beans))
		asks(t, one, "use b\r\n", "USING b\r\n")
	})
}
