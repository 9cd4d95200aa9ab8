package admin

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard"
	"polystalk/shard/commit"
)

const (
	// aliveWithin is how long a loop or a shard may take to answer.
	aliveWithin = time.Second
	// aliveFor is how long an answer holds: probes may come from anybody, as often as they
	// like.
	aliveFor = 500 * time.Millisecond
)

// alive is the last answer of Alive.
type alive struct {
	mu     sync.Mutex // held while it is found out
	at     time.Time
	checks []wire.Check
}

// ok and fail are what a Check says.
const (
	ok   = "ok"
	fail = "fail"
)

func check(name string, good bool, detail string) wire.Check {
	c := wire.Check{Name: name, Status: ok}
	if !good {
		c.Status, c.Detail = fail, detail
	}
	return c
}

// Alive reports whether the server lives: every event loop has a turn, and every shard can be
// owned, within a second. A server that ends because it has failed does not live, whatever it waits
// for. While a server starts or follows, Alive checks nothing else. Alive may be called at any time.
// Callers share an answer for half a second.
func (o *Operator) Alive() *wire.Health {
	life := o.opts.Life
	h := &wire.Health{Status: ok, State: life.Phase().String()}
	if why := life.Failure(); why != "" && !life.Restarts() {
		h.Status, h.Checks = fail, []wire.Check{check("not-failed", false, "the server ends: "+why)}
		return h
	}
	if life.Phase() != Serving {
		return h
	}
	a := &o.alive
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() || time.Since(a.at) > aliveFor {
		a.checks = o.look()
		a.at = time.Now()
	}
	h.Checks = a.checks
	for _, c := range a.checks {
		if c.Status != ok {
			h.Status = fail
		}
	}
	return h
}

// look finds out whether the loops turn and the shards can be owned.
func (o *Operator) look() []wire.Check {
	ctx, cancel := context.WithTimeout(context.Background(), aliveWithin)
	defer cancel()
	loops := make(chan error, 1)
	go func() { loops <- o.opts.LoopsTurn(ctx) }()
	shards := o.shardsOwned(ctx)
	return []wire.Check{verdict("loops", <-loops), verdict("shards", shards)}
}

// shardsOwned owns each shard for a moment. One that cannot be had keeps nobody: the visit
// is given up.
func (o *Operator) shardsOwned(ctx context.Context) error {
	var stuck []int
	caller := direct.New(o.opts.Host.Map, o.opts.Host.Clock)
	for i := range o.opts.Host.Map.Shards() {
		if !caller.Visit(ctx, i, func(*shard.Shard) {}) {
			stuck = append(stuck, i)
		}
	}
	if stuck != nil {
		return fmt.Errorf("the shards %v could not be owned within %v", stuck, aliveWithin)
	}
	return nil
}

// verdict is the check of what has ended with err.
func verdict(name string, err error) wire.Check {
	if err != nil {
		return check(name, false, err.Error())
	}
	return check(name, true, "")
}

// notStarted says why a server does not serve yet; empty: it does, or hands clients on.
func (o *Operator) notStarted(p Phase) string {
	switch p {
	case Starting:
		return "the journal is being read"
	case Following:
		return o.unready()
	}
	return ""
}

// Readiness reports whether clients should come: not while the journal is read, when it has
// failed, when the server ends, or when it follows and knows of nobody who leads, or is not believed
// there. Who leads and is not believed serves clients all the same. A drain or a full disk are notes alone: workers must still get in, whose deletes make room. Nor does a client miss
// anything at a server that follows with a full disk: it is handed to the one that leads, which
// does not wait for that disk. It may be called at any time.
func (o *Operator) Readiness() *wire.Health {
	life := o.opts.Life
	phase := life.Phase()
	h := &wire.Health{Status: ok, State: phase.String(), Progress: life.Progress()}
	failure := life.Failure()
	waits := o.notStarted(phase)
	h.Checks = []wire.Check{
		check("started", waits == "", waits),
		check("journal", failure == "", failure),
		check("not-stopping", phase != Stopping, "the server ends"),
	}
	for _, c := range h.Checks {
		if c.Status != ok {
			h.Status = fail
			h.Notes = append(h.Notes, c.Detail)
		}
	}
	if o.Draining() {
		h.Notes = append(h.Notes, "draining: no new jobs are taken")
	}
	if why := o.disbelieved(); why != "" && why != waits {
		h.Notes = append(h.Notes, why)
	}
	h.Notes = append(h.Notes, o.spaceNotes(phase)...)
	return h
}

// spaceNotes say whose disks are full, and what that does. A probe waits for no disk to say so.
func (o *Operator) spaceNotes(phase Phase) (notes []string) {
	_, pressure := o.kept()
	here, others := true, []string(nil)
	if k := o.opts.Cluster; k != nil {
		here, others = k.FullDisks()
	}
	switch {
	case pressure != commit.Full:
	case phase == Following:
		notes = append(notes, "the disk is full: this server does not keep what the others do before there is space; clients are handed on")
	case here || len(others) == 0:
		notes = append(notes, "the disk is full: only what takes no space is taken")
	default:
		notes = append(notes, "the disks of too many other servers are full: only what takes no space is taken")
	}
	if len(others) > 0 {
		notes = append(notes, "other servers whose disks are full: "+strings.Join(others, ", "))
	}
	return notes
}
