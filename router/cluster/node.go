package cluster

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"polystalk/shard/commit"
)

// A Transport brings messages to other nodes.
type Transport interface {
	// Send never waits; false: the message is lost. It is the transport's from then on.
	Send(to uint64, message []byte) bool
}

// NodeOptions are what a Node begins with, and whom it tells. The functions are called by its
// goroutines, and must not wait for it.
type NodeOptions struct {
	State     *State
	Log       Log
	Replica   Replica
	Proposals *Proposals // those of the replica's journal
	Transport Transport
	// Acknowledge hears that all up to commit n of a leading replica is committed.
	Acknowledge func(n uint64) error

	Timeout     time.Duration // of elections: so long a leader is missed at least
	DiskTimeout time.Duration // of a flush, beyond which the node hands over and ends; zero: none
	Logger      *slog.Logger

	// Fetch hears that only the journal of another node can help this one. It goes on
	// following meanwhile.
	Fetch func(Fetch)
	// Fail hears of the error that has ended the node, once: a commit.Failure, Deposed if the
	// process is to begin anew; ErrRemoved may be in it.
	Fail func(*commit.Failure)
}

// A View is what a node knows of its cluster.
type View struct {
	Leader  uint64 // zero: none is known
	Term    uint64
	Leads   bool // this node does, and its replica too
	Members *Members
}

// inboxMax is how many messages wait for a node before its peers have to.
const inboxMax = 4096

// A Node is a member of a cluster at work. Its Machine is one goroutine's, and so are its disk
// and its replica, so that a heartbeat waits for neither.
type Node struct {
	opts   NodeOptions
	engine *engine
	epoch  time.Time // where its clock is zero
	tick   time.Duration

	inbox   *queue[event]
	appends *queue[*Append]
	applies *queue[*Apply]
	quit    chan struct{}
	ended   sync.Once
	running sync.WaitGroup

	mu      sync.Mutex
	view    View
	changed chan struct{} // closed when view is another
	figures figures

	hang    diskWatch
	handing bool // the disk hangs, and somebody else is to lead
}

// An event is something for the goroutine that has the Machine.
type event struct {
	peer Message // from another node
	done Message // of this node's disk or replica
	call func()
}

// StartNode has a node take part.
func StartNode(o NodeOptions) (*Node, error) {
	n := &Node{
		opts: o, epoch: time.Now(), tick: o.Timeout / electionTicks,
		quit: make(chan struct{}), changed: make(chan struct{}),
	}
	n.inbox = newQueue[event](inboxMax, make(chan struct{}, 1))
	n.appends, n.applies = newQueue[*Append](0, nil), newQueue[*Apply](0, nil)
	self := o.State.Identity().Node
	e, err := newEngine(&Options{ID: self, Log: o.Log, Timeout: o.Timeout, Logger: o.Logger}, o.State, o.Replica)
	if err != nil {
		return nil, err
	}
	n.engine = e
	n.figures.init()
	e.use(o.Proposals)
	o.Proposals.attach(o.Acknowledge, n.wake, n.Leased)
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

// now is the node's clock, which only goes forward.
func (n *Node) now() time.Duration { return time.Since(n.epoch) }

// wake has the loop look at the proposals.
func (n *Node) wake() {
	select {
	case n.inbox.wake <- struct{}{}:
	default:
	}
}

// loop has the Machine. It waits for nothing but its inbox.
func (n *Node) loop() {
	// Ticks are never closer than they should be, however late one was: see Options.Timeout.
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
		case <-n.inbox.wake:
		}
		for _, e := range n.inbox.take() {
			n.handle(e)
		}
		appends, applies, err := n.engine.turn(nil, nil)
		n.appends.put(appends...)
		n.applies.put(applies...)
		n.look()
		n.end(err)
	}
}

// handle takes in one event.
func (n *Node) handle(e event) {
	switch {
	case e.call != nil:
		e.call()
	case e.peer.pb != nil:
		n.figures.hear(e.peer.From(), n.now())
		n.end(n.engine.receive(e.peer))
	default:
		n.end(n.engine.done(e.done))
	}
}

// look tells of a view that is another.
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

// write is the disk: it syncs once for all that waits.
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

// apply is the replica.
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
	n.later(func() { n.engine.machine.Unreachable(to) })
}

// later has the goroutine of the Machine call f, and never waits for that: it may be called by
// that goroutine itself.
func (n *Node) later(f func()) { n.inbox.push(event{call: f}) }

// Receive takes a message from another node, as its Transport was given it. It waits while too
// many wait already. What is no message of that node's is dropped.
func (n *Node) Receive(from uint64, message []byte) {
	m, err := Decode(message)
	if err != nil || m.From() != from {
		return
	}
	n.inbox.put(event{peer: m})
}

// Unreachable tells it that messages to a node were lost.
func (n *Node) Unreachable(id uint64) { n.later(func() { n.engine.machine.Unreachable(id) }) }

// Fetching tells it that a node has begun to fetch the journal from this one, Fetched that it
// has ended, and whether that node has all of it.
func (n *Node) Fetching(id uint64) { n.later(func() { n.engine.machine.Fetching(id) }) }

// Fetched is told the end: see Fetching.
func (n *Node) Fetched(id uint64, ok bool) {
	n.later(func() { n.engine.machine.Fetched(id, ok) })
}

// Leased reports whether no other node can lead at this moment. Anyone may call it.
func (n *Node) Leased() bool { return n.engine.leased(n.now()) }

// View is what the node knows of its cluster, and a channel that is closed once that is another.
func (n *Node) View() (View, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.view, n.changed
}

// errSlowDisk is why a node ends whose disk has hung too long.
var errSlowDisk = errors.New("a flush of the disk takes longer than --cluster-disk-timeout: look at the disk")

// watchDisk ends a node whose disk hangs: a leader hands over before, which takes no disk but
// the others'.
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
		if m.Transfer(m.Successor()) != nil {
			n.end(errSlowDisk)
		}
	}
}

// end ends the node for an error, if that is one.
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

// halt has all goroutines end, without waiting for them.
func (n *Node) halt(err error) {
	n.engine.leaseUntil.Store(0)
	n.opts.Proposals.Fail(err)
	close(n.quit)
	n.inbox.close()
	n.appends.close()
	n.applies.close()
}

// Halt ends the node, and does not wait for that: its disk may wait for room that only ends with
// the journal.
func (n *Node) Halt() { n.ended.Do(func() { n.halt(commit.ErrStopped) }) }

// Stop ends the node, and waits until it does nothing any more. Its State and Log are the
// caller's again.
func (n *Node) Stop() {
	n.Halt()
	n.running.Wait()
}
