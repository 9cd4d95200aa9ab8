package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"polystalk/codec/admin"
	"polystalk/loadtest/bench"
)

const (
	// timeout is the election timeout of a cluster.
	timeout = 500 * time.Millisecond
	// recovery bounds the time until the servers serve again.
	recovery = time.Minute
)

// A run has the servers, their clients and the findings.
type run struct {
	ctx     context.Context
	o       *options
	rng     *rand.Rand
	fleet   *fleet
	h       *history
	crew    *crew
	exits   int   // see noteExits
	program int   // number of rolling restarts, which selects the program of the nodes
	failed  error // the first error of the current fault: see check

	took           time.Duration
	pauses         map[string][]float64 // by fault: the longest of each, in seconds
	ended          bool                 // false: the run did not reach its end
	seen, appeared int64                // jobs at the end; puts in doubt that took effect
	accidents      []string             // unexpected ends of nodes

	mu         sync.Mutex
	violations []string // the first of them
	log        *os.File // findings of the history as they come
}

// play plays the complete run. After an error it also returns the results so far.
func play(ctx context.Context, o *options) (_ *run, err error) {
	began := time.Now()
	r := &run{ctx: ctx, o: o, rng: rand.New(rand.NewPCG(o.seed, 0)), pauses: make(map[string][]float64)}
	if r.log, err = os.Create(filepath.Join(o.dir, "found.log")); err != nil {
		return nil, err
	}
	defer r.log.Close()
	r.h = newHistory(tubeNames(), 300*time.Millisecond, r.found)
	r.h.attempts = o.attempts
	r.fleet = &fleet{dir: o.dir, programs: o.programs, args: []string{"-s", "4194304"}, disk: o.disk}
	if err := r.fleet.makeNodes(o.nodes); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.fleet.close()) }()
	if err := r.startAll(); err != nil {
		return nil, err
	}
	for _, step := range []func() error{r.setPolicy, r.noteExits} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	r.crew = &crew{h: r.h, stock: o.stock, patience: o.patience, seed: o.seed, nodes: r.fleet.all}
	r.crew.start(ctx)
	err = r.rounds()
	r.crew.stop()
	if err == nil {
		err = r.end()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	r.took = time.Since(began)
	return r, err
}

// found records a violation that the history found.
func (r *run) found(_ rule, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.violations) < 50 {
		r.violations = append(r.violations, text)
	}
	fmt.Fprintf(r.log, "%s %s\n", time.Now().Format("15:04:05.000"), text)
}

// say prints and logs an event.
func (r *run) say(format string, args ...any) {
	line := fmt.Sprintf("%s  %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
	fmt.Print(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.WriteString("# " + line)
}

// check keeps the first error of a fault. It ends the run after the fault.
func (r *run) check(err error) {
	if r.failed == nil {
		r.failed = err
	}
}

// startAll starts the nodes one by one, since each must find a cluster to join.
func (r *run) startAll() error {
	for _, n := range r.fleet.all() {
		if err := n.start(); err != nil {
			return err
		}
		if err := r.serves(n); err != nil {
			return err
		}
		n.member = true
	}
	return r.complete()
}

// rounds plays the faults.
func (r *run) rounds() error {
	if err := r.acknowledges(); err != nil {
		return err
	}
	for i := 1; (i <= r.o.rounds || r.h.countsNow().acknowledged < r.o.puts) && r.ctx.Err() == nil; i++ {
		f, err := faultNamed(r.o.only[r.rng.IntN(len(r.o.only))])
		if err == nil {
			err = r.round(i, f)
		}
		if err != nil {
			return fmt.Errorf("round %d, %s: %w", i, f.name, err)
		}
		r.mu.Lock()
		n := len(r.violations)
		r.mu.Unlock()
		if n > 20 {
			return fmt.Errorf("%d violations are enough", n)
		}
	}
	return nil
}

// round plays one fault, and waits until all nodes serve again.
func (r *run) round(i int, f fault) error {
	start := time.Now()
	r.h.beginPause()
	c, err := r.cast()
	if err != nil {
		return err
	}
	what := f.play(r, c)
	healed := time.Since(start)
	for _, step := range []func() error{func() error { return r.failed }, r.allServe, r.acknowledges, r.complete, r.noteExits} {
		if err := step(); err != nil {
			return err
		}
	}
	pause := r.h.longestPause()
	r.pauses[f.name] = append(r.pauses[f.name], pause.Seconds())
	r.say("%4d  %-12s %-28s pause %6.3f s, healed %6.3f, served %6.3f; %d acknowledged, %d live", i, f.name, what,
		pause.Seconds(), healed.Seconds(), time.Since(start).Seconds(), r.h.countsNow().acknowledged, r.h.countsNow().live)
	r.takeAccidents()
	r.wait(50*time.Millisecond, r.o.calm)
	return nil
}

func (r *run) takeAccidents() {
	for _, a := range r.fleet.takeAccidents() {
		r.say("ACCIDENT: %s", a)
		r.accidents = append(r.accidents, "accident: "+a)
	}
}

// wait returns after a random time.
func (r *run) wait(least, most time.Duration) {
	if most > least {
		least += time.Duration(r.rng.Int64N(int64(most - least)))
	}
	sleep(r.ctx, least)
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// await calls f until it returns nil, at most for the time of a recovery.
func (r *run) await(wrong string, f func() error) error {
	for limit := time.Now().Add(recovery); ; sleep(r.ctx, 10*time.Millisecond) {
		err := f()
		switch {
		case err == nil:
			return nil
		case r.ctx.Err() != nil:
			return context.Cause(r.ctx)
		case time.Now().After(limit):
			return fmt.Errorf("%s after %v: %w", wrong, recovery, err)
		}
	}
}

func (r *run) allServe() error {
	for _, n := range r.fleet.all() {
		if err := r.serves(n); err != nil {
			return err
		}
	}
	return nil
}

// serves returns once n answers a client. If the node ended by itself, that is an accident, and
// serves starts it again.
func (r *run) serves(n *node) error {
	return r.await(n.name+" does not serve", func() error {
		err := asks(r.ctx, n.beanstalkd)
		if err != nil && r.ctx.Err() == nil && !n.running() {
			r.takeAccidents()
			sleep(r.ctx, 100*time.Millisecond)
			err = errors.Join(err, n.start())
		}
		return err
	})
}

// asks sends a server a command that only a leader answers.
func asks(ctx context.Context, addr string) error {
	d := net.Dialer{Timeout: time.Second}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(2 * time.Second))
	c := bench.NewConn(nc)
	c.Out = []byte("list-tube-used\r\n")
	if err = c.Flush(); err == nil {
		err = c.ReadReply()
	}
	if err == nil && string(c.Reply.Word) != "USING" {
		err = wrong("list-tube-used", c.Reply.Line)
	}
	return err
}

// acknowledges returns once puts are acknowledged.
func (r *run) acknowledges() error {
	enough := r.h.countsNow().acknowledged + 50
	return r.await("no puts are acknowledged", func() error {
		if n := r.h.countsNow().acknowledged; n < enough {
			return fmt.Errorf("%d more are missing", enough-n)
		}
		return nil
	})
}

// complete returns once all nodes of a cluster vote and are connected, according to the leader.
func (r *run) complete() error {
	if !r.fleet.cluster {
		return nil
	}
	return r.await("the cluster is not complete", func() error {
		_, c, err := r.fleet.leader(r.ctx)
		if err != nil {
			return err
		}
		known := make(map[string]admin.ClusterMember)
		for _, m := range c.Members {
			known[m.Name] = m
		}
		for _, n := range r.fleet.all() {
			if m := known[n.name]; m.Kind != admin.MemberVotes || !m.Leads && !m.Connected {
				return fmt.Errorf("%s does not vote or is not connected: %+v", n.name, m)
			}
		}
		return nil
	})
}

// end removes the remaining jobs and closes the history.
func (r *run) end() error {
	r.say("the end: %d jobs should be there", r.h.countsNow().live)
	if err := r.allServe(); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(r.ctx, 5*time.Minute)
	defer cancel()
	if err := r.crew.drain(within); err != nil {
		return err
	}
	r.takeAccidents()
	if err := r.noteExits(); err != nil {
		return err
	}
	r.seen, r.appeared = r.h.close()
	r.ended = true
	r.say("drained %d jobs", r.seen)
	return nil
}
