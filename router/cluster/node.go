package cluster

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"polystalk/shard/commit"
)

// A transport sends messages to other nodes.
type transport interface {
	// Send takes ownership of a message and does not block. It reports false if the message is lost.
	Send(to uint64, message []byte) bool
}

// NodeOptions are a Node's parts and callbacks. The Node's goroutines call the functions, which
// must not wait for the Node.
type NodeOptions struct {
	State     *State
	Log       Log
	Replica   Replica
	Proposals *Proposals // of the replica's journal
	Transport transport
	// Acknowledge is called when all commits of a leading replica up to n are committed.
	Acknowledge func(n uint64) error

	// Timeout is the election timeout. There are ten ticks in it. Two ticks must never be closer than
	// a tenth of it: the leases of the other nodes depend on that.
	Timeout     time.Duration
	DiskTimeout time.Duration // longest sync; after it the node hands over and ends; zero: no limit
	Logger      *slog.Logger

	// Fetch is called when this node must fetch another's journal. Meanwhile it still follows.
	Fetch func(Fetch)
	// Fail is called once, with the error that ended the node. The cause is commit.Deposed if the
	// process must restart. The error may wrap ErrRemoved.
	Fail func(*commit.Failure)
}

// A View is what a node knows of its cluster.
type View struct {
	Leader  uint64 // zero: none is known
	Term    uint64
	Leads   bool // this node leads, and so does its replica
	Members *Members
}

// inboxMax is the number of queued messages beyond which Receive blocks.
const inboxMax = 4096

// A Node is a running member of a cluster. Its Machine, its disk and its replica each have a
// goroutine, so that a heartbeat waits for neither disk nor replica.
type Node struct {
	opts   NodeOptions
	engine *engine
	epoch  time.Time // zero of the node's clock
	tick   time.Duration

	inbox   *queue[event]
	appends *queue[*Append]
	applies *queue[*apply]
	quit    chan struct{}
	ended   sync.Once
	running sync.WaitGroup

	mu      sync.Mutex
	view    View
	changed chan struct{} // closed when view changes
	figures figures

	hang    diskWatch
	handing bool // the disk hangs, and a hand-over has begun
}

// An event is input for the Machine's goroutine. One field is set.
type event struct {
	peer Message // from another node
	done Message // from the disk or the replica
	call func()
}

// StartNode starts a node.
func StartNode(o NodeOptions) (*Node, error) {
	n := &Node{
		opts: o, epoch: time.Now(), tick: o.Timeout / electionTicks,
		quit: make(chan struct{}), changed: make(chan struct{}),
	}
	n.inbox, n.appends, n.applies = newQueue[event](), newQueue[*Append](), newQueue[*apply]()
	e, err := newEngine(&o)
	if err != nil {
		return nil, err
	}
	n.engine = e
	n.figures.init()
	o.Proposals.attach(o.Acknowledge, n.inbox.poke, n.Leased)
	e.send, e.fetch = n.send, o.Fetch
	e.applier.change = func(entry *Entry, next *Members) {
		n.inbox.put(event{call: func() { n.end(e.change(entry, next)) }})
	}
	n.view.Members = e.machine.Members()
	n.running.Go(n.loop)
	n.running.Go(n.write)
	n.running.Go(n.apply)
	return n, nil
}

// now returns the time on the node's clock, which is monotonic.
func (n *Node) now() time.Duration { return time.Since(n.epoch) }

// loop is the Machine's goroutine. It only waits for its inbox.
func (n *Node) loop() {
	// Two ticks are never closer than n.tick, even after a late one: see NodeOptions.Timeout.
	timer := time.NewTimer(n.tick)
	defer timer.Stop()
	for {
		select {
		case <-n.quit:
			return
		case <-timer.C:
			n.end(n.engine.tick(n.now()))
			n.watchDisk()
			n.noteProgress()
			timer.Reset(n.tick)
		case <-n.inbox.filled:
		}
		for _, e := range n.inbox.take() {
			n.handle(e)
		}
		err := n.engine.turn()
		n.appends.put(n.engine.appends...)
		n.applies.put(n.engine.applies...)
		n.engine.appends, n.engine.applies = nil, nil
		n.look()
		n.end(err)
	}
}

// handle handles one event.
func (n *Node) handle(e event) {
	switch {
	case e.call != nil:
		e.call()
	case e.peer.pb != nil:
		n.figures.hear(e.peer.from(), n.now())
		n.end(n.engine.receive(e.peer))
	default:
		n.end(n.engine.done(e.done))
	}
}

// look publishes the view if it has changed.
func (n *Node) look() {
	m := n.engine.machine
	led := n.engine.promoted.Load()
	v := View{Leader: m.leader, Term: m.vote.Term, Leads: led != 0 && led == m.Leads(), Members: m.Members()}
	n.mu.Lock()
	was := n.view
	if v == was {
		n.mu.Unlock()
		return
	}
	n.view = v
	close(n.changed)
	n.changed = make(chan struct{})
	n.mu.Unlock()
	n.figures.turnOver(&was, &v, m.id)
}

// write is the disk's goroutine. It syncs once for all queued Appends.
func (n *Node) write() {
	for {
		list, ok := n.appends.wait()
		if !ok {
			return
		}
		after, err := n.engine.disk.do(list)
		if err != nil {
			n.end(err)
			return
		}
		own := make([]event, 0, len(after))
		for _, msg := range after {
			if msg.To() == n.engine.self {
				own = append(own, event{done: msg})
			} else {
				n.send(msg)
			}
		}
		n.inbox.put(own...)
	}
}

// apply is the replica's goroutine.
func (n *Node) apply() {
	for {
		list, ok := n.applies.wait()
		if !ok {
			return
		}
		for _, p := range list {
			if err := n.engine.applier.do(p); err != nil {
				n.end(err)
				return
			}
			n.inbox.put(event{done: p.Done()})
		}
	}
}

// send gives a message to the transport.
func (n *Node) send(m Message) {
	b, err := m.Encode()
	if err == nil && n.opts.Transport.Send(m.To(), b) {
		return
	}
	to := m.To()
	n.later(func() { n.engine.machine.unreachable(to) })
}

// later calls f on the Machine's goroutine and does not block, so that the same goroutine can call
// it.
func (n *Node) later(f func()) { n.inbox.put(event{call: f}) }

// Receive handles a message that the transport received from a node. It blocks while the inbox is
// full. It drops invalid messages, and messages with another sender.
func (n *Node) Receive(from uint64, message []byte) {
	m, err := Decode(message)
	if err != nil || m.from() != from {
		return
	}
	n.inbox.awaitRoom(inboxMax)
	n.inbox.put(event{peer: m})
}

// Unreachable reports that messages to a node were lost.
func (n *Node) Unreachable(id uint64) { n.later(func() { n.engine.machine.unreachable(id) }) }

// Fetching reports that a node has begun to fetch the journal from this one.
func (n *Node) Fetching(id uint64) { n.later(func() { n.engine.machine.Fetching(id) }) }

// Fetched reports that the fetch has ended; ok: the node has the whole journal.
func (n *Node) Fetched(id uint64, ok bool) {
	n.later(func() { n.engine.machine.Fetched(id, ok) })
}

// View returns what the node knows of its cluster, and a channel that is closed when that changes.
func (n *Node) View() (View, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.view, n.changed
}

// errSlowDisk ends a node when its disk hangs for too long.
var errSlowDisk = errors.New("a sync of the disk takes longer than --cluster-disk-timeout: check the disk")

// watchDisk ends a node when its disk hangs. A leader hands over first, which needs only the other
// nodes' disks.
func (n *Node) watchDisk() {
	since := n.hang.look(n.engine.disk, n.now(), n.tick)
	if since == 0 || n.opts.DiskTimeout == 0 {
		n.handing = false
		return
	}
	over := since - n.opts.DiskTimeout
	m := n.engine.machine
	switch {
	case over < 0:
	case m.Leads() == 0 || over > 2*n.opts.Timeout:
		n.end(errSlowDisk)
	case !n.handing:
		n.handing = true
		if m.Transfer(m.successor()) != nil {
			n.end(errSlowDisk)
		}
	}
}

// end ends the node if err is not nil.
func (n *Node) end(err error) {
	if err == nil {
		return
	}
	f := new(commit.Failure)
	if !errors.As(err, &f) {
		f = &commit.Failure{Cause: commit.Disk, Err: err}
	}
	n.ended.Do(func() {
		n.halt(f)
		if n.opts.Fail != nil {
			n.opts.Fail(f)
		}
	})
}

// halt tells all goroutines to end, and does not wait.
func (n *Node) halt(err error) {
	n.engine.leaseUntil.Store(0)
	n.opts.Proposals.Fail(err)
	close(n.quit)
	n.inbox.close()
	n.appends.close()
	n.applies.close()
}

// Halt ends the node without waiting: its disk may wait for space until the journal is closed.
func (n *Node) Halt() { n.ended.Do(func() { n.halt(commit.ErrStopped) }) }

// Stop ends the node, and waits for its goroutines. The caller owns the State and the Log again.
func (n *Node) Stop() {
	n.Halt()
	n.running.Wait()
}
