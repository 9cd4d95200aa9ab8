package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// timeout is the election timeout of a cluster.
	timeout = 500 * time.Millisecond
	// recovery is how long servers may take until they serve again.
	recovery = time.Minute
)

// A run is the servers, their clients and what is found.
type run struct {
	o       *options
	rng     *rand.Rand
	fleet   *fleet
	h       *history
	crew    *crew
	began   time.Time
	program int // counts the rolling restarts: which of the programs the nodes have run last

	mu     sync.Mutex
	report *report
	log    *os.File // what the history found, as it is found
}

// play does all of it. It returns what was learned before an error, too.
func play(ctx context.Context, o *options) (_ *report, err error) {
	r := &run{o: o, rng: rand.New(rand.NewPCG(o.seed, 0)), began: time.Now(), report: &report{seed: o.seed, pauses: make(map[string][]float64)}}
	if r.log, err = os.Create(filepath.Join(o.dir, "found.log")); err != nil {
		return nil, err
	}
	defer r.log.Close()
	r.h = newHistory(tubeNames(), 300*time.Millisecond, r.found)
	r.fleet = &fleet{dir: o.dir, programs: o.programs, args: append([]string{"-s", "4194304"}, strings.Fields(o.args)...), disk: o.disk}
	if err := r.fleet.makeNodes(o.nodes); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.fleet.close()) }()
	if err := r.startAll(ctx); err != nil {
		return nil, err
	}
	r.crew = &crew{h: r.h, stock: o.stock, patience: o.patience, seed: o.seed,
		beanstalkd: func() []string { return r.fleet.addresses(func(n *node) string { return n.beanstalkd }) },
		gearman:    func() []string { return r.fleet.addresses(func(n *node) string { return n.gearman }) }}
	r.crew.start(ctx)
	err = r.rounds(ctx)
	r.crew.stop()
	if err == nil {
		err = r.end(ctx)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	r.report.took = time.Since(r.began).Seconds()
	r.report.counts, r.report.rules, r.report.dialed = r.h.countsNow(), r.h.violations(), r.crew.dialed
	for _, err := range r.crew.wrong {
		r.report.wrong = append(r.report.wrong, err.Error())
	}
	return r.report, err
}

// found notes what the history found.
func (r *run) found(_ rule, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.report.violations) < 50 {
		r.report.violations = append(r.report.violations, text)
	}
	fmt.Fprintf(r.log, "%s %s\n", time.Now().Format("15:04:05.000"), text)
}

// say prints what happens, and logs it.
func (r *run) say(format string, args ...any) {
	line := fmt.Sprintf("%s  %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
	fmt.Print(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.WriteString("# " + line)
}

// startAll starts the nodes, one after the other since each must find a cluster to join.
func (r *run) startAll(ctx context.Context) error {
	for _, n := range r.fleet.all() {
		if err := n.start(); err != nil {
			return err
		}
		if err := r.serves(ctx, n); err != nil {
			return err
		}
		n.member = true
	}
	return r.complete(ctx)
}

// rounds plays the faults.
func (r *run) rounds(ctx context.Context) error {
	if err := r.acknowledges(ctx); err != nil {
		return err
	}
	for i := 1; i <= r.o.rounds || r.crew.pause.puts() < r.o.puts; i++ {
		if ctx.Err() != nil {
			return nil
		}
		f, err := faultNamed(r.o.only[r.rng.IntN(len(r.o.only))])
		if err == nil {
			err = r.round(ctx, i, f)
		}
		if err != nil {
			return fmt.Errorf("round %d, %s: %w", i, f.name, err)
		}
		r.mu.Lock()
		n := len(r.report.violations)
		r.mu.Unlock()
		if n > 20 {
			return fmt.Errorf("%d violations are enough", n)
		}
	}
	return nil
}

// round plays one fault, and waits until all nodes serve again.
func (r *run) round(ctx context.Context, i int, f fault) error {
	start := time.Now()
	r.crew.pause.begin()
	what, err := f.play(ctx, r)
	if err != nil {
		return err
	}
	healed := time.Since(start)
	if err := r.allServe(ctx); err != nil {
		return err
	}
	if err := r.acknowledges(ctx); err != nil {
		return err
	}
	if err := r.complete(ctx); err != nil {
		return err
	}
	pause := r.crew.pause.sinceBegin()
	r.report.pauses[f.name] = append(r.report.pauses[f.name], pause.Seconds())
	r.say("%4d  %-12s %-28s pause %6.3f s, healed %6.3f, served %6.3f; %d acknowledged, %d live", i, f.name, what,
		pause.Seconds(), healed.Seconds(), time.Since(start).Seconds(), r.crew.pause.puts(), r.h.liveJobs())
	r.takeAccidents()
	r.wait(ctx, 50*time.Millisecond, r.o.calm)
	return nil
}

func (r *run) takeAccidents() {
	for _, a := range r.fleet.takeAccidents() {
		r.say("ACCIDENT: %s", a)
		r.report.accidents = append(r.report.accidents, "accident: "+a)
	}
}

// wait returns after a random time.
func (r *run) wait(ctx context.Context, least, most time.Duration) {
	if most > least {
		least += time.Duration(r.rng.Int64N(int64(most - least)))
	}
	sleep(ctx, least)
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

func (r *run) allServe(ctx context.Context) error {
	for _, n := range r.fleet.all() {
		if err := r.serves(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// serves returns once n answers a client. A node that has ended by itself is an accident, and
// is started again.
func (r *run) serves(ctx context.Context, n *node) error {
	for limit := time.Now().Add(recovery); ; sleep(ctx, 10*time.Millisecond) {
		err := asks(ctx, n.beanstalkd)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(limit):
			return fmt.Errorf("%s does not serve %v after the fault: %w", n.name, recovery, err)
		case !n.running():
			r.takeAccidents()
			sleep(ctx, 100*time.Millisecond)
			if err := n.start(); err != nil {
				return err
			}
		}
	}
}

// asks asks a server for something that only a leader answers.
func asks(ctx context.Context, addr string) error {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.Write([]byte("list-tube-used\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && line != "USING default\r\n" {
		err = fmt.Errorf("list-tube-used was answered %q", line)
	}
	return err
}

// acknowledges returns once puts are acknowledged.
func (r *run) acknowledges(ctx context.Context) error {
	enough := r.crew.pause.puts() + 50
	for limit := time.Now().Add(recovery); r.crew.pause.puts() < enough; sleep(ctx, 5*time.Millisecond) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(limit) {
			return fmt.Errorf("no puts are acknowledged %v after the fault", recovery)
		}
	}
	return nil
}

// end takes out what is left, and closes the history.
func (r *run) end(ctx context.Context) error {
	r.say("the end: %d jobs should be there", r.h.liveJobs())
	if err := r.allServe(ctx); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := r.crew.drain(within); err != nil {
		return err
	}
	r.takeAccidents()
	r.report.seen, r.report.appeared = r.h.close()
	r.report.ended = true
	r.say("drained %d jobs", r.report.seen)
	return nil
}
