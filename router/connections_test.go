package router_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/admin"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// A watched server lets an operator list its connections.
type watched struct {
	*router.Server
	t            *testing.T
	beans, gears net.Addr
}

func watch(t *testing.T, cfg router.Config) *watched {
	t.Helper()
	w := &watched{Server: operated(t, cfg), t: t}
	for _, at := range []struct {
		addr  *net.Addr
		serve func(net.Listener) error
	}{{&w.beans, w.Serve}, {&w.gears, w.ServeGearman}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go at.serve(l)
		*at.addr = l.Addr()
	}
	return w
}

// A remote is a client that blocks.
type remote struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (w *watched) dial(addr net.Addr) *remote {
	w.t.Helper()
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute)) // patience, not a measurement
	return &remote{c, w.t, bufio.NewReader(c)}
}

func (k *remote) say(text string) {
	k.t.Helper()
	if _, err := io.WriteString(k, text); err != nil {
		k.t.Fatal(err)
	}
}

// hears wants text to come next.
func (k *remote) hears(text string) {
	k.t.Helper()
	b := make([]byte, len(text))
	if n, err := io.ReadFull(k.r, b); err != nil || string(b) != text {
		k.t.Fatalf("hears %q, %v, want %q", b[:n], err, text)
	}
}

// of is the connection of a client, as the operator sees it; nil: it is not listed.
func (w *watched) of(k *remote) *admin.Connection {
	w.t.Helper()
	for _, c := range w.list(&admin.ConnectionQuery{Limit: 1000}) {
		if session.PeerName(c.Peer) == k.LocalAddr().String() {
			return &c
		}
	}
	return nil
}

// list is all that are wanted.
func (w *watched) list(q *admin.ConnectionQuery) (all []admin.Connection) {
	w.t.Helper()
	for above := uint64(0); ; {
		p, err := w.Operator().Connections(w.t.Context(), q, above)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, p.Rows...)
		if above = p.Next; above == 0 {
			return all
		}
	}
}

// becomes waits for a client's connection to be as ok says.
func (w *watched) becomes(k *remote, what string, ok func(c *admin.Connection) bool) *admin.Connection {
	w.t.Helper()
	var c *admin.Connection
	eventually(w.t, func() bool {
		c = w.of(k)
		return c != nil && ok(c)
	})
	if c == nil || !ok(c) {
		w.t.Fatalf("it never is %s: %+v", what, c)
	}
	return c
}

// unknown fails the test if a connection has the number.
func (w *watched) unknown(number uint64) {
	w.t.Helper()
	_, _, err := w.Operator().Connection(w.t.Context(), number)
	for _, err := range []error{err, w.Operator().KillConnection(w.t.Context(), number)} {
		if p, ok := err.(*wire.Problem); !ok || p.Status != 404 {
			w.t.Errorf("connection %d: %v, want it to be unknown", number, err)
		}
	}
}

func TestConnectionsTellWhatTheyAre(t *testing.T) {
	w := watch(t, router.Config{Loops: 2, Shards: 4})
	start := time.Now()
	put := "use mail\r\nput 0 0 60 5\r\nhello\r\nput 0 0 60 5\r\nhello\r\n"
	p := w.dial(w.beans)
	p.say(put)
	said := "USING mail\r\nINSERTED 1\r\nINSERTED 2\r\n"
	p.hears(said)
	c := w.of(p)
	if c.Front.Name() != "beanstalkd" || c.State() != "idle" || c.Command != "put" || c.Client.Used != "mail" || c.Roles != session.Producer ||
		!slices.Equal(c.Client.Watched, []string{"default"}) || c.Client.Watching != 1 || c.In != uint64(len(put)) || c.Out != uint64(len(said)) ||
		c.Holds != 0 || c.Open > core.Time(time.Since(start)) || c.Idle > c.Open {
		t.Errorf("a producer is %+v", c)
	}

	k := w.dial(w.beans)
	k.say("watch mail\r\nreserve\r\n")
	k.hears("WATCHING 2\r\nRESERVED 1 5\r\nhello\r\n")
	time.Sleep(30 * time.Millisecond)
	c = w.of(k)
	if c.State() != "idle" || c.Command != "reserve" || c.Roles != session.Worker || c.Client.Watching != 2 || c.Holds != 1 ||
		c.HeldFor < 30e6 || c.HeldFor > core.Time(time.Since(start)) {
		t.Errorf("a worker is %+v", c)
	}
	one, held, err := w.Operator().Connection(t.Context(), c.Number)
	if err != nil || one.Number != c.Number || len(held) != 1 || held[0].ID != 1 || held[0].Peer != k.LocalAddr().String() || held[0].Conn != c.Number {
		t.Errorf("%+v holds %+v, %v", one, held, err)
	}
	if j, _, err := w.Operator().Job(t.Context(), 1, 0); err != nil || j.Conn != c.Number || j.Peer != k.LocalAddr().String() {
		t.Errorf("job 1 is held by %d at %q, %v", j.Conn, j.Peer, err)
	}
	if j, _, err := w.Operator().Job(t.Context(), 2, 0); err != nil || j.Conn != 0 || j.Peer != "" {
		t.Errorf("job 2 is held by %d at %q, %v", j.Conn, j.Peer, err)
	}
	k.say("reserve-job 2\r\nwatch idle\r\nignore mail\r\nignore default\r\nreserve\r\n")
	k.hears("RESERVED 2 5\r\nhello\r\nWATCHING 3\r\nWATCHING 2\r\nWATCHING 1\r\n")
	c = w.becomes(k, "waiting", func(c *admin.Connection) bool { return c.State() == "waiting" })
	if !c.Waits() || c.Holds != 2 {
		t.Errorf("who waits is %+v", c)
	}

	g := w.dial(w.gears)
	g.say(packet(gearman.SetClientID, "worker-7") + packet(gearman.CanDo, "mail") + packet(gearman.CanDo, "other") + packet(gearman.PreSleep))
	c = w.becomes(g, "asleep", func(c *admin.Connection) bool { return c.State() == "sleeping" })
	if c.Front.Name() != "Gearman" || c.Client.ID != "worker-7" || c.Client.Watching != 2 || c.Client.Used != "" || c.Command != "pre-sleep" || !c.Waits() {
		t.Errorf("who sleeps is %+v", c)
	}
	h := w.dial(w.beans) // holds jobs in several shards
	for i := range 8 {
		h.say(fmt.Sprintf("use many%d\r\nput 0 0 60 1\r\nx\r\nreserve-job %d\r\n", i, i+3))
		h.hears(fmt.Sprintf("USING many%d\r\nINSERTED %d\r\nRESERVED %d 1\r\nx\r\n", i, i+3, i+3))
		if i == 0 {
			time.Sleep(30 * time.Millisecond)
		}
	}
	if c = w.of(h); c.Holds != 8 || c.HeldFor < 30e6 || len(c.Client.Places) < 2 {
		t.Errorf("who holds jobs in several shards is %+v", c)
	}
	if _, held, err := w.Operator().Connection(t.Context(), c.Number); err != nil || len(held) != 8 || held[0].ID != 3 ||
		!slices.IsSortedFunc(held, func(a, b admin.JobRow) int { return int(b.InState - a.InState) }) {
		t.Errorf("%d jobs are held, %v, the first is %+v", len(held), err, held)
	}

	f := w.dial(w.gears)
	f.say(packet(gearman.SubmitJob, "nobody", "", "x"))
	c = w.becomes(f, "awaiting", func(c *admin.Connection) bool { return c.Follows })
	if c.Roles != session.Producer || c.State() != "idle" || c.Client.ID != "" || c.Command != "submit-job" {
		t.Errorf("who awaits is %+v", c)
	}

	for _, tt := range []struct {
		q    admin.ConnectionQuery
		want []*remote
	}{
		{admin.ConnectionQuery{}, []*remote{p, k, g, h, f}},
		{admin.ConnectionQuery{Protocol: "beanstalkd"}, []*remote{p, k, h}},
		{admin.ConnectionQuery{Protocol: "Gearman"}, []*remote{g, f}},
		{admin.ConnectionQuery{Tube: []byte("mail")}, []*remote{p, g}},
		{admin.ConnectionQuery{Tube: []byte("idle")}, []*remote{k}},
		{admin.ConnectionQuery{Tube: []byte("")}, nil},
		{admin.ConnectionQuery{Holding: true}, []*remote{k, h}},
		{admin.ConnectionQuery{Holding: true, Protocol: "Gearman"}, nil},
	} {
		for _, tt.q.Limit = range []int{1, 3, 100} {
			var got, want []string
			for _, c := range w.list(&tt.q) {
				got = append(got, session.PeerName(c.Peer))
			}
			for _, r := range tt.want {
				want = append(want, r.LocalAddr().String())
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v: %v, want %v", tt.q, got, want)
			}
		}
	}
	if p, err := w.Operator().Connections(t.Context(), &admin.ConnectionQuery{Limit: 5}, 0); err != nil || p.Next != 0 || p.Looked != 5 {
		t.Errorf("a part with all that there are goes on above %d, of %d, %v", p.Next, p.Looked, err)
	}
}

// TestJobsThatRanOutAreNotHeld: though nobody has told the connection.
func TestJobsThatRanOutAreNotHeld(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	w := watch(t, router.Config{Loops: 1, Shards: 2})
	k := w.dial(w.beans)
	k.say("put 0 0 1 1\r\nx\r\nreserve\r\n")
	k.hears("INSERTED 1\r\nRESERVED 1 1\r\nx\r\n")
	if n := len(w.list(&admin.ConnectionQuery{Holding: true, Limit: 10})); n != 1 {
		t.Fatalf("%d hold jobs", n)
	}
	w.ready("default", 1)
	if n := len(w.list(&admin.ConnectionQuery{Holding: true, Limit: 10})); n != 0 {
		t.Errorf("%d hold jobs", n)
	}
	if c := w.of(k); c.Holds != 0 || c.HeldFor != 0 {
		t.Errorf("%+v", c)
	}
}

// TestListShowsWhoStaysOnce: each connection that is there throughout is in exactly one part
// of every list, in the order in which they came, while others come and go.
func TestListShowsWhoStaysOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	w := watch(t, router.Config{Loops: 3, Shards: 2})
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for i := range 8 {
		others.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(i)))
			var open []net.Conn
			for ctx.Err() == nil {
				if k := rng.IntN(60); k < len(open) {
					open[k].Close()
					open = slices.Delete(open, k, k+1)
				} else if c, err := net.Dial("tcp", []net.Addr{w.beans, w.gears}[rng.IntN(2)].String()); err == nil {
					open = append(open, c)
				}
			}
			for _, c := range open {
				c.Close()
			}
		})
	}
	var stay []*remote
	for range 300 {
		k := w.dial(w.beans)
		k.say("use staying\r\n")
		k.hears("USING staying\r\n")
		stay = append(stay, k)
	}
	for _, q := range []admin.ConnectionQuery{{Limit: 7}, {Limit: 1000}, {Limit: 1, Tube: []byte("staying")}, {Limit: 50, Protocol: "beanstalkd"}} {
		seen := make(map[string]int)
		last := uint64(0)
		for _, c := range w.list(&q) {
			if c.Number <= last {
				t.Errorf("%d is behind %d", c.Number, last)
			}
			last = c.Number
			if c.Front == w.Fronts()[0] { // the other's clients may have the same ports
				seen[session.PeerName(c.Peer)]++
			}
		}
		for _, k := range stay {
			if n := seen[k.LocalAddr().String()]; n != 1 {
				t.Errorf("%+v: one that stays is shown %d times", q, n)
			}
		}
	}
	stop()
	others.Wait()
}

// TestRefusedConnectionsAreCounted: by why.
func TestRefusedConnectionsAreCounted(t *testing.T) {
	w := watch(t, router.Config{Loops: 1, Shards: 1, MaxConnections: 2})
	w.dial(w.gears).say("GET / HTTP/1.1\r\n\r\n")
	eventually(t, func() bool {
		return w.Host().Sums().Rejected[session.RejectedForeign] == 1 && connections(w.Server) == 0
	})
	for range 2 {
		k := w.dial(w.beans)
		k.say("use a\r\n")
		k.hears("USING a\r\n")
	}
	w.dial(w.beans).gone()
	s := w.Host().Sums()
	if s.Rejected != [session.NumRejections]uint64{session.RejectedForeign: 1, session.RejectedLimit: 1} {
		t.Errorf("rejected: %v", s.Rejected)
	}
	for _, f := range s.Fronts {
		want := session.FrontSums{Front: w.Fronts()[1], Accepted: 1}
		if f.Front == w.Fronts()[0] {
			want = session.FrontSums{Front: w.Fronts()[0], Open: 2, Accepted: 2}
		}
		if f != want {
			t.Errorf("%+v, want %+v", f, want)
		}
	}
}
