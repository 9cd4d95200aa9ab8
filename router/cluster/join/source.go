package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/snapshot"
	"polystalk/shard/commit"
	"polystalk/shard/wal"
)

// SourceOptions say how journals are sent.
type SourceOptions struct {
	Node    Node
	Journal *commit.Journal
	Rate    int64 // bytes a second to each that fetches; zero: as many as go
	Log     *slog.Logger
	// Look is how often it looks how far a node has come that has fetched the journal; zero: a
	// quarter second.
	Look time.Duration
}

// A Source sends the journal of a node that leads to others, and has it keep what those need next
// until they have caught up.
type Source struct {
	o   SourceOptions
	ctx context.Context // ends with Close
	end context.CancelFunc

	mu      sync.Mutex
	sending map[uint64]*Sending
	holds   map[uint64]context.CancelFunc // the ends of waits until a node has caught up
	closed  bool
	running sync.WaitGroup
}

// A Sending is one under way, as Source.Sending tells.
type Sending struct {
	To        uint64
	Sent, All int64 // bytes
	Begun     time.Time
}

// sendingMax journals are sent at a time.
const sendingMax = 2

// NewSource makes one.
func NewSource(o SourceOptions) *Source {
	if o.Look == 0 {
		o.Look = 250 * time.Millisecond
	}
	s := &Source{o: o, sending: map[uint64]*Sending{}, holds: map[uint64]context.CancelFunc{}}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// Close ends everything, and waits for it.
func (s *Source) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.running.Wait()
}

// Sending are the journals that are being sent.
func (s *Source) Sending() []Sending {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Sending, 0, len(s.sending))
	for _, one := range s.sending {
		list = append(list, *one)
	}
	return list
}

// Serve sends the journal to the node at the other end of a connection of kind Journal, and closes
// that. It returns once it was sent, or cannot be; who fetches was told then.
func (s *Source) Serve(c net.Conn, to uint64) error {
	defer c.Close()
	members, err := s.begin(to)
	if err != nil {
		snapshot.Refuse(c, err) // who does not hear it sees an end
		return err
	}
	defer s.running.Done()
	stop := context.AfterFunc(s.ctx, func() { c.Close() })
	defer stop()
	s.o.Node.Fetching(to)
	pin := s.o.Journal.Pin()
	err = s.send(c, to, members, pin)
	s.mu.Lock()
	delete(s.sending, to)
	s.mu.Unlock()
	if err != nil {
		pin.Release()
		s.o.Log.Warn("the journal was not sent to its end", "node", nameOf(members, to), "err", err)
	} else {
		s.hold(to, pin)
	}
	s.o.Node.Fetched(to, err == nil)
	return err
}

// begin takes a seat, if the node may have the journal from here now, and returns the members. A
// leader need not serve yet: it may need that node to have its first entry committed.
func (s *Source) begin(to uint64) (*cluster.Members, error) {
	st, err := s.o.Node.Status(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || err != nil:
		return nil, cluster.ErrEnded
	case st.Role != cluster.Leading:
		return nil, errors.New("this server does not lead any more: ask the one that does")
	case st.Members.Find(to) == nil:
		return nil, fmt.Errorf("no server of the cluster has the id %x: a server that was removed joins anew with an empty directory", to)
	case s.sending[to] != nil:
		return nil, errors.New("the journal is being sent to that server already: try again in a moment")
	case len(s.sending) >= sendingMax:
		return nil, fmt.Errorf("the journal is being sent to %d servers already: try again in a moment", sendingMax)
	}
	s.running.Add(1)
	s.sending[to] = &Sending{To: to, Begun: time.Now()}
	if end := s.holds[to]; end != nil {
		end() // it begins anew, so what it was to have next is of no use
	}
	return st.Members, nil
}

// send sends the journal and waits until the other side has found it whole. The members are as of
// before the pin, so that the journal has the entries by which they have become so.
func (s *Source) send(c net.Conn, to uint64, members *cluster.Members, pin *wal.Pin) error {
	sent, err := snapshot.Send(s.ctx, c, pin, snapshot.SendOptions{
		Rate: s.o.Rate, Note: members.Encode(),
		Progress: func(sent, all int64) {
			s.mu.Lock()
			s.sending[to].Sent, s.sending[to].All = sent, all
			s.mu.Unlock()
		},
	})
	if err != nil {
		return err
	}
	var said [1]byte
	if _, err := io.ReadFull(c, said[:]); err != nil || said[0] != whole {
		return fmt.Errorf("the server does not say that it has the whole journal: %w", errors.Join(err, s.ctx.Err()))
	}
	s.o.Log.Info("the journal was sent", "node", nameOf(members, to), "segments", sent.Segments, "bytes", sent.Bytes)
	return nil
}

func nameOf(m *cluster.Members, id uint64) string {
	if one := m.Find(id); one != nil {
		return one.Name
	}
	return fmt.Sprintf("%x", id)
}

// hold keeps the pin until a node has caught up that starts with what was sent: what it needs next
// would else be given up before it asks for that, and it would have to begin anew.
func (s *Source) hold(to uint64, pin *wal.Pin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, end := context.WithCancel(s.ctx)
	s.holds[to] = end
	s.running.Go(func() {
		defer end()
		defer pin.Release()
		s.awaitCaughtUp(ctx, to, pin)
	})
}

// holdLooks is how many looks at a node that comes no further are enough to give it up: at a
// quarter second each, two minutes, in which it starts with many jobs.
const holdLooks = 480

// near is how many entries a node may lack that has caught up: those come from memory.
const near = 1024

// awaitCaughtUp waits until a node has caught up, comes no further, or cannot be waited for.
func (s *Source) awaitCaughtUp(ctx context.Context, to uint64, pin *wal.Pin) {
	t := time.NewTicker(s.o.Look)
	defer t.Stop()
	most, looks := uint64(0), 0
	for looks < holdLooks && !pin.Lost() {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		st, err := s.o.Node.Status(ctx)
		if err != nil || st.Role != cluster.Leading {
			return
		}
		peer := peerOf(&st, to)
		switch {
		case st.Members.Find(to) == nil || peer == nil:
			return
		case peer.Active && peer.Match+near >= st.Commit:
			return
		case peer.Match > most:
			most, looks = peer.Match, 0
		default:
			looks++
		}
	}
}

// peerOf is another node in a status, or nil.
func peerOf(s *cluster.Status, id uint64) *cluster.Peer {
	for i := range s.Peers {
		if s.Peers[i].ID == id {
			return &s.Peers[i]
		}
	}
	return nil
}
