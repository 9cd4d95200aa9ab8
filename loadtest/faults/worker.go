package main

import (
	"math/rand/v2"
	"time"

	"polystalk/loadtest/bench"
)

// A task is a reserved job and what a worker does with it: opDelete, opRelease, opBury, opTouch, or
// opEnd for nothing, so that its reservation ends by its TTR or with the connection.
type task struct {
	waitingJob
	act   opKind
	pri   uint32
	delay time.Duration
}

// work reserves jobs from tubes, several at a time, and acts on each.
func (w *crew) work(c *conn, rng *rand.Rand, names []string, draw func(*task, *rand.Rand)) error {
	if err := w.watch(c, names); err != nil {
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
			draw(&tasks[i], rng)
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
		if err := c.ask("WATCHING"); err != nil {
			return err
		}
	}
	c.say("ignore default\r\n")
	return c.ask("WATCHING")
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
		word, err := c.read("reserve", time.Duration(wait)*time.Second)
		if err != nil {
			return nil, err
		}
		switch word {
		case "RESERVED":
			if t, ok := c.holder.reserved(c.Reply.Num, c.Reply.Body, c.call()); ok {
				tasks = append(tasks, task{waitingJob: waitingJob{t, c.Reply.Num}, act: opDelete})
			}
		case "TIMED_OUT", "DEADLINE_SOON":
		default:
			return nil, wrong("reserve", word)
		}
	}
	return tasks, nil
}

// draw draws the act for the job.
func (t *task) draw(rng *rand.Rand) {
	t.pri = rng.Uint32N(1000)
	switch n := rng.IntN(200); {
	case n < 12:
		t.act = opRelease
	case n < 17:
		t.act, t.delay = opRelease, time.Duration(1+rng.IntN(2))*time.Second
	case n < 18:
		t.act, t.delay = opRelease, longDelay
	case n < 24:
		t.act = opBury
	case n < 28:
		t.act = opTouch
	case n < 29:
		t.act = opEnd
	}
}

// finish sends the acts in one write, and reads and reports the answers.
func (w *crew) finish(c *conn, tasks []task) error {
	for _, t := range tasks {
		switch t.act {
		case opDelete:
			c.say("delete %d\r\n", t.id)
		case opRelease:
			c.say("release %d %d %d\r\n", t.id, t.pri, t.delay/time.Second)
		case opBury:
			c.say("bury %d %d\r\n", t.id, t.pri)
		case opTouch:
			c.say("touch %d\r\n", t.id)
		}
	}
	err := c.send()
	for _, t := range tasks {
		if t.act == opEnd {
			continue
		}
		o := op{kind: t.act, pri: t.pri}
		if t.delay > 0 {
			o.due = c.sent + int64(t.delay)
		}
		var word string
		if err == nil {
			word, err = c.read("a change", 0)
		}
		switch {
		case err != nil && t.act != opTouch:
			c.holder.doubted(t.token, o, c.sent)
		case err != nil:
		case word == opNames[t.act]:
			c.holder.told(t.token, o, c.call())
			if t.act == opBury || t.delay == longDelay {
				w.keep(t.waitingJob)
			}
		case word == "NOT_FOUND":
			c.holder.told(t.token, op{kind: opNotFound}, c.call())
		case word == "OUT_OF_MEMORY" || word == "INTERNAL_ERROR":
			// The disk is full: the job is unchanged and still held.
		default:
			err = wrong("a change of a job", word)
		}
	}
	return err
}

// kick makes jobs ready that would otherwise wait forever: buried and delayed ones by id, and in
// one tube a number of jobs.
func (w *crew) kick(c *conn, rng *rand.Rand) error {
	h := w.h
	c.say("use %s\r\n", w.names[kickedTube])
	if err := c.ask("USING"); err != nil {
		return err
	}
	for {
		if w.sleep(time.Duration(rng.IntN(50)) * time.Millisecond); w.ctx.Err() != nil {
			return nil
		}
		jobs := w.takeKept()
		for _, j := range jobs {
			h.kicking(j.token, bench.Now())
			c.say("kick-job %d\r\n", j.id)
		}
		c.send() // an error shows in the answers
		for i, j := range jobs {
			word, err := c.read("kick-job", 0)
			if err != nil {
				w.keep(jobs[i:]...) // kick them again later, whatever happened to them
				return err
			}
			if word != "KICKED" && word != "NOT_FOUND" && word != "OUT_OF_MEMORY" {
				return wrong("kick-job", word)
			}
			h.kickAnswered(j.token, c.call(), word == "KICKED")
		}
		if rng.IntN(10) == 0 {
			if err := w.kickTube(c, kickedTube, 1+rng.IntN(20), "KICKED", "OUT_OF_MEMORY"); err != nil {
				return err
			}
		}
	}
}

// kickTube kicks up to n jobs of the used tube.
func (w *crew) kickTube(c *conn, tube, n int, words ...string) error {
	w.h.kickingTube(tube)
	c.say("kick %d\r\n", n)
	err := c.ask(words...)
	if err == nil {
		w.h.tubeKicked(tube, bench.Now())
	}
	return err
}
