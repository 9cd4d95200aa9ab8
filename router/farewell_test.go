package router_test

import (
	"io"
	"strings"
	"testing"

	"polystalk/router"
)

// TestClosedConnectionsAreForgotten: a client that quits and then reads its unread replies
// no longer counts as one with unread replies.
func TestClosedConnectionsAreForgotten(t *testing.T) {
	srv := serve(t, router.Config{Loops: 1, Shards: 2})
	keepers := func() (n int) {
		for _, l := range srv.Host().Loops() {
			l.Enter()
			n += l.View().Holders
			l.Exit()
		}
		return n
	}
	for range 3 {
		c := srv.dial(srv.beans)
		c.say("put 0 0 60 60000\r\n" + strings.Repeat("x", 60_000) + "\r\n" + strings.Repeat("peek 1\r\n", 300) + "quit\r\n")
		eventually(t, func() bool { return keepers() > 0 })
		io.Copy(io.Discard, c)
		eventually(t, func() bool { return keepers() == 0 })
	}
}
