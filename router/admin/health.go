package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard"
	"polystalk/shard/commit"
)

const (
	// aliveWithin is the timeout for a loop or a shard to respond.
	aliveWithin = time.Second
	// aliveFor is how long a result is reused, since clients may probe at any rate.
	aliveFor = 500 * time.Millisecond
)

// The statuses of a check.
const (
	ok   = "ok"
	fail = "fail"
)

// check returns a check; detail is used only if good is false.
func check(name string, good bool, detail string) wire.Check {
	c := wire.Check{Name: name, Status: ok}
	if !good {
		c.Status, c.Detail = fail, detail
	}
	return c
}

// Alive reports whether the server is alive: within a second, every event loop has a turn and
// every shard can be owned. A server that stops after a failure is not alive. A server that starts
// or follows is alive without these checks. Callers share a result for half a second.
func (o *Operator) Alive() *wire.Health {
	life := o.opts.Life
	h := &wire.Health{Status: ok, State: life.Phase().String()}
	if why := life.Failure(); why != "" && !life.restarts() {
		h.Status, h.Checks = fail, []wire.Check{check("not-failed", false, "the server stops: "+why)}
		return h
	}
	if life.Phase() != Serving {
		return h
	}
	checks, _ := o.checks.get(aliveFor, func(*[]wire.Check) (*[]wire.Check, error) { return o.probe(), nil })
	h.Checks = *checks
	for _, c := range h.Checks {
		if c.Status != ok {
			h.Status = fail
		}
	}
	return h
}

// probe checks that every loop has a turn and every shard can be owned.
func (o *Operator) probe() *[]wire.Check {
	ctx, cancel := context.WithTimeout(context.Background(), aliveWithin)
	defer cancel()
	loops := make(chan string, 1)
	go func() {
		var detail string
		if err := o.opts.LoopsTurn(ctx); err != nil {
			detail = err.Error()
		}
		loops <- detail
	}()
	shards := o.stuckShards(ctx)
	detail := <-loops
	return &[]wire.Check{check("loops", detail == "", detail), check("shards", shards == "", shards)}
}

// stuckShards owns each shard for a moment. It returns text that names the shards that it could
// not own before ctx ended.
func (o *Operator) stuckShards(ctx context.Context) string {
	var stuck []int
	caller := direct.New(o.opts.Host.Map, o.opts.Host.Clock)
	for i := range o.opts.Host.Map.Shards() {
		if !caller.Visit(ctx, i, func(*shard.Shard) {}) {
			stuck = append(stuck, i)
		}
	}
	if stuck == nil {
		return ""
	}
	return fmt.Sprintf("the shards %v could not be owned within %v", stuck, aliveWithin)
}

// notStarted returns why a server does not accept clients yet; "": it does. A follower accepts
// clients and forwards them to the leader.
func (o *Operator) notStarted(p Phase) string {
	switch p {
	case Starting:
		if why := o.opts.Life.waits.Load(); why != nil && *why != "" {
			return "the server waits to bootstrap a cluster: " + *why
		}
		return "the journal is being read"
	case Following:
		if _, leader := o.Leads(); leader == "" {
			return "no server of the cluster leads"
		}
		return o.opts.Cluster.Disbelieved()
	}
	return ""
}

// Readiness reports whether the server is ready for clients. It is not ready while the journal is
// read, after the journal has failed, and while the server stops. A follower is not ready if no
// server leads, or if the leader refuses it; a leader is ready even if others refuse it. A drain
// and a full disk are only notes: workers must still connect, since their deletes free space, and a
// follower forwards clients to a leader, which has another disk.
func (o *Operator) Readiness() *wire.Health {
	life := o.opts.Life
	phase := life.Phase()
	h := &wire.Health{Status: ok, State: phase.String(), Progress: life.Progress()}
	failure := life.Failure()
	waits := o.notStarted(phase)
	h.Checks = []wire.Check{
		check("started", waits == "", waits),
		check("journal", failure == "", failure),
		check("not-stopping", phase != Stopping, "the server stops"),
	}
	for _, c := range h.Checks {
		if c.Status != ok {
			h.Status = fail
			h.Notes = append(h.Notes, c.Detail)
		}
	}
	if o.Draining() {
		h.Notes = append(h.Notes, "draining: new jobs are refused")
	}
	if why := o.opts.Cluster.Disbelieved(); why != "" && why != waits {
		h.Notes = append(h.Notes, why)
	}
	h.Notes = append(h.Notes, o.spaceNotes(phase)...)
	return h
}

// spaceNotes returns notes about full disks and their effect. It does not wait for a disk.
func (o *Operator) spaceNotes(phase Phase) (notes []string) {
	_, pressure := o.kept()
	here, others := o.opts.Cluster.FullDisks()
	switch {
	case pressure != commit.Full:
	case phase == Following:
		notes = append(notes, "the disk is full: this server stores no changes of the cluster until there is space; clients are forwarded")
	case here || len(others) == 0:
		notes = append(notes, "the disk is full: changes that need space are refused")
	default:
		notes = append(notes, "the disks of too many other servers are full: changes that need space are refused")
	}
	if len(others) > 0 {
		notes = append(notes, "other servers with a full disk: "+strings.Join(others, ", "))
	}
	return notes
}

// A Phase is a phase of a server's life.
type Phase int32

// The phases, in their order.
const (
	Starting  Phase = iota // the journal is read
	Following              // another server leads, or may; the shards apply its changes
	Serving
	Stopping
)

// String returns the phase's name in replies.
func (p Phase) String() string { return [...]string{"starting", "following", "serving", "stopping"}[p] }

// A Life holds a server's phase and its failure. The zero value is Starting. Any goroutine may
// call its methods at any time.
type Life struct {
	phase     atomic.Int32
	read, all atomic.Int64
	waits     atomic.Pointer[string]
	failure   atomic.Pointer[failure]
}

// A failure is the reason why a server must stop.
type failure struct {
	text     string
	restarts bool // another server leads: the process restarts
}

// Phase returns the current phase. A goroutine that sees Serving also sees everything that was
// set before.
func (l *Life) Phase() Phase { return Phase(l.phase.Load()) }

// Follow ends the phase Starting.
func (l *Life) Follow() { l.phase.CompareAndSwap(int32(Starting), int32(Following)) }

// Serve begins the phase Serving, unless the server stops.
func (l *Life) Serve() {
	if !l.phase.CompareAndSwap(int32(Following), int32(Serving)) {
		l.phase.CompareAndSwap(int32(Starting), int32(Serving))
	}
}

// Stop begins the phase Stopping.
func (l *Life) Stop() { l.phase.Store(int32(Stopping)) }

// Read sets the number of bytes of the journal that were read, and its size.
func (l *Life) Read(read, all int64) {
	l.all.Store(all)
	l.read.Store(read)
}

// Waits sets what the server waits for before it can read a journal; "": nothing.
func (l *Life) Waits(why string) { l.waits.Store(&why) }

// Bytes returns the last values of Read, also after the journal is read.
func (l *Life) Bytes() (read, all int64) { return l.read.Load(), l.all.Load() }

// Progress returns the last values of Read while the journal is read, else nil.
func (l *Life) Progress() *wire.Progress {
	read, all := l.Bytes()
	if l.Phase() != Starting || all == 0 {
		return nil
	}
	return &wire.Progress{ReadBytes: read, AllBytes: all}
}

// Fail sets the reason why the server must stop. Later reasons are ignored.
func (l *Life) Fail(err error) {
	f, ok := errors.AsType[*commit.Failure](err)
	l.failure.CompareAndSwap(nil, &failure{err.Error(), ok && f.Cause == commit.Deposed})
}

// Failure returns the reason that Fail has set, or "".
func (l *Life) Failure() string {
	if f := l.failure.Load(); f != nil {
		return f.text
	}
	return ""
}

// restarts reports whether the process restarts after the failure.
func (l *Life) restarts() bool {
	f := l.failure.Load()
	return f != nil && f.restarts
}
