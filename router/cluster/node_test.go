package cluster

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/record"
	"polystalk/shard/wal/fakedisk"
)

// A net joins nodes of one process.
type net struct {
	mu    sync.Mutex
	nodes map[uint64]*testNode
	down  map[uint64]bool
}

type sender struct {
	*net
	from uint64
}

// Send implements Transport.
func (s sender) Send(to uint64, message []byte) bool {
	s.mu.Lock()
	n := s.nodes[to]
	var node *Node
	if n != nil {
		node = n.node
	}
	down := s.down[to] || s.down[s.from]
	s.mu.Unlock()
	if node == nil || down {
		return false
	}
	go node.Receive(s.from, message)
	return true
}

// A testNode is a node with a list of operations as its replica.
type testNode struct {
	t      *testing.T
	id     uint64
	disk   *fakedisk.Disk
	log    *memLog
	props  *Proposals
	node   *Node
	failed chan *commit.Failure

	mu    sync.Mutex
	ops   []uint64
	acked uint64
	n     uint64 // the last commit
}

func (s *testNode) Settle() {}

func (s *testNode) Lead() error {
	s.mu.Lock()
	s.n = s.log.Last()
	s.mu.Unlock()
	return nil
}

func (s *testNode) Apply(rec *record.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops = append(s.ops, rec.ID)
	return nil
}

// do executes an operation as the leader.
func (s *testNode) do(op uint64) error {
	s.mu.Lock()
	s.n++
	n := s.n
	s.ops = append(s.ops, op)
	s.mu.Unlock()
	if err := s.props.Propose(record.AppendDelete(nil, 0, op), n); err != nil {
		return err
	}
	return s.props.End(n)
}

func (s *testNode) acknowledge(n uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n <= s.acked {
		return fmt.Errorf("commit %d is acknowledged after %d", n, s.acked)
	}
	s.acked = n
	return nil
}

// recover makes a node start with the committed part of its log.
func (s *testNode) recover() {
	s.ops, s.acked = nil, 0
	s.log = s.log.copyOf()
	for _, e := range s.log.entries[:s.log.committed] {
		if e.Kind == record.Normal {
			s.ops = append(s.ops, opsOf(e.Data)...)
		}
	}
}

func (s *testNode) start(net *net) {
	s.t.Helper()
	st, err := OpenState(s.disk)
	if err != nil {
		s.t.Fatal(err)
	}
	s.props = NewProposals()
	s.failed = make(chan *commit.Failure, 1)
	net.mu.Lock()
	defer net.mu.Unlock()
	s.node, err = StartNode(NodeOptions{
		State: st, Log: s.log, Replica: s, Proposals: s.props, Transport: sender{net, s.id}, Acknowledge: s.acknowledge,
		Timeout: 300 * time.Millisecond, DiskTimeout: time.Second,
		Fail: func(f *commit.Failure) { s.failed <- f },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	net.nodes[s.id] = s
	s.t.Cleanup(s.node.Stop)
}

// newNet starts a cluster.
func newNet(t *testing.T, voters int) (*net, []*testNode) {
	w := &net{nodes: map[uint64]*testNode{}, down: map[uint64]bool{}}
	m := &Members{}
	for id := range uint64(voters) {
		m.List = append(m.List, Member{ID: id + 1, Name: fmt.Sprint("n", id+1), Addr: "x", Voter: true})
	}
	var all []*testNode
	for _, one := range m.List {
		s := &testNode{t: t, id: one.ID, disk: fakedisk.New(one.ID), log: &memLog{}}
		st, err := CreateState(s.disk, Identity{1, one.ID, one.Name}, Vote{}, m)
		if err != nil {
			t.Fatal(err)
		}
		st.Close()
		all = append(all, s)
	}
	for _, s := range all {
		s.start(w)
	}
	return w, all
}

// eventually waits. Its only limit is the test's timeout.
func eventually(t *testing.T, is func() bool) {
	t.Helper()
	for t.Context().Err() == nil {
		if is() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// leader waits until one of the nodes leads.
func leader(t *testing.T, all []*testNode) (l *testNode) {
	t.Helper()
	eventually(t, func() bool {
		for _, s := range all {
			if v, _ := s.node.View(); v.Leads && s.node.engine.leading.Load() != 0 {
				l = s
				return true
			}
		}
		return false
	})
	return l
}

func (s *testNode) isAcked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked == s.n
}

func (s *testNode) has(ops []uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Equal(s.ops, ops)
}

// Three nodes with their goroutines: the leader's operations reach all nodes; after a hand-over its
// replica is useless; after the loss of a leader another has all acknowledged operations.
func TestNodesAgree(t *testing.T) {
	w, all := newNet(t, 3)
	l := leader(t, all)
	var ops []uint64
	for op := range uint64(200) {
		ops = append(ops, op+1)
		if err := l.do(op + 1); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, l.isAcked)
	for _, s := range all {
		eventually(t, func() bool { return s.has(ops) })
	}
	eventually(t, l.node.Leased)
	st, err := l.node.Status(t.Context())
	if err != nil || !st.Leads || st.Role != Leading || len(st.Peers) != 2 || st.Proposals != 0 || st.Applied < 200 {
		t.Errorf("status: %+v, %v", st, err)
	}
	if err := l.node.Transfer(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if f := <-l.failed; f.Cause != commit.Deposed {
		t.Errorf("the node that hands over ends with %v", f)
	}
	if err := l.props.Propose(nil, 10_000); err == nil {
		t.Error("it still takes proposals")
	}
	if l.node.Leased() {
		t.Error("it still has a lease")
	}
	l.node.Stop()
	l.recover()
	l.start(w)
	next := leader(t, all)
	ops = append(ops, 201)
	if err := next.do(201); err != nil {
		t.Fatal(err)
	}
	eventually(t, next.isAcked)
	w.mu.Lock()
	w.down[next.id] = true
	w.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(all), func(s *testNode) bool { return s == next })
	last := leader(t, rest)
	eventually(t, func() bool { return last.has(ops) })
	if f := <-next.failed; f.Cause != commit.Deposed {
		t.Errorf("the isolated node ends with %v", f)
	}
}

// A leader with a hanging disk still sends heartbeats, so no other node takes over. It hands over
// itself, and ends.
func TestHangingDiskHandsOver(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	_, all := newNet(t, 3)
	l := leader(t, all)
	hang := l.log.set(&l.log.hang)
	if err := l.do(1); err != nil {
		t.Fatal(err)
	}
	f := <-l.failed
	close(hang)
	if f == nil {
		t.Fatal("it does not end")
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(s *testNode) bool { return s == l })
	next := leader(t, rest)
	eventually(t, func() bool { return next.has([]uint64{1}) || next.has(nil) })
}

// TestTimeOfAStandstillIsNotTheDisks: while the whole process is stopped, a sync cannot end.
func TestTimeOfAStandstillIsNotTheDisks(t *testing.T) {
	const tick = 100 * time.Millisecond
	var w diskWatch
	d := new(disk)
	now := time.Duration(0)
	look := func(begins uint64, passed, least, most time.Duration) {
		t.Helper()
		d.syncs.Add(begins)
		now += passed
		if took := w.look(d, now, tick); took < least || took > most {
			t.Errorf("at %v: the sync has taken %v, want %v to %v", now, took, least, most)
		}
	}
	look(1, tick, 0, tick)
	look(0, 13*time.Second, 0, 2*tick)
	for range 100 {
		look(0, tick, 0, time.Hour)
	}
	look(0, tick, 10*time.Second, time.Hour)
	look(2, tick, 0, 0) // another one
	look(0, tick, tick, tick)
	look(1, tick, 0, 0) // it has ended
}
