package forward

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"polystalk/router"
	"polystalk/router/session"
)

// Both protocols work at a whole server through a follower. A client that disconnects, and the end of
// the server, reach the other side. The leader's limit of connections holds.
func TestServerIsReachedThroughAFollower(t *testing.T) {
	forBoth(t, func(t *testing.T, nodes []*node) {
		srv, err := router.New(router.Config{Loops: 2, MaxConnections: 3})
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
		nodes[1].mu.Lock()
		nodes[1].receiver = NewReceiver(func(c net.Conn, protocol string, client *Client) error {
			return srv.Take(c, protocol, session.Forwarded(*client))
		}, slog.New(slog.DiscardHandler))
		nodes[1].mu.Unlock()
		gears := listen(t, "tcp", "127.0.0.1:0")
		go nodes[0].forwarder.Serve(gears, "Gearman")
		beans := nodes[0].listener
		asks := func(c net.Conn, say, want string) {
			t.Helper()
			io.WriteString(c, say)
			hear(t, c, want)
		}

		c := dial(t, beans)
		asks(c, "put 0 0 60 5\r\nhello\r\n", "INSERTED 1\r\n")
		asks(c, "reserve\r\n", "RESERVED 1 5\r\nhello\r\n")
		waits := dial(t, beans)
		asks(waits, "watch nothing\r\nignore default\r\n", "WATCHING 2\r\nWATCHING 1\r\n")
		g := dial(t, gears)
		asks(g, "shutdown\n", "ERR UNKNOWN_COMMAND Unknown+server+commandshutdown\r\n")
		wantEnd(t, dial(t, beans)) // one too many

		io.WriteString(waits, "reserve\r\n")
		waits.CloseWrite()
		hear(t, waits, "TIMED_OUT\r\n")
		wantEnd(t, waits)
		c.Close()
		var other net.Conn
		await(t, "its job is ready again", func() bool {
			other = dial(t, beans)
			io.WriteString(other, "peek-ready\r\n")
			b := make([]byte, len("FOUND 1 5\r\nhello\r\n"))
			n, _ := io.ReadAtLeast(other, b, len("NOT_FOUND\r\n"))
			return strings.HasPrefix(string(b[:n]), "FOUND 1 ")
		})
		end()
		io.Copy(io.Discard, other)
	})
}
