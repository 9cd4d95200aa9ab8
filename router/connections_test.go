package router_test

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/admin"
	"polystalk/router/session"
)

// of returns a client's connection as operators see it; nil: it is not listed.
func (w *liveServer) of(k *remote) *wire.Connection {
	w.t.Helper()
	for _, c := range w.list(&admin.ConnectionQuery{Limit: 1000}) {
		if c.Peer == k.LocalAddr().String() {
			return &c
		}
	}
	return nil
}

// list returns all connections that match q.
func (w *liveServer) list(q *admin.ConnectionQuery) (all []wire.Connection) {
	w.t.Helper()
	for above := uint64(0); ; {
		p, err := w.Operator().Connections(w.t.Context(), q, above)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, p.Connections...)
		if p.Next == "" {
			return all
		}
		above, _ = strconv.ParseUint(p.Next, 10, 64)
	}
}

// becomes waits until ok returns true for a client's connection.
func (w *liveServer) becomes(k *remote, what string, ok func(c *wire.Connection) bool) *wire.Connection {
	w.t.Helper()
	var c *wire.Connection
	eventually(w.t, func() bool {
		c = w.of(k)
		return c != nil && ok(c)
	})
	if c == nil || !ok(c) {
		w.t.Fatalf("it never is %s: %+v", what, c)
	}
	return c
}

func TestConnectionsTellWhatTheyAre(t *testing.T) {
	w := serve(t, router.Config{Loops: 2, Shards: 4})
	const rounded = 0.001 // times are shown to a millisecond
	start := time.Now()
	put := "use mail\r\nput 0 0 60 5\r\nhello\r\nput 0 0 60 5\r\nhello\r\n"
	p := w.dial(w.beans)
	p.say(put)
	said := "USING mail\r\nINSERTED 1\r\nINSERTED 2\r\n"
	p.hears(said)
	c := w.of(p)
	if c.Protocol != "beanstalkd" || c.State != "idle" || c.Command != "put" || *c.Used != wire.NameOf("mail") || !c.Producer || c.Worker ||
		!slices.Equal(c.Watched, []wire.TubeName{wire.NameOf("default")}) || c.Watching != 1 || c.ReceivedBytes != uint64(len(put)) || c.SentBytes != uint64(len(said)) ||
		c.Holding != 0 || c.OpenSeconds > time.Since(start).Seconds()+rounded || c.CommandSeconds > c.OpenSeconds {
		t.Errorf("a producer is %+v", c)
	}

	k := w.dial(w.beans)
	k.say("watch mail\r\nreserve\r\n")
	k.hears("WATCHING 2\r\nRESERVED 1 5\r\nhello\r\n")
	time.Sleep(30 * time.Millisecond)
	c = w.of(k)
	if c.State != "idle" || c.Command != "reserve" || !c.Worker || c.Producer || c.Watching != 2 || c.Holding != 1 ||
		c.HoldSeconds < 0.03 || c.HoldSeconds > time.Since(start).Seconds()+rounded {
		t.Errorf("a worker is %+v", c)
	}
	one, err := w.Operator().Connection(t.Context(), c.ID)
	if err != nil || one.ID != c.ID || len(one.Jobs) != 1 || one.Jobs[0].ID != 1 || *one.Jobs[0].Holder != (wire.Holder{Connection: c.ID, Peer: k.LocalAddr().String()}) {
		t.Errorf("%+v, %v", one, err)
	}
	if j, _, err := w.Operator().Job(t.Context(), 1, 0); err != nil || j.Conn != c.ID || j.Peer != k.LocalAddr().String() {
		t.Errorf("job 1 is held by %d at %q, %v", j.Conn, j.Peer, err)
	}
	if j, _, err := w.Operator().Job(t.Context(), 2, 0); err != nil || j.Conn != 0 || j.Peer != "" {
		t.Errorf("job 2 is held by %d at %q, %v", j.Conn, j.Peer, err)
	}
	k.say("reserve-job 2\r\nwatch idle\r\nignore mail\r\nignore default\r\nreserve\r\n")
	k.hears("RESERVED 2 5\r\nhello\r\nWATCHING 3\r\nWATCHING 2\r\nWATCHING 1\r\n")
	c = w.becomes(k, "waiting", func(c *wire.Connection) bool { return c.State == "waiting" })
	if c.Holding != 2 {
		t.Errorf("who waits is %+v", c)
	}

	g := w.dial(w.gears)
	g.say(packet(gearman.SetClientID, "worker-7") + packet(gearman.CanDo, "mail") + packet(gearman.CanDo, "other") + packet(gearman.PreSleep))
	c = w.becomes(g, "asleep", func(c *wire.Connection) bool { return c.State == "sleeping" })
	if c.Protocol != "Gearman" || c.ClientID != "worker-7" || c.Watching != 2 || c.Used != nil || c.Command != "pre-sleep" {
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
	if c = w.of(h); c.Holding != 8 || c.HoldSeconds < 0.03 {
		t.Errorf("who holds jobs in several shards is %+v", c)
	}
	if one, err := w.Operator().Connection(t.Context(), c.ID); err != nil || len(one.Jobs) != 8 || one.Jobs[0].ID != 3 ||
		!slices.IsSortedFunc(one.Jobs, func(a, b wire.Job) int { return cmp.Compare(b.StateSeconds, a.StateSeconds) }) {
		t.Errorf("%v, it holds %+v", err, one.Jobs)
	}

	f := w.dial(w.gears)
	f.say(packet(gearman.SubmitJob, "nobody", "", "x"))
	c = w.becomes(f, "awaiting", func(c *wire.Connection) bool { return c.Awaits })
	if !c.Producer || c.Worker || c.State != "idle" || c.ClientID != "" || c.Command != "submit-job" {
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
				got = append(got, c.Peer)
			}
			for _, r := range tt.want {
				want = append(want, r.LocalAddr().String())
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v: %v, want %v", tt.q, got, want)
			}
		}
	}
	if p, err := w.Operator().Connections(t.Context(), &admin.ConnectionQuery{Limit: 5}, 0); err != nil || p.Next != "" || p.Looked != 5 {
		t.Errorf("a part with all that there are goes on above %q, of %d, %v", p.Next, p.Looked, err)
	}
}

// TestRefusedConnectionsAreCounted: they are counted by reason.
func TestRefusedConnectionsAreCounted(t *testing.T) {
	w := serve(t, router.Config{Loops: 1, Shards: 1, MaxConnections: 2})
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

// TestTakenClientsAreServed: a connection that another server forwards is served in the named
// protocol, with its client's address.
func TestTakenClientsAreServed(t *testing.T) {
	s := serve(t, router.Config{Loops: 1})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	take := func(protocol string, client net.Addr) (*remote, error) {
		t.Helper()
		c := s.dial(l.Addr())
		other, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c, s.Take(other, protocol, client)
	}
	there := session.Forwarded{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}}
	for protocol, says := range map[string]struct{ ask, want string }{
		s.Fronts()[0].Name(): {"use a\r\n", "USING a\r\n"},
		s.Fronts()[1].Name(): {"shutdown\n", "ERR UNKNOWN_COMMAND Unknown+server+commandshutdown\r\n"}, // forwarded by another machine
	} {
		c, err := take(protocol, there)
		if err != nil {
			t.Fatal(err)
		}
		c.say(says.ask)
		c.hears(says.want)
	}
	list, err := s.Operator().Connections(t.Context(), &admin.ConnectionQuery{Limit: 5}, 0)
	if err != nil || len(list.Connections) != 2 {
		t.Fatalf("%+v, %v, want two connections", list, err)
	}
	for _, row := range list.Connections {
		if got := row.Peer; got != there.String() {
			t.Errorf("operators are told that it comes from %s, want %s", got, there)
		}
	}
	c, err := take("smtp", there)
	if err == nil {
		t.Error("a protocol that is not spoken was taken")
	}
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("read %v, want the end", err)
	}
}

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
