package main

import (
	"math/rand/v2"
	"time"

	"polystalk/loadtest/bench"
)

// An act is what a worker does with a reserved job.
type act uint8

const (
	actDelete act = iota
	actRelease
	actDelay
	actBury
	actTouch
	actExpire
)

// A task is a reserved job and the act for it.
type task struct {
	waitingJob
	act   act
	pri   uint32
	delay time.Duration
}

// work reserves jobs from all tubes, several at a time, and acts on each.
func (w *crew) work(c *conn, rng *rand.Rand) error {
	if err := w.watch(c, w.names[:tubes]); err != nil {
		return err
	}
	for range 1000 { // bounds how long it keeps jobs until their TTR ends
		n, wait := 1+rng.IntN(depth), 0
		if rng.IntN(4) == 0 {
			n, wait = 1, 1 // the reserve waits on the server
		}
		tasks, err := w.reserve(c, n, wait)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			if w.sleep(time.Duration(1+rng.IntN(10)) * time.Millisecond); w.ctx.Err() != nil {
				return nil
			}
			continue
		}
		for i := range tasks {
			tasks[i].draw(rng)
		}
		if rng.IntN(20) == 0 {
			w.sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		}
		if err := w.finish(c, tasks); err != nil {
			return err
		}
	}
	return nil
}

// watch makes c watch tubes.
func (w *crew) watch(c *conn, tubes []string) error {
	for _, name := range tubes {
		c.say("watch %s\r\n", name)
		if _, err := c.ask("WATCHING"); err != nil {
			return err
		}
	}
	c.say("ignore default\r\n")
	_, err := c.ask("WATCHING")
	return err
}

// reserve asks for n jobs in one write, and returns the jobs it got. The server may wait for up to
// wait seconds.
func (w *crew) reserve(c *conn, n, wait int) (tasks []task, err error) {
	for range n {
		c.say("reserve-with-timeout %d\r\n", wait)
	}
	if err := c.send(); err != nil {
		return nil, err
	}
	for range n {
		r, err := c.read("reserve", time.Duration(wait)*time.Second)
		if err != nil {
			return nil, err
		}
		switch r.word {
		case "RESERVED":
			if t, ok := c.holder.reserved(r.id, r.body, c.call()); ok {
				tasks = append(tasks, task{waitingJob: waitingJob{t, r.id}})
			}
		case "TIMED_OUT", "DEADLINE_SOON":
		default:
			return nil, wrong{"reserve", r.word}
		}
	}
	return tasks, nil
}

// draw draws the act for the job.
func (t *task) draw(rng *rand.Rand) {
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

// finish sends the acts in one write, and reads the answers.
func (w *crew) finish(c *conn, tasks []task) error {
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
	for _, t := range tasks {
		if t.act == actExpire {
			continue // its reservation ends by its TTR, or with the connection
		}
		var r reply
		if err == nil {
			r, err = c.read("a change", 0)
		}
		switch {
		case err == nil:
			err = w.done(c, t, r)
		case t.act == actDelete:
			c.holder.deleteInDoubt(t.token, c.sent)
		case t.act != actTouch:
			c.holder.changeInDoubt(t.token, t.pri, c.sent)
		}
	}
	return err
}

// done reports the answer to a change to the history.
func (w *crew) done(c *conn, t task, r reply) error {
	s, call := c.holder, c.call()
	switch {
	case r.word == "NOT_FOUND":
		s.notFound(t.token, call)
	case r.word == "DELETED" && t.act == actDelete:
		s.deleted(t.token, call)
	case r.word == "RELEASED" && (t.act == actRelease || t.act == actDelay):
		s.released(t.token, t.pri, t.delay, call)
		if t.delay == longDelay {
			w.keep(t.waitingJob)
		}
	case r.word == "BURIED" && t.act == actBury:
		s.buried(t.token, t.pri, call)
		w.keep(t.waitingJob)
	case r.word == "TOUCHED" && t.act == actTouch:
		s.touched(t.token, call)
	case r.word == "OUT_OF_MEMORY" || r.word == "INTERNAL_ERROR":
		// The disk is full: the job is unchanged and still held.
	default:
		return wrong{"a change of a job", r.word}
	}
	return nil
}

// kick makes jobs ready that would otherwise wait forever: buried and delayed ones by id, and in
// one tube a number of jobs.
func (w *crew) kick(c *conn, rng *rand.Rand) error {
	h := w.h
	c.say("use %s\r\n", w.names[kickedTube])
	if _, err := c.ask("USING"); err != nil {
		return err
	}
	for {
		if w.sleep(time.Duration(rng.IntN(50)) * time.Millisecond); w.ctx.Err() != nil {
			return nil
		}
		jobs := w.takeKept()
		for _, j := range jobs {
			h.kicking(j.token)
			c.say("kick-job %d\r\n", j.id)
		}
		c.send() // an error shows in the answers
		for i, j := range jobs {
			r, err := c.read("kick-job", 0)
			if err != nil {
				w.keep(jobs[i:]...) // kick them again later, whatever happened to them
				return err
			}
			if r.word != "KICKED" && r.word != "NOT_FOUND" && r.word != "OUT_OF_MEMORY" {
				return wrong{"kick-job", r.word}
			}
			h.kickAnswered(j.token, c.call(), r.word == "KICKED")
		}
		if rng.IntN(10) == 0 {
			h.kickingTube(kickedTube)
			c.say("kick %d\r\n", 1+rng.IntN(20))
			if _, err := c.ask("KICKED", "OUT_OF_MEMORY"); err != nil {
				return err
			}
			h.tubeKicked(kickedTube, bench.Now())
		}
	}
}
