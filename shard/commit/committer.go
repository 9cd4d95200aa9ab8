package commit

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"polystalk/shard/record"
	"polystalk/shard/wal/space"
)

// A sink orders commits and makes them safe. Only the goroutine that makes a commit calls it, with
// no shard owned and no Log open, so a sink may block for any time.
//
// An error ends the storage, unless it is ErrStopped: neither this commit nor a later one is
// acknowledged. The records of the commit may be lost or kept.
type sink interface {
	// Write takes the records of one Log for commit e.commit, perhaps none. It must keep the order
	// of records of one Log; the order of Logs is free. The sink may use e until Write returns, and
	// the pieces in e.refs for ever, since they never change.
	Write(e *entry) error

	// Sync ends commit n, which may have no entry. safe says that n is as safe as the policy
	// requires, and may be acknowledged. A sink that needs other servers for that returns false,
	// and committer.Committed is called later. The sink limits the number of commits in progress by
	// blocking in Write or Sync.
	Sync(n uint64) (safe bool, err error)
}

// An entry has the records of one Log for one commit.
type entry struct {
	commit  uint64
	data    []byte       // whole records without the bodies in refs, as in record.Buffer
	refs    []record.Ref // large bodies
	counted int64        // bytes that were reported to committerOptions.appended
	grown   space.Growth
}

// committerOptions configures a committer. All functions must be set.
type committerOptions struct {
	sink sink
	logs int // one for each shard

	// here allows a goroutine that waits for a commit to make it, if prompt reports that it needs
	// one write now and no waiting: to hand that over to another thread would cost more.
	here   bool
	prompt func() bool

	// appended is called when n more bytes wait in a Log: at least step, or with large bodies. The
	// shard's owner calls it with the Log open: it must neither block nor wake a goroutine that may
	// use a shard.
	step     int
	appended func(n int64)
	// acked is called after a commit was acknowledged.
	acked func()
	// failed is called once, with the error that has ended the storage. Pressure is Wait then.
	failed func(*Failure)
}

// A committer numbers commits: it takes the records of the Logs, gives them to a sink, and raises
// Acked once they are safe. One commit serves all Logs, because a sync costs the same for one
// record and for a thousand.
//
// To request a commit is to ask any goroutine to make one. To wake is to ask the committer's
// goroutine to make one. To acknowledge is to release the replies that wait for one.
type committer struct {
	opts committerOptions
	logs []*Log

	queue     atomic.Pointer[Log] // logs with records, linked
	begun     atomic.Uint64       // the last commit begun
	requested atomic.Bool         // a commit is requested and has not begun
	acked     atomic.Uint64
	pressure  atomic.Int32
	tight     atomic.Bool   // see record.Buffer
	wake      chan struct{} // for the committer's goroutine

	committing sync.Mutex // held while a commit is made
	entry      entry      // passed to the sink; guarded by committing

	mu      sync.Mutex
	failure *Failure // what ended the storage; nothing is acknowledged after that
}

// newCommitter makes a committer and its Logs.
func newCommitter(o committerOptions) *committer {
	c := &committer{opts: o, wake: make(chan struct{}, 1)}
	for range o.logs {
		c.logs = append(c.logs, &Log{c: c})
	}
	return c
}

// resume continues the numbers of commits after n, which counts as acknowledged. It is called
// before anything else.
func (c *committer) resume(n uint64) {
	c.begun.Store(n)
	c.acked.Store(n)
}

// Acked returns the last acknowledged commit: its replies may be sent.
func (c *committer) Acked() uint64 { return c.acked.Load() }

// Begun returns the number of the last commit that has begun. Records that are in the Logs now
// belong to that commit or the next.
func (c *committer) Begun() uint64 { return c.begun.Load() }

// Requested reports whether a commit that has not begun will be made.
func (c *committer) Requested() bool { return c.requested.Load() }

// Pressure says whether changes are accepted.
func (c *committer) Pressure() Pressure { return Pressure(c.pressure.Load()) }

// setPressure sets the pressure, and whether a record.Buffer is Tight. It reports whether the
// pressure has changed. After Fail it stays Wait.
func (c *committer) setPressure(p Pressure, tight bool) (changed bool) {
	c.tight.Store(tight)
	if c.Pressure() == p || Pressure(c.pressure.Swap(int32(p))) == p {
		return false
	}
	if c.Err() != nil {
		c.pressure.Store(int32(Wait)) // the Swap may have overwritten the Wait of Fail
		return false
	}
	return true
}

// enqueue adds l to the list of Logs with records; l is locked.
func (c *committer) enqueue(l *Log) {
	for {
		head := c.queue.Load()
		l.next = head
		if c.queue.CompareAndSwap(head, l) {
			return
		}
	}
}

// request requests a commit; the caller must own no shard. With committerOptions.here, a goroutine
// that waits for the commit makes it in CommitHere, or a timer calls Wake soon.
func (c *committer) request() {
	if !c.requested.Load() && c.requested.CompareAndSwap(false, true) && !c.opts.here {
		c.Wake()
	}
}

// Wake makes the committer's goroutine make a commit.
func (c *committer) Wake() {
	c.requested.Store(true)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// serve makes commits whenever Wake is called, until quit is closed or one fails: it is the
// committer's goroutine.
func (c *committer) serve(quit <-chan struct{}) {
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

// CommitHere makes a requested commit if it needs one write and no waiting. Otherwise it leaves
// the commit to the committer's goroutine.
func (c *committer) CommitHere() {
	if !c.opts.here || !c.requested.Load() {
		return
	}
	if !c.committing.TryLock() {
		c.Wake()
		return
	}
	defer c.committing.Unlock()
	if !c.opts.prompt() {
		c.Wake()
		return
	}
	c.commit() // its error has ended the storage
}

// Commit makes a commit. An error ends the storage before the next commit can begin. Otherwise
// that commit would follow a half-written batch, or its sync would falsely report success.
func (c *committer) Commit() error {
	c.committing.Lock()
	defer c.committing.Unlock()
	return c.commit()
}

// exclude runs f while no commit is being made.
func (c *committer) exclude(f func()) {
	c.committing.Lock()
	defer c.committing.Unlock()
	f()
}

// commit implements Commit; the caller holds committing.
func (c *committer) commit() error {
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

// run passes the records of the Logs to the sink, and acknowledges the commit if it is safe. late
// reports that replies to some records wait for the next number, so another commit must follow.
func (c *committer) run() (late bool, err error) {
	if err := c.Err(); err != nil {
		return false, err // perhaps from another goroutine
	}
	e := &c.entry
	e.commit = c.begun.Add(1)
	c.requested.Store(false) // records appended from here on request another
	for l := c.queue.Swap(nil); l != nil; {
		next := l.next
		late = l.take(e) || late
		if err := c.opts.sink.Write(e); err != nil {
			return false, err
		}
		clear(e.refs)
		l.giveBack(e.data)
		e.data, e.refs = nil, nil
		l = next
	}
	safe, err := c.opts.sink.Sync(e.commit)
	if err == nil && safe {
		err = c.Committed(e.commit)
	}
	return late && err == nil, err
}

// Committed acknowledges commit n and all before it. It must be called with increasing numbers.
// If the storage has ended, it returns that error, and nothing is acknowledged any more.
func (c *committer) Committed(n uint64) error {
	if err := c.acknowledge(n); err != nil {
		return err
	}
	c.opts.acked()
	return nil
}

// acknowledge releases the replies that wait for commit n, unless the storage has failed.
func (c *committer) acknowledge(n uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return c.failure
	}
	if last, begun := c.acked.Load(), c.begun.Load(); n <= last || n > begun {
		panic(fmt.Sprintf("commit %d is acknowledged after commit %d, when %d has begun", n, last, begun))
	}
	c.acked.Store(n)
	return nil
}

// Err returns the Failure that has ended the storage, or nil.
func (c *committer) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		return nil
	}
	return c.failure
}

// Fail ends the storage. Only the first error counts. An error that neither is nor wraps a Failure
// has the cause Disk.
func (c *committer) Fail(err error) {
	f := failureOf(err)
	c.mu.Lock()
	first := c.failure == nil
	if first {
		c.failure = f
	}
	c.mu.Unlock()
	c.pressure.Store(int32(Wait))
	if first {
		c.opts.failed(f)
	}
}
