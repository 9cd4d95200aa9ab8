package client

import (
	"math/rand/v2"
	"time"

	"polystalk/loadtest/bench"
	"polystalk/loadtest/faults/history"
)

// An act is what a worker does with a job that it holds.
type act uint8

const (
	actDelete act = iota
	actRelease
	actDelay
	actBury
	actTouch
	actExpire
)

// A task is a job that a worker holds, and what it does with it.
type task struct {
	token history.Token
	id    uint64
	act   act
	pri   uint32
	delay time.Duration
}

// labour reserves jobs from all tubes, some at a time, and does something with each.
func (w *Crew) labour(c *conn, rng *rand.Rand) error {
	if err := w.watch(c); err != nil {
		return err
	}
	// Jobs whose TTR is never over are held until the connection ends, so each does.
	for range 1000 {
		n, wait := 1+rng.IntN(w.o.Depth), 0
		if rng.IntN(4) == 0 {
			n, wait = 1, 1 // it waits in the server's queue
		}
		tasks, err := w.reserve(c, n, wait)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			w.sleep(time.Duration(1+rng.IntN(10)) * time.Millisecond)
			if w.ctx.Err() != nil {
				return nil
			}
			continue
		}
		decide(rng, tasks)
		if rng.IntN(20) == 0 {
			w.sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		}
		if err := w.finish(c, tasks); err != nil {
			return err
		}
	}
	return nil
}

// watch makes c watch all tubes of beanstalkd's clients, and no other.
func (w *Crew) watch(c *conn) error {
	for _, name := range w.names[:w.o.Tubes] {
		c.say("watch %s\r\n", name)
		if _, err := c.ask(0, "WATCHING"); err != nil {
			return err
		}
	}
	c.say("ignore default\r\n")
	_, err := c.ask(0, "WATCHING")
	return err
}

// reserve asks for n jobs in one write, and returns those that there were.
func (w *Crew) reserve(c *conn, n, wait int) ([]task, error) {
	for range n {
		c.say("reserve-with-timeout %d\r\n", wait)
	}
	if err := c.send(); err != nil {
		return nil, err
	}
	var tasks []task
	for range n {
		r, err := c.read("reserve", time.Duration(wait)*time.Second)
		if err != nil {
			return nil, err
		}
		switch r.word {
		case "RESERVED":
			if t, ok := c.session.Reserved(r.id, r.body, c.call()); ok {
				tasks = append(tasks, task{token: t, id: r.id})
			}
		case "TIMED_OUT", "DEADLINE_SOON":
		default:
			return nil, wrong{"reserve", r.word}
		}
	}
	return tasks, nil
}

// decide draws what is done with each.
func decide(rng *rand.Rand, tasks []task) {
	for i := range tasks {
		t := &tasks[i]
		t.pri = rng.Uint32N(1000)
		switch n := rng.IntN(200); {
		case n < 12:
			t.act = actRelease
		case n < 17:
			t.act, t.delay = actDelay, time.Duration(1+rng.IntN(2))*time.Second
		case n < 18:
			t.act, t.delay = actDelay, longDelay
		case n < 24:
			t.act = actBury
		case n < 28:
			t.act = actTouch
		case n < 29:
			t.act = actExpire
		}
	}
}

// finish does with the jobs what was decided, in one write, and takes the answers.
func (w *Crew) finish(c *conn, tasks []task) error {
	for _, t := range tasks {
		switch t.act {
		case actDelete:
			c.say("delete %d\r\n", t.id)
		case actRelease, actDelay:
			c.say("release %d %d %d\r\n", t.id, t.pri, t.delay/time.Second)
		case actBury:
			c.say("bury %d %d\r\n", t.id, t.pri)
		case actTouch:
			c.say("touch %d\r\n", t.id)
		}
	}
	err := c.send()
	for i := range tasks {
		t := &tasks[i]
		if t.act == actExpire {
			continue // its reservation ends with its TTR, or with the connection
		}
		var r reply
		if err == nil {
			r, err = c.read("a change", 0)
		}
		if err != nil {
			doubt(c, t)
			continue
		}
		err = w.done(c, t, r)
	}
	return err
}

// doubt tells of a change that was sent and not answered.
func doubt(c *conn, t *task) {
	switch t.act {
	case actDelete:
		c.session.DeleteInDoubt(t.token, c.sent)
	case actRelease, actDelay, actBury:
		c.session.ChangeInDoubt(t.token, t.pri, c.sent)
	}
}

// done takes the answer to a change.
func (w *Crew) done(c *conn, t *task, r reply) error {
	s, call := c.session, c.call()
	switch {
	case r.word == "NOT_FOUND":
		s.NotFound(t.token, call)
	case r.word == "DELETED" && t.act == actDelete:
		s.Deleted(t.token, call)
	case r.word == "RELEASED" && (t.act == actRelease || t.act == actDelay):
		s.Released(t.token, t.pri, t.delay, call)
		if t.delay == longDelay {
			w.keep(t.token, t.id)
		}
	case r.word == "BURIED" && t.act == actBury:
		s.Buried(t.token, t.pri, call)
		w.keep(t.token, t.id)
	case r.word == "TOUCHED" && t.act == actTouch:
		s.Touched(t.token, call)
	case r.word == "OUT_OF_MEMORY" || r.word == "INTERNAL_ERROR":
		// A full disk: the job is what it was, and held.
	default:
		return wrong{"a change of a job", r.word}
	}
	return nil
}

// kick makes jobs ready that would wait for ever: by id those that clients have
// buried or put off, and in one tube as many as there are.
func (w *Crew) kick(c *conn, rng *rand.Rand) error {
	h := w.o.History
	c.say("use %s\r\n", w.names[kickedTube])
	if _, err := c.ask(0, "USING"); err != nil {
		return err
	}
	for {
		w.sleep(time.Duration(rng.IntN(50)) * time.Millisecond)
		if w.ctx.Err() != nil {
			return nil
		}
		jobs := w.kept(w.o.Depth)
		for _, j := range jobs {
			h.Kicking(j.token)
			c.say("kick-job %d\r\n", j.id)
		}
		c.send() // an error shows in the answers
		for i, j := range jobs {
			r, err := c.read("kick-job", 0)
			if err != nil {
				for _, j := range jobs[i:] {
					w.keep(j.token, j.id) // whatever has become of it, it is kicked again
				}
				return err
			}
			if r.word != "KICKED" && r.word != "NOT_FOUND" && r.word != "OUT_OF_MEMORY" {
				return wrong{"kick-job", r.word}
			}
			h.Kicked(j.token, c.call(), r.word == "KICKED")
		}
		if rng.IntN(10) == 0 {
			h.KickingTube(kickedTube)
			c.say("kick %d\r\n", 1+rng.IntN(20))
			if _, err := c.ask(0, "KICKED", "OUT_OF_MEMORY"); err != nil {
				return err
			}
			h.KickedTube(kickedTube, bench.Now())
		}
	}
}
