package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"polystalk/loadtest/bench"
	"polystalk/loadtest/faults/history"
)

// Drain looks at all jobs that are there and takes them out, until the servers say
// that none is left. It is to be called once the crew has stopped and no fault lasts.
func (w *Crew) Drain(ctx context.Context) error {
	w.ctx = ctx
	w.o.History.Rest()
	rng := rand.New(rand.NewPCG(w.o.Seed, 2))
	var looked bool
	for {
		c, err := dial(ctx, w.o.Beanstalkd(), rng, 30*time.Second, w.o.History)
		if err == nil {
			if !looked {
				err = w.look(c)
				looked = err == nil
			}
			if err == nil {
				err = w.empty(c)
			}
			c.close()
		}
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, errBroken):
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("jobs are left: %w", context.Cause(ctx))
		}
		w.sleep(50 * time.Millisecond)
	}
}

// look asks what each job is of which the id is known.
func (w *Crew) look(c *conn) error {
	h := w.o.History
	var jobs []waiting
	h.Lasting(func(t history.Token, id uint64) bool {
		jobs = append(jobs, waiting{t, id})
		return true
	})
	for len(jobs) > 0 {
		some := jobs[:min(len(jobs), 100)]
		jobs = jobs[len(some):]
		for _, j := range some {
			c.say("stats-job %d\r\n", j.id)
		}
		if err := c.send(); err != nil {
			return err
		}
		for _, j := range some {
			r, err := c.read("stats-job", 0)
			if err != nil {
				return err
			}
			if r.word == "OK" {
				h.Look(j.token, sight(r.body), c.call())
			} else if r.word != "NOT_FOUND" {
				return wrong{"stats-job", r.word}
			}
		}
	}
	return nil
}

// sight reads what stats-job says.
func sight(body []byte) history.Sight {
	var s history.Sight
	for line := range bytes.Lines(body) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		text := string(bytes.Trim(value, `"`))
		number, _ := strconv.ParseUint(text, 10, 32)
		switch string(name) {
		case "tube":
			s.Tube = text
		case "state":
			s.State = text
		case "pri":
			s.Pri = uint32(number)
		case "ttr":
			s.TTR = uint32(number)
		}
	}
	return s
}

// empty takes out all jobs.
func (w *Crew) empty(c *conn) error {
	h := w.o.History
	for _, name := range w.names {
		c.say("watch %s\r\n", name)
		if _, err := c.ask(0, "WATCHING"); err != nil {
			return err
		}
	}
	for {
		for i, name := range w.names {
			c.say("use %s\r\n", name)
			if _, err := c.ask(0, "USING"); err != nil {
				return err
			}
			for {
				h.KickingTube(i)
				c.say("kick 100000\r\n")
				r, err := c.ask(0, "KICKED")
				if err != nil {
					return err
				}
				h.KickedTube(i, bench.Now())
				if r.id == 0 {
					break
				}
			}
		}
		for {
			tasks, err := w.reserve(c, 100, 0)
			if err != nil {
				return err
			}
			if len(tasks) == 0 {
				break
			}
			if err := w.finish(c, tasks); err != nil {
				return err
			}
		}
		c.say("stats\r\n")
		r, err := c.ask(0, "OK")
		if err != nil {
			return err
		}
		if left := jobsIn(r.body); left == 0 {
			return nil
		}
		w.sleep(100 * time.Millisecond) // a connection that has ended may not have let go yet
		if w.ctx.Err() != nil {
			return errBroken
		}
	}
}

// jobsIn sums up the current-jobs of stats.
func jobsIn(stats []byte) (sum uint64) {
	for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
		_, after, _ := bytes.Cut(stats, []byte("current-jobs-"+state+": "))
		line, _, _ := bytes.Cut(after, []byte("\n"))
		n, _ := strconv.ParseUint(string(bytes.TrimSpace(line)), 10, 64)
		sum += n
	}
	return sum
}
