package commit

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// ErrStopped is the error of waiting for a storage that is being closed. It is no failure
// of the disk, so it does not end the storage by itself.
var ErrStopped = errors.New("the journal is closed")

// Options say how a Committer is run. The functions are called by the goroutines named
// with them; all must be there.
type Options struct {
	Sink Sink
	Logs int // one for each shard

	// Here says that commits are made by who waits for them, as far as Prompt allows: for
	// a Sink whose Sync usually does nothing, since handing a mere write to another thread
	// costs more than making it.
	Here bool
	// Prompt reports whether a commit would take one write now, and no waiting. It is
	// called in CommitHere, by who is about to make that commit.
	Prompt func() bool

	// Step is how often a Log calls Appended, in bytes, at the least.
	Step int
	// Appended hears that n bytes more wait in a Log. It is called by who owns the shard,
	// with the Log open: it must neither wait nor wake anybody who may use a shard.
	Appended func(n int64)
	// Acked hears that a commit was acknowledged, from who made it or has called Committed.
	Acked func()
	// Failed hears of the error that has ended the storage, once. Pressure is Wait by then.
	Failed func(*Failure)
}

// A Committer numbers commits: it takes what the Logs hold, gives it to a Sink, and once
// that is as safe as it should be, at once or later, says so in Acked. One commit serves all Logs, because to
// make a thousand records safe costs what it costs for one.
//
// It has one order of commits for all its Logs; see the package's documentation for who
// relies on that.
//
// Four words stand for four things. To request a commit is to see to it that one is
// made, by whomever. To wake is to have the committer's goroutine make one. To commit is
// to make one. To acknowledge is to let the replies go that wait for one, once it is safe.
type Committer struct {
	opts Options
	logs []*Log

	queue     atomic.Pointer[Log] // logs with records, linked
	begun     atomic.Uint64       // the last commit begun
	requested atomic.Bool         // a commit that has not begun will be made
	acked     atomic.Uint64
	pressure  atomic.Int32
	tight     atomic.Bool   // see record.Buffer
	wake      chan struct{} // for the committer's goroutine

	committing sync.Mutex // held by who makes a commit
	entry      Entry      // what is being written, for the holder of committing

	mu      sync.Mutex
	failure *Failure // what ended the storage; nothing is acknowledged after that
}

// New makes a Committer and its Logs.
func New(o Options) *Committer {
	c := &Committer{opts: o, wake: make(chan struct{}, 1)}
	for range o.Logs {
		c.logs = append(c.logs, &Log{c: c})
	}
	return c
}

// Log is the log of shard i.
func (c *Committer) Log(i int) *Log { return c.logs[i] }

// Logs are all of them.
func (c *Committer) Logs() []*Log { return c.logs }

// Resume has the numbers of commits go on behind n, which counts as acknowledged. It is
// called before anything else.
func (c *Committer) Resume(n uint64) {
	c.begun.Store(n)
	c.acked.Store(n)
}

// Acked is the last commit whose replies may leave.
func (c *Committer) Acked() uint64 { return c.acked.Load() }

// Begun is the number of the last commit begun. What is in the Logs by now goes with that
// one or the next.
func (c *Committer) Begun() uint64 { return c.begun.Load() }

// Idle reports whether no Log waits to be taken.
func (c *Committer) Idle() bool { return c.queue.Load() == nil }

// Requested reports whether a commit that has not begun will be made.
func (c *Committer) Requested() bool { return c.requested.Load() }

// Pressure says whether changes are taken.
func (c *Committer) Pressure() Pressure { return Pressure(c.pressure.Load()) }

// SetPressure says whether changes are taken, and whether records are to be left out that
// can be, as record.Buffer has it. It reports whether the pressure was another. After
// Fail it stays Wait.
func (c *Committer) SetPressure(p Pressure, tight bool) (changed bool) {
	c.tight.Store(tight)
	if c.Pressure() == p || Pressure(c.pressure.Swap(int32(p))) == p {
		return false
	}
	if c.Err() != nil {
		c.pressure.Store(int32(Wait)) // Fail may have said so before us
		return false
	}
	return true
}

// enqueue puts l on the list of logs to be taken; l is locked.
func (c *Committer) enqueue(l *Log) {
	for {
		head := c.queue.Load()
		l.next = head
		if c.queue.CompareAndSwap(head, l) {
			return
		}
	}
}

// Request sees to it that a commit is made; anyone may call it who owns no shard. Where
// nothing has to be durable that is left to who waits for the commit, in CommitHere, or to
// whoever calls Wake if Requested says so, before long.
func (c *Committer) Request() {
	if !c.requested.Load() && c.requested.CompareAndSwap(false, true) && !c.opts.Here {
		c.Wake()
	}
}

// Wake has the committer's goroutine make a commit, whoever else would.
func (c *Committer) Wake() {
	c.requested.Store(true)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run makes commits whenever Wake is called, until quit is closed or one fails: it is the
// committer's goroutine.
func (c *Committer) Run(quit <-chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-c.wake:
		}
		if c.Commit() != nil {
			return
		}
	}
}

// Here reports whether commits are made by who waits for them.
func (c *Committer) Here() bool { return c.opts.Here }

// CommitHere makes a commit if one was requested, and if that takes one write and no
// waiting; else it is the committer's. It is called by who has replies that depend on one.
func (c *Committer) CommitHere() {
	if !c.opts.Here || !c.requested.Load() {
		return
	}
	if !c.committing.TryLock() {
		c.Wake()
		return
	}
	defer c.committing.Unlock()
	if !c.opts.Prompt() {
		c.Wake()
		return
	}
	c.commit() // its error has ended the storage
}

// Commit makes a commit. An error has ended the storage when it returns, so before the
// next commit can begin: that one would find half of what the Sink writes at once, or a
// sync that succeeds and means nothing.
func (c *Committer) Commit() error {
	c.committing.Lock()
	defer c.committing.Unlock()
	return c.commit()
}

// Exclude runs f while no commit is being made.
func (c *Committer) Exclude(f func()) {
	c.committing.Lock()
	defer c.committing.Unlock()
	f()
}

// commit is Commit for who holds committing.
func (c *Committer) commit() error {
	late, err := c.run()
	if err != nil {
		if !errors.Is(err, ErrStopped) {
			c.Fail(err)
		}
		return err
	}
	if late {
		c.Wake()
	}
	return nil
}

// run takes the Logs, has them written, and acknowledges that if it is safe. It reports
// whether some of it is waited for under the next number, so that another commit must follow.
func (c *Committer) run() (late bool, err error) {
	if err := c.Err(); err != nil {
		return false, err // perhaps another goroutine's
	}
	e := &c.entry
	e.Commit = c.begun.Add(1)
	c.requested.Store(false) // who appends from here on requests another
	for l := c.queue.Swap(nil); l != nil; {
		next := l.next
		late = l.take(e) || late
		if err := c.opts.Sink.Write(e); err != nil {
			return false, err
		}
		clear(e.Refs)
		l.giveBack(e.Data)
		e.Data, e.Refs = nil, nil
		l = next
	}
	safe, err := c.opts.Sink.Sync(e.Commit)
	if err == nil && safe {
		err = c.Committed(e.Commit)
	}
	return late && err == nil, err
}

// Committed acknowledges commit n, and all before it: they are as safe as they should be. A
// Sink calls it whose Sync did not say so, or this package for one whose Sync did, each number
// once at most and in their order. The error is what has ended the storage meanwhile: then
// nothing was acknowledged, and nothing will be.
func (c *Committer) Committed(n uint64) error {
	if err := c.acknowledge(n); err != nil {
		return err
	}
	c.opts.Acked()
	return nil
}

// acknowledge lets the replies go that wait for commit n, unless the storage has failed
// meanwhile, whoever's error that was.
func (c *Committer) acknowledge(n uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		if last, begun := c.acked.Load(), c.begun.Load(); n <= last || n > begun {
			panic(fmt.Sprintf("commit %d is acknowledged after commit %d, when %d has begun", n, last, begun))
		}
		c.acked.Store(n)
	}
	return c.ended()
}

// Err is the Failure that has ended the storage, or nil.
func (c *Committer) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended()
}

// ended is Err for who holds mu.
func (c *Committer) ended() error {
	if c.failure == nil {
		return nil
	}
	return c.failure
}

// Fail ends the storage for a reason that may be another's than a commit's. Only the
// first is kept and told. An error that is no Failure, and has none in it, is the disk's.
func (c *Committer) Fail(err error) {
	f := failureOf(err)
	c.mu.Lock()
	first := c.failure == nil
	if first {
		c.failure = f
	}
	c.mu.Unlock()
	c.pressure.Store(int32(Wait))
	if first {
		c.opts.Failed(f)
	}
}
