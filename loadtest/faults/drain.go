package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"time"

	"polystalk/loadtest/bench"
)

// drain looks at all remaining jobs and removes them, until the servers report that there are none.
// The crew must have stopped, and no fault may last.
func (w *crew) drain(ctx context.Context) error {
	w.ctx = ctx
	w.h.beginRest(bench.Now())
	rng := rand.New(rand.NewPCG(w.seed, 2))
	for looked := false; ; w.sleep(50 * time.Millisecond) {
		c, err := w.dial(ctx, func(n *node) string { return n.beanstalkd }, rng, 30*time.Second)
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
		case err == nil || !errors.Is(err, errBroken):
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("jobs are left: %w", context.Cause(ctx))
		}
	}
}

// look asks for the state of each job with a known id.
func (w *crew) look(c *conn) error {
	for jobs := w.h.remaining(); len(jobs) > 0; {
		some := jobs[:min(len(jobs), 100)]
		jobs = jobs[len(some):]
		for _, j := range some {
			c.say("stats-job %d\r\n", j.id)
		}
		if err := c.send(); err != nil {
			return err
		}
		for _, j := range some {
			word, err := c.read("stats-job", 0)
			if err != nil {
				return err
			}
			if word == "OK" {
				w.h.look(j.token, parseSight(c.Reply.Body), c.call())
			} else if word != "NOT_FOUND" {
				return wrong("stats-job", word)
			}
		}
	}
	return nil
}

var jobLines = regexp.MustCompile(`(?s)\ntube: "?([^"\n]*)"?\nstate: (\w+)\npri: (\d+)\n.*\nttr: (\d+)\n`)

// parseSight reads the body of stats-job.
func parseSight(body []byte) (s sight) {
	if m := jobLines.FindSubmatch(body); m != nil {
		s.tube, s.state = string(m[1]), string(m[2])
		fmt.Sscan(string(m[3]), &s.pri)
		fmt.Sscan(string(m[4]), &s.ttr)
	}
	return s
}

// empty removes all jobs.
func (w *crew) empty(c *conn) error {
	if err := w.watch(c, w.names); err != nil {
		return err
	}
	for {
		for i, name := range w.names {
			c.say("use %s\r\n", name)
			if err := c.ask("USING"); err != nil {
				return err
			}
			for more := true; more; more = c.Reply.Num > 0 {
				if err := w.kickTube(c, i, 100_000, "KICKED"); err != nil {
					return err
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
		if err := c.ask("OK"); err != nil {
			return err
		}
		if jobsIn(c.Reply.Body) == 0 {
			return nil
		}
		// A server may not have noticed yet that a connection has ended.
		if w.sleep(100 * time.Millisecond); w.ctx.Err() != nil {
			return errBroken
		}
	}
}

var jobCounts = regexp.MustCompile(`current-jobs-(?:ready|reserved|delayed|buried): (\d+)`)

// jobsIn adds up the jobs in stats.
func jobsIn(stats []byte) (sum uint64) {
	for _, m := range jobCounts.FindAllSubmatch(stats, -1) {
		n, _ := strconv.ParseUint(string(m[1]), 10, 64)
		sum += n
	}
	return sum
}
