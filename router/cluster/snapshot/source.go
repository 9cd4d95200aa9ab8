package snapshot

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
	"polystalk/shard/commit"
	"polystalk/shard/wal"
)

// SourceOptions configures a Source.
type SourceOptions struct {
	Node    Node
	Journal *commit.Journal
	Rate    int64 // bytes a second to each receiver; zero: no limit
	Log     *slog.Logger
	// Look is the interval of checks on a receiver's progress; zero: a quarter second.
	Look time.Duration
}

// A Source sends a leader's journal to other servers, and pins the segments that they need next
// until they have caught up.
type Source struct {
	o   SourceOptions
	ctx context.Context // ends with Close
	end context.CancelFunc

	mu      sync.Mutex
	sending map[uint64]*Sending
	holds   map[uint64]context.CancelFunc // end the goroutines of hold
	running sync.WaitGroup
}

// A Sending is the progress of one receiver.
type Sending struct {
	To        uint64
	Sent, All int64 // bytes
	Begun     time.Time
}

const (
	sendingMax = 2    // receivers at a time
	holdLooks  = 480  // checks without progress before hold ends: two minutes, since the receiver may recover many jobs
	near       = 1024 // entries that a receiver that has caught up may lack: the leader has them in memory
)

// NewSource returns a Source.
func NewSource(o SourceOptions) *Source {
	if o.Look == 0 {
		o.Look = 250 * time.Millisecond
	}
	s := &Source{o: o, sending: map[uint64]*Sending{}, holds: map[uint64]context.CancelFunc{}}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// Close ends all transfers and waits for them.
func (s *Source) Close() {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.running.Wait()
}

// Sending returns the transfers under way.
func (s *Source) Sending() []Sending {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Sending, 0, len(s.sending))
	for _, one := range s.sending {
		list = append(list, *one)
	}
	return list
}

// Serve sends the journal to another server on a connection of kind Journal, and closes the
// connection. It sends an error to the receiver.
func (s *Source) Serve(c net.Conn, to uint64) error {
	defer c.Close()
	members, err := s.begin(to)
	if err != nil {
		refuse(c, err)
		return err
	}
	defer s.running.Done()
	defer context.AfterFunc(s.ctx, func() { c.Close() })()
	s.o.Node.Fetching(to)
	pin := s.o.Journal.Pin()
	err = s.send(c, to, members, pin)
	s.mu.Lock()
	delete(s.sending, to)
	s.mu.Unlock()
	if err != nil {
		pin.Release()
		s.o.Log.Warn("the journal was not sent completely", "node", nameOf(members, to), "err", err)
	} else {
		s.hold(to, pin)
	}
	s.o.Node.Fetched(to, err == nil)
	return err
}

// begin registers a transfer, if the server may have the journal now, and returns the members. A
// leader that does not serve yet sends its journal too: it may need that server to commit its first
// entry.
func (s *Source) begin(to uint64) (*cluster.Members, error) {
	st, err := s.o.Node.Status(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil, s.ctx.Err() != nil:
		return nil, cluster.ErrEnded
	case st.Role != cluster.Leading:
		return nil, errors.New("this server no longer leads: ask the leader")
	case st.Members.Find(to) == nil:
		return nil, fmt.Errorf("no server of the cluster has the id %x: a removed server must join again with an empty directory", to)
	case s.sending[to] != nil:
		return nil, errors.New("the journal is being sent to that server already: try again in a moment")
	case len(s.sending) >= sendingMax:
		return nil, fmt.Errorf("the journal is being sent to %d servers already: try again in a moment", sendingMax)
	}
	s.running.Add(1)
	s.sending[to] = &Sending{To: to, Begun: time.Now()}
	if end := s.holds[to]; end != nil {
		end() // the server starts over, and does not need the pinned segments
	}
	return st.Members, nil
}

// send sends the journal and waits until the receiver has verified it. The members are older than
// the pin, so the journal has the entries of their changes.
func (s *Source) send(c net.Conn, to uint64, members *cluster.Members, pin *wal.Pin) error {
	sent, err := Send(s.ctx, c, pin, SendOptions{
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
	var answer [1]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil || answer[0] != whole {
		return fmt.Errorf("the server has not confirmed that it has the whole journal: %w", errors.Join(err, s.ctx.Err()))
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

// hold keeps the pin until the receiver has caught up. Otherwise compaction could drop entries that
// the receiver needs next, and it would have to start over.
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

// awaitCaughtUp waits until a receiver has caught up, makes no progress, or is no longer a member.
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
		peer := st.Peer(to)
		switch {
		case peer == nil, peer.Active && peer.Match+near >= st.Commit:
			return
		case peer.Match > most:
			most, looks = peer.Match, 0
		default:
			looks++
		}
	}
}
