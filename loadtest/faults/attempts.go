package main

import (
	"math/rand/v2"
	"net/url"
	"time"

	"polystalk/codec/admin"
	"polystalk/loadtest/bench"
)

// With -attempts N one tube has a policy: every Nth failed attempt buries its job. Its workers let
// attempts fail in three ways: they release the job, hold it until its TTR ends, or disconnect. No
// client kicks these jobs, so the history can count their reservations.

const (
	failingName = "failing"
	failingTube = tubes + functions
)

// setPolicy sets the policy.
func (r *run) setPolicy() error {
	if r.o.attempts == 0 {
		return nil
	}
	return r.await("the policy is not set", func() error {
		return r.fleet.all()[0].request(r.ctx, "PUT", "/policies/"+url.PathEscape(failingName), admin.Policy{Match: failingName, Attempts: uint64(r.o.attempts)}, nil)
	})
}

// drawFailing draws the act for a job of the tube with the policy.
func (t *task) drawFailing(rng *rand.Rand) {
	t.pri = rng.Uint32N(1000)
	switch n := rng.IntN(10); {
	case n < 5:
		t.act = opRelease
	case n < 6:
		t.act, t.delay = opRelease, time.Second
	case n < 8:
		t.act = opEnd
	}
}

// inter deletes the buried jobs of the tube.
func (w *crew) inter(c *conn, rng *rand.Rand) error {
	c.say("use %s\r\n", failingName)
	if err := c.ask("USING"); err != nil {
		return err
	}
	for {
		c.say("peek-buried\r\n")
		if err := c.send(); err != nil {
			return err
		}
		word, err := c.read("peek-buried", 0)
		switch {
		case err != nil:
			return err
		case word == "NOT_FOUND":
			if w.sleep(time.Duration(rng.IntN(50)) * time.Millisecond); w.ctx.Err() != nil {
				return nil
			}
			continue
		case word != "FOUND":
			return wrong("peek-buried", word)
		}
		if t, ok := c.holder.peeked(c.Reply.Num, c.Reply.Body, c.call()); ok {
			if err := w.finish(c, []task{{waitingJob: waitingJob{t, c.Reply.Num}, act: opDelete}}); err != nil {
				return err
			}
		}
	}
}

// peeked reports a job that the client has seen and not reserved.
func (s *holder) peeked(id uint64, body []byte, c call) (t token, ok bool) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	t, j, ok := h.recognize(id, body, c)
	if ok {
		h.named(t, j, id, c)
		h.exists(t, j, id, c)
	}
	return t, ok
}

// exits is a number of servers that ended, or ended to lead, between two times. Each may forget one
// attempt of a job, the one in progress.
type exits struct {
	from, to int64
	n        int
}

// tries are the reservations of a job that has more of them than attempts.
type tries struct {
	token       token
	n           int
	first, last int64
}

// noteExits tells the history how many servers have ended since the last call. In a cluster a leader
// has a later term than the one before it.
func (r *run) noteExits() error {
	total := 0
	for _, n := range r.fleet.all() {
		total += n.starts
	}
	if r.fleet.cluster {
		_, c, err := r.fleet.leader(r.ctx)
		if err != nil {
			return err
		}
		total = int(c.Term)
	}
	r.h.exited(total-r.exits, bench.Now())
	r.exits = total
	return nil
}

// exited reports the number of exits since the last call.
func (h *history) exited(n int, now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	from := int64(0)
	if len(h.exits) > 0 {
		from = h.exits[len(h.exits)-1].to
	}
	h.exits = append(h.exits, exits{from, now, n})
}

// count notes a job that has more reservations than attempts. Those after the run do not count,
// since all jobs are kicked then.
func (h *history) count(t token, l *life) {
	x := tries{token: t, first: never}
	for _, o := range l.ops {
		if o.Input.(*op).kind == opReserve && (!h.rest || o.Return <= h.end) {
			x.n, x.first, x.last = x.n+1, min(x.first, o.Call), max(x.last, o.Return)
		}
	}
	if x.n > h.attempts {
		h.tries = append(h.tries, x)
	}
}

// judgeTries checks that the exits explain all further reservations.
func (h *history) judgeTries() {
	for _, x := range h.tries {
		most := h.attempts
		for _, e := range h.exits {
			if e.to >= x.first && e.from <= x.last {
				most += e.n
			}
		}
		if h.most = max(h.most, x.n); x.n > most {
			h.violated(often, x.token, h.jobs[x.token].id, call{x.first, x.last}, "it was reserved %d times, and may be %d times", x.n, most)
		}
	}
}
