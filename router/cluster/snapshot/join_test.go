package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
	"polystalk/shard/wal"
	"polystalk/shard/wal/exchange"
	"polystalk/shard/wal/fakedisk"
)

// otherFiles lists the files of a disk that are not segments.
func otherFiles(d *fakedisk.Disk) []string {
	all := slices.Sorted(maps.Keys(d.Entries))
	return slices.DeleteFunc(all, func(name string) bool { return strings.HasPrefix(name, "journal.0") })
}

// isNode fails the test unless a disk has what a joined server has.
func isNode(t *testing.T, d *fakedisk.Disk, id uint64, jobs int) {
	t.Helper()
	if got := otherFiles(d); !slices.Equal(got, []string{cluster.StateName}) {
		t.Fatalf("the directory holds %q", got)
	}
	s, err := cluster.OpenState(d)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.Identity(); got != (cluster.Identity{Cluster: 0xabc, Node: id, Name: "two"}) {
		t.Errorf("it is %+v", got)
	}
	if one := s.Members().Find(id); one == nil || one.Voter || len(s.Members().List) != 2 {
		t.Errorf("the members are %+v", s.Members())
	}
	if n := len(jobsOf(t, d)); n != jobs {
		t.Errorf("%d jobs, want %d", n, jobs)
	}
}

// A server joins. After a kill or a power cut at any operation of its disk, the next start continues
// under the same ID, so no other member is left behind in the cluster.
func TestJoinEndsAnywhere(t *testing.T) {
	l := newLeader(t, 20)
	for at := 1; ; at++ {
		d := fakedisk.New(uint64(at))
		l.node.set(func() { l.node.members = newFakeNode().members })
		o := l.options(t, d)
		id := l.joiner.Load()
		d.CrashAt = d.Ops + at
		var of uint64
		o.Joined = func(cluster uint64) { of = cluster }
		s, err := Join(context.Background(), o)
		done := err == nil
		if done {
			if err := s.Close(); err != nil || of != 0xabc || !<-l.node.fetched || d.Opened() != 0 {
				t.Errorf("cluster %x, %v, %d files are open; or the leader takes it for a failure", of, err, d.Opened())
			}
		}
		if at%2 == 0 {
			d.Cut()
		} else {
			d.Kill()
		}
		d.CrashAt = 0
		if state, _ := cluster.OpenState(d); state != nil {
			// A start as a node, which removes leftover files.
			_, err := exchange.Resume(d)
			if err := errors.Join(err, Settle(d, state), state.Close()); err != nil {
				t.Fatalf("operation %d: %v", at, err)
			}
		} else {
			if pending, err := Pending(d); !pending || err != nil {
				t.Fatalf("operation %d: it is not pending (%v)", at, err)
			}
			again, err := NodeID(d)
			if again != id || err != nil {
				t.Fatalf("operation %d: the id is %x, was %x (%v)", at, again, id, err)
			}
			s, err := Join(context.Background(), l.options(t, d))
			if err != nil {
				t.Fatalf("operation %d: %v", at, err)
			}
			s.Close()
		}
		isNode(t, d, id, 20)
		for len(l.node.fetched) > 0 {
			<-l.node.fetched
		}
		if done {
			break
		}
	}
}

// Followers name the leader; others do not answer.
func TestJoinByWayOfOthers(t *testing.T) {
	l := newLeader(t, 20)
	follower := newFakeNode()
	follower.id = 8
	follower.members = &cluster.Members{List: []cluster.Member{{ID: leaderID, Name: "one", Addr: l.asked, Voter: true}, {ID: 8, Name: "eight", Addr: "127.0.0.1:8"}}}
	lost := newFakeNode()
	lost.leader = 0
	o := l.options(t, fakedisk.New(2))
	o.Admin = dial
	o.Addrs = []string{"127.0.0.1:1", serveHTTP(t, &Handler{Node: lost}), serveHTTP(t, &Handler{Node: follower})}
	s, err := Join(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()

	o.Disk, o.Addrs = fakedisk.New(3), o.Addrs[:2]
	o.Pause = func(context.Context) error { return errTooOften }
	if _, err := Join(context.Background(), o); !errors.Is(err, errTooOften) {
		t.Errorf("without a leader: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.Pause = func(context.Context) error { cancel(); return ctx.Err() }
	if _, err := Join(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("when the context ends: %v", err)
	}
}

// After a broken stream, a change of the leader, and a journal from before the server was a member, it
// tries again.
func TestJoinTriesAgain(t *testing.T) {
	l := newLeader(t, 300)
	d := fakedisk.New(2)
	o := l.options(t, d)
	fetch, n := o.Journal, 0
	o.Journal = func(ctx context.Context, addr string) (net.Conn, error) {
		if n++; n == 3 {
			l.node.set(func() { l.node.leader = 99 }) // before it may begin to send
		}
		c, err := fetch(ctx, addr)
		switch n {
		case 1:
			return nil, errors.New("no route to host")
		case 2:
			return &breaking{Conn: c, left: 100_000}, err
		}
		return c, err
	}
	o.Pause = func(context.Context) error {
		if left := otherFiles(d); !slices.Equal(left, []string{PendingName}) {
			t.Errorf("after try %d not removed: %q", n, left)
		}
		l.node.set(func() { l.node.leader = leaderID })
		return nil
	}
	s, err := Join(context.Background(), o)
	if err != nil || n < 4 {
		t.Fatal(n, err)
	}
	s.Close()
	isNode(t, d, l.joiner.Load(), 300)
}

// A breaking connection breaks after a number of bytes.
type breaking struct {
	net.Conn
	left int
}

func (b *breaking) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.Conn.Close()
		return 0, syscall.ECONNRESET
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// A problem that only an operator can fix ends a join.
func TestJoinIsRefused(t *testing.T) {
	l := newLeader(t, 20)
	o := l.options(t, fakedisk.New(2))
	o.Member.Name = "one"
	var refused *Refusal
	if _, err := Join(context.Background(), o); !errors.As(err, &refused) || !strings.Contains(err.Error(), "cluster remove one") {
		t.Errorf("the error for a taken name is %v", err)
	}
	if pending, _ := Pending(o.Disk); !pending {
		t.Error("the ID of an earlier start was removed")
	}
	o.Fresh = true
	if _, err := Join(context.Background(), o); !errors.As(err, &refused) {
		t.Errorf("the error is %v", err)
	}
	if pending, _ := Pending(o.Disk); pending {
		t.Error("a refused start leaves its new ID")
	}
	d := fakedisk.New(2)
	d.Limit = 50_000
	l = newLeader(t, 20)
	o = l.options(t, d)
	o.Receive.Room = 20_000
	var full *RoomError
	if _, err := Join(context.Background(), o); !errors.As(err, &full) {
		t.Errorf("the error of a full disk is %v", err)
	}
	d = fakedisk.New(2)
	d.Before = func(op, name string) error {
		if strings.HasPrefix(name, cluster.StateName) {
			return &fs.PathError{Op: op, Path: name, Err: syscall.EIO}
		}
		return nil
	}
	l = newLeader(t, 20)
	o = l.options(t, d)
	if _, err := Join(context.Background(), o); !errors.Is(err, syscall.EIO) {
		t.Errorf("the error of a failing disk is %v", err)
	}
}

// After a power cut at any operation the ID is the same, or was never returned.
func TestNodeID(t *testing.T) {
	for at, done := 1, false; !done; at++ {
		d := fakedisk.New(uint64(at))
		d.CrashAt = at
		first, err := NodeID(d)
		done = err == nil
		d.Cut()
		d.CrashAt = 0
		second, err := NodeID(d)
		third, err2 := NodeID(d)
		if err != nil || err2 != nil || !cluster.ValidID(second) || done && second != first || third != second || done && d.Opened() != 0 {
			t.Fatalf("operation %d: %x, then %x and %x (%v, %v); %d files are open", at, first, second, third, err, err2, d.Opened())
		}
	}
	d := fakedisk.New(1)
	if pending, err := Pending(d); pending || err != nil {
		t.Errorf("an empty directory is pending: %v", err)
	}
	d.Before = func(string, string) error { return syscall.EIO }
	if _, err := NodeID(d); !errors.Is(err, syscall.EIO) {
		t.Errorf("the error of a failing disk is %v", err)
	}
}

// aState returns the state of server 42, which has voted.
func aState(t *testing.T, d wal.Disk, members *cluster.Members) *cluster.State {
	t.Helper()
	s, err := cluster.CreateState(d, cluster.Identity{Cluster: 0xabc, Node: 42, Name: "two"}, cluster.Vote{Term: 1, For: 9}, members)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// fetched fetches the journal of a leader.
func fetched(t *testing.T, l *leader, d wal.Disk) *Received {
	t.Helper()
	here, there := net.Pipe()
	go l.source.Serve(there, 42)
	r, err := Fetch(context.Background(), here, d, ReceiveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A server that is given only its own address ends at once. With another address it asks there.
func TestJoinPassesOverItself(t *testing.T) {
	l := newLeader(t, 3)
	o := l.options(t, fakedisk.New(2))
	own := &transport.Refused{By: transport.Identity{Node: l.joiner.Load()}, Reason: "this server does not belong to a cluster yet"}
	o.Admin = func(ctx context.Context, addr string) (net.Conn, error) {
		if addr == "own:1" {
			return nil, own
		}
		return dialTo(l.asked)(ctx, addr)
	}
	o.Addrs = []string{"own:1", "own:1"}
	if _, err := Join(t.Context(), o); !errors.Is(err, ErrSelf) {
		t.Fatalf("without another address the error is %v", err)
	}
	o.Addrs = []string{"own:1", l.asked}
	s, err := Join(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// A server that has fallen behind exchanges its journal for the leader's, unless it has more by now.
func TestExchange(t *testing.T) {
	before := &cluster.Members{Index: 5, List: []cluster.Member{{ID: 42, Name: "two", Addr: "127.0.0.1:2", Voter: true}}}
	now := &cluster.Members{Index: 60, List: []cluster.Member{{ID: leaderID, Name: "one", Addr: "127.0.0.1:1", Voter: true}, before.List[0]}}
	for _, c := range []struct {
		name    string
		further int64 // entries that the node has more
		term    uint64
		older   bool
	}{{"behind", -10, 1, false}, {"as far", 0, 1, false}, {"further", 1, 1, true}, {"a later term", -10, 2, true}, {"an earlier term", 1000, 0, false}, {"a journal of a later term", -10, 1, false}} {
		t.Run(c.name, func(t *testing.T) {
			l := newLeader(t, 100)
			l.node.members = now
			d := fakedisk.New(2)
			own := openJournal(t, d)
			own.put(3, 2000)
			state := aState(t, d, before)
			r := fetched(t, l, d)
			if err := own.Close(); err != nil {
				t.Fatal(err)
			}
			vote := cluster.Vote{Term: 1, For: 9}
			if c.name == "a journal of a later term" { // the server has not voted in that term
				r.LastTerm, vote = 4, cluster.Vote{Term: 4}
			}
			err := Exchange(r, state, uint64(int64(r.LastIndex)+c.further), c.term)
			if c.older != errors.Is(err, ErrOlder) || !c.older && err != nil {
				t.Fatalf("it says %v", err)
			}
			d.Cut()
			if err := Settle(d, state); err != nil {
				t.Fatal(err)
			}
			want, jobs := now, 100
			if c.older {
				want, jobs = before, 3
			}
			if n := len(jobsOf(t, d)); n != jobs || state.Members().Index != want.Index || state.Vote() != vote {
				t.Errorf("%d jobs, members %+v, vote %+v", n, state.Members(), state.Vote())
			}
			if got := otherFiles(d); !slices.Equal(got, []string{cluster.StateName}) {
				t.Errorf("the directory holds %q", got)
			}
		})
	}
}

func TestSettle(t *testing.T) {
	one := cluster.Member{ID: 42, Name: "two", Addr: "127.0.0.1:2"}
	with := func(index uint64, list ...cluster.Member) *cluster.Members {
		return &cluster.Members{Index: index, List: list}
	}
	for _, c := range []struct {
		name  string
		note  []byte
		index uint64
		err   string
	}{
		{"no note", nil, 5, ""},
		{"later", with(9, one).Encode(), 9, ""},
		{"earlier", with(4, one).Encode(), 5, ""},
		{"removed", with(9, cluster.Member{ID: 43, Name: "x", Addr: "y:1"}).Encode(), 5, "removed"},
		{"no members", []byte("what?"), 5, "members"},
	} {
		d := fakedisk.New(1)
		state := aState(t, d, with(5, one))
		if c.note != nil {
			if err := exchange.StageNote(d, c.note); err != nil {
				t.Fatal(err)
			}
			if err := exchange.Begin(d); err != nil {
				t.Fatal(err)
			}
		}
		err := Settle(d, state)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: it says %v", c.name, err)
		}
		if state.Members().Index != c.index {
			t.Errorf("%s: the index of the members is %d", c.name, state.Members().Index)
		}
		if left, _ := exchange.Note(d); (left != nil) != (c.err != "") {
			t.Errorf("%s: the note is %q", c.name, left)
		}
	}
}

// Servers are started together, and none leads yet: only a long wait to join is a warning.
func TestWaitingToJoinIsNoWarning(t *testing.T) {
	var out strings.Builder
	j := &joining{JoinOptions: JoinOptions{Log: slog.New(slog.NewTextHandler(&out, nil))}}
	for range 2 * patience {
		j.warn(errors.New("none leads"))
	}
	if got := out.String(); strings.Count(got, "level=INFO") != 1 || strings.Count(got, "level=WARN") != 1 {
		t.Errorf("%q", got)
	}
}
