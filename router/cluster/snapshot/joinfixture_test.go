package snapshot

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
	"polystalk/shard/wal"
)

var silent = slog.New(slog.DiscardHandler)

// A fakeNode is a node that changes at once.
type fakeNode struct {
	mu      sync.Mutex
	id      uint64
	leader  uint64
	waits   bool // it leads and does not serve yet
	term    uint64
	members *cluster.Members
	match   map[uint64]uint64
	commit  uint64
	refuse  error // of changes
	fetched chan bool
}

const leaderID = 7

// newFakeNode returns the leader of a cluster of one.
func newFakeNode() *fakeNode {
	return &fakeNode{
		id: leaderID, leader: leaderID, term: 3, match: map[uint64]uint64{}, fetched: make(chan bool, 20),
		members: &cluster.Members{Index: 1, List: []cluster.Member{{ID: leaderID, Name: "one", Addr: "127.0.0.1:1", Voter: true}}},
	}
}

func (n *fakeNode) View() (cluster.View, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return cluster.View{Leader: n.leader, Term: n.term, Leads: n.leader == n.id && !n.waits, Members: n.members}, nil
}

func (n *fakeNode) Change(_ context.Context, c cluster.Change) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuse != nil {
		return n.refuse
	}
	next, err := n.members.After(c, n.members.Index+1)
	if err == nil {
		n.members = next
	}
	return err
}

func (n *fakeNode) Status(context.Context) (cluster.Status, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := cluster.Status{Leads: n.leader == n.id && !n.waits, Term: n.term, Members: n.members, Commit: n.commit}
	if n.leader == n.id {
		s.Role = cluster.Leading
	}
	for _, one := range n.members.List {
		if one.ID != n.id {
			m, active := n.match[one.ID]
			s.Peers = append(s.Peers, cluster.Peer{ID: one.ID, Match: m, Active: active})
		}
	}
	return s, nil
}

func (n *fakeNode) Fetching(uint64) {}

func (n *fakeNode) Fetched(_ uint64, ok bool) { n.fetched <- ok }

// set changes the node.
func (n *fakeNode) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// A leader is a node that lets others join, at two addresses: for requests, and for journals.
type leader struct {
	node    *fakeNode
	journal *journal
	source  *Source
	asked   string
	streams net.Listener
	joiner  atomic.Uint64 // the server that fetches
}

func newLeader(t *testing.T, jobs int) *leader {
	t.Helper()
	l := &leader{node: newFakeNode(), journal: journalWith(t, jobs)}
	l.source = NewSource(SourceOptions{Node: l.node, Journal: l.journal.Journal, Log: silent, Look: time.Millisecond})
	t.Cleanup(l.source.Close)
	l.asked = serveHTTP(t, &Handler{Cluster: 0xabc, Node: l.node})
	var err error
	if l.streams, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		l.streams.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			c, err := l.streams.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { l.source.Serve(c, l.joiner.Load()) })
		}
	})
	return l
}

// serveHTTP serves on a local port.
func serveHTTP(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h, ConnContext: transport.ConnContext}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	return l.Addr().String()
}

// dialTo connects to an address, whatever the requested one is.
func dialTo(addr string) Dial {
	return func(ctx context.Context, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
}

// dial connects to the requested address.
func dial(ctx context.Context, addr string) (net.Conn, error) { return dialTo(addr)(ctx, "") }

// errTooOften ends an endless attempt to join.
var errTooOften = errors.New("it has tried often enough")

// options returns the options of a server that joins at a leader, with a few tries.
func (l *leader) options(t *testing.T, d wal.Disk) JoinOptions {
	t.Helper()
	id, err := NodeID(d)
	if err != nil {
		t.Fatal(err)
	}
	l.joiner.Store(id)
	tries := 0
	return JoinOptions{
		Disk: d, Addrs: []string{l.asked}, Log: silent,
		Member: cluster.Member{Name: "two", Addr: "127.0.0.1:2"},
		Admin:  dialTo(l.asked), Journal: dialTo(l.streams.Addr().String()),
		Joined: func(uint64) {},
		Pause: func(context.Context) error {
			if tries++; tries > 500 {
				return errTooOften
			}
			time.Sleep(time.Millisecond) // the leader may not have noticed the last end
			return nil
		},
	}
}
