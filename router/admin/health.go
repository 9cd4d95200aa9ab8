package admin

import (
	"fmt"
	"sync"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard/commit"
)

const (
	// aliveWithin is how long a loop or a shard may take to answer.
	aliveWithin = time.Second
	// aliveFor is how long an answer holds: probes may come from anybody, as often as they
	// like.
	aliveFor = 500 * time.Millisecond
	// aliveStep is how often it is looked whether a loop has turned.
	aliveStep = time.Millisecond
)

// alive is the last answer of Alive.
type alive struct {
	mu     sync.Mutex // held while it is found out
	at     time.Time
	checks []wire.Check
	stuck  bool // a caller waits for a shard, and may wait for ever
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

// Alive reports whether the server lives: every event loop has a turn, and every shard can
// be visited, within a second. While it starts there is nothing to ask. It may be called at
// any time; several who ask at once share an answer, which may be half a second old.
func (o *Operator) Alive() *wire.Health {
	h := &wire.Health{Status: ok, State: o.opts.Life.Phase().String()}
	if o.opts.Life.Phase() != Serving {
		return h
	}
	a := &o.alive
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() || time.Since(a.at) > aliveFor {
		a.checks = []wire.Check{o.loopsTurn(), o.shardsAnswer()}
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

// loopsTurn asks each loop for a turn.
func (o *Operator) loopsTurn() wire.Check {
	loops := o.opts.Host.Loops()
	end := time.Now().Add(aliveWithin)
	for i, l := range loops {
		before := l.Turned()
		l.Ask()
		for l.Turned() == before {
			if time.Now().After(end) {
				return check("loops", false, fmt.Sprintf("event loop %d of %d had no turn for %v", i, len(loops), aliveWithin))
			}
			time.Sleep(aliveStep)
		}
	}
	return check("loops", true, "")
}

// shardsAnswer visits each shard. One that never answers keeps the caller, so that is not
// one of those that others need.
func (o *Operator) shardsAnswer() wire.Check {
	a := &o.alive
	if a.stuck {
		return check("shards", false, "a shard has not answered for long")
	}
	done := make(chan struct{})
	go func() {
		direct.New(o.opts.Host.Map, o.opts.Host.Clock).Counts()
		close(done)
	}()
	select {
	case <-done:
		return check("shards", true, "")
	case <-time.After(aliveWithin):
		a.stuck = true
		go func() {
			<-done
			a.mu.Lock()
			a.stuck = false
			a.mu.Unlock()
		}()
		return check("shards", false, fmt.Sprintf("a shard was not free for %v", aliveWithin))
	}
}

// Readiness reports whether clients should come: not while the journal is read, when it has
// failed, or when the server ends. A drain or a full disk are notes alone: workers must
// still get in. It may be called at any time.
func (o *Operator) Readiness() *wire.Health {
	life := o.opts.Life
	phase := life.Phase()
	h := &wire.Health{Status: ok, State: phase.String(), Progress: life.Progress()}
	failure := life.Failure()
	h.Checks = []wire.Check{
		check("started", phase != Starting, "the journal is being read"),
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
	if phase == Serving {
		if j := o.journal(); j != nil && j.Pressure() == commit.Full {
			h.Notes = append(h.Notes, "the disk is full: only what takes no space is taken")
		}
	}
	return h
}
