package router_test

import (
	"strings"
	"testing"

	"polystalk/router"
	"polystalk/router/session"
)

// bound sets the bound of the server's account.
func (f *fixture) bound(most int64) *session.Account {
	a := f.d.Server.Host().Account
	a.SetBound(most)
	return a
}

// counted returns the sum of the account plus the changes that loops have not added yet.
func (f *fixture) counted() int64 {
	n := f.d.Server.Host().Account.Sum()
	for _, l := range f.d.Server.Host().Loops() {
		n += int64(l.View().Untold)
	}
	return n
}

// A queueConn is a client that does not read. Like a socket it keeps unread output in a
// session.SendQueue.
type queueConn struct {
	testConn
	q session.SendQueue
}

func (c *queueConn) Write(p []byte) { c.q.Add(p, false) }
func (c *queueConn) WriteStable(pieces [][]byte) {
	for _, p := range pieces {
		c.q.Add(p, true)
	}
}
func (c *queueConn) Unsent() int { return c.q.Bytes() }
func (c *queueConn) Drop()       { c.q.Drop(); c.closed = true }

// reads makes the client read everything.
func (c *queueConn) reads() {
	for c.q.Bytes() > 0 {
		for _, p := range c.q.Peek(nil, 1<<20) {
			c.got.Write(p)
		}
		c.q.Sent(c.got.Len())
		c.got.Reset()
		c.s.AllSent()
		c.f.rest()
	}
}

func (f *fixture) openUnread() *queueConn {
	c := &queueConn{}
	c.f, c.canPause = f, true
	c.q.Account = f.d.Server.Host().Account
	c.s = f.l.Open(c)
	return c
}

// TestHeldInputStaysWithinTheBound: sixty clients send a megabyte each behind a waiting reserve. No
// connection is closed, reading stops, and held input is within the bound.
func TestHeldInputStaysWithinTheBound(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 2})
	const most = 16 << 20
	a := f.bound(most)
	ahead := strings.Repeat("stats-job 77777\r\n", 3800) // about 64 KiB, the size of one read
	var all []*queueConn
	for range 60 {
		c := f.openUnread()
		all = append(all, c)
		c.send("reserve\r\n")
		for range 17 {
			if !c.paused {
				c.send(ahead)
			}
		}
	}
	f.rest()
	if n := f.counted(); n > most || a.Excess() > 0 || n < most/2 {
		t.Errorf("%d bytes are counted with a bound of %d", n, most)
	}
	for i, c := range all {
		if c.closed || !c.paused {
			t.Fatalf("client %d: closed %v, paused %v", i, c.closed, c.paused)
		}
	}
	// All clients are served, and nothing is counted afterwards.
	p := f.open()
	for range all {
		p.send("put 0 0 60 1\r\nx\r\n")
	}
	for range 50 {
		f.rest()
		for _, c := range all {
			c.reads()
		}
	}
	for i, c := range all {
		if c.paused || c.closed {
			t.Fatalf("client %d: paused %v, closed %v", i, c.paused, c.closed)
		}
	}
	if n := f.counted(); n != 0 || f.l.Loop.View().Holders != 0 {
		t.Errorf("%d bytes are counted for %d clients when all is read", n, f.l.Loop.View().Holders)
	}
	f.check()
}

// TestUnreadRepliesStayWithinTheBound: the more is unread, the earlier a client's commands stop.
func TestUnreadRepliesStayWithinTheBound(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 2})
	const most = 16 << 20
	a := f.bound(most)
	f.open().says("put 0 0 60 5\nhello\n", "INSERTED 1\n")
	var all []*queueConn
	for range 60 {
		c := f.openUnread()
		all = append(all, c)
		for range 20 {
			if !c.paused {
				c.send(strings.Repeat("stats-job 1\r\n", 1000))
				f.rest()
			}
		}
	}
	if n := a.Sum(); n > most || n < most/2 {
		t.Errorf("%d bytes are counted with a bound of %d", n, most)
	}
	// A client that reads is served meanwhile.
	f.open().says("peek 1\n", "FOUND 1 5\nhello\n")
	for _, c := range all {
		if c.closed {
			t.Fatal("a client was closed within the bound")
		}
		c.s.Abort()
	}
	f.rest()
	if n := f.counted(); n != 0 {
		t.Errorf("%d bytes are counted after all clients are gone", n)
	}
	f.check()
}

// TestTheWorstReaderIsCutOff: if all connections together use too much, only the worst is closed.
func TestTheWorstReaderIsCutOff(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 2})
	f.bound(1 << 40)
	f.open().says("put 0 0 60 60000\n"+strings.Repeat("x", 60000)+"\n", "INSERTED 1\n")
	var all []*queueConn
	for i := range 10 {
		c := f.openUnread()
		for range i + 1 {
			c.send("peek 1\r\n")
		}
		all = append(all, c)
	}
	ahead := f.openUnread() // uses more memory than others, but has read everything
	ahead.send("reserve\r\nreserve\r\n" + strings.Repeat("x", 2<<20))
	f.rest()
	f.d.Server.Host().Evict()
	f.rest()
	for i, c := range all {
		if c.closed {
			t.Errorf("client %d is closed within the bound", i)
		}
	}
	sum := f.d.Server.Host().Account.Sum()
	f.d.Server.Host().Account.SetBound(sum - 100_000) // an eviction frees a sixteenth of it more
	f.d.Server.Host().Evict()
	f.rest()
	for i, c := range all {
		if want := i >= 9; c.closed != want {
			t.Errorf("client %d with %d bytes unread: closed %v", i, c.q.Bytes(), c.closed)
		}
	}
	if f.d.Server.Host().Account.Excess() > 0 || ahead.closed {
		t.Errorf("%d bytes above the bound, the client ahead is closed: %v", f.d.Server.Host().Account.Excess(), ahead.closed)
	}
	f.check()
}
