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

	"polystalk/loadtest/bench"
	"polystalk/loadtest/faults/client"
	"polystalk/loadtest/faults/history"
	"polystalk/loadtest/faults/nodes"
)

const (
	tubes     = 6
	functions = 2
	// recovery is how long servers may take until they serve again.
	recovery = time.Minute
)

// A run is the servers, their clients and what has become of them.
type run struct {
	o     *options
	rng   *rand.Rand
	fleet *nodes.Fleet
	h     *history.History
	crew  *client.Crew
	began time.Time
	r     *result
	// program counts the rolling restarts: which of the programs the nodes have run last.
	program int

	mu    sync.Mutex
	found *os.File // what the history found, as it is found
}

// play does all of it. What was learned before an error is returned with it.
func play(ctx context.Context, o *options) (_ *result, err error) {
	r := &run{o: o, rng: rand.New(rand.NewPCG(o.seed, 0)), began: time.Now(), r: newResult(o)}
	if r.found, err = os.Create(filepath.Join(o.dir, "found.log")); err != nil {
		return nil, err
	}
	defer r.found.Close()
	names := client.Names(tubes, functions)
	r.h = history.New(history.Options{Tubes: names, Slack: 300 * time.Millisecond, Found: r.violated})
	r.fleet, err = nodes.New(nodes.Options{Dir: o.dir, Programs: o.programs, Nodes: o.nodes, Gearman: o.gearman, Args: o.args, Timeout: o.timeout, Disk: o.disk})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.fleet.Close()) }()
	if err := r.startAll(ctx); err != nil {
		return nil, err
	}
	clients := client.Options{History: r.h, Beanstalkd: r.fleet.Beanstalkd, Tubes: tubes, Functions: functions,
		Clients: o.clients, Depth: o.depth, Stock: o.stock, Patience: o.patience, Seed: o.seed}
	if o.gearman {
		clients.Gearman = r.fleet.Gearman
	}
	r.crew = client.Start(ctx, clients)
	err = r.rounds(ctx)
	r.crew.Stop()
	if err == nil {
		err = r.end(ctx)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	r.r.finish(r)
	return r.r, err
}

// violated writes down what the history found.
func (r *run) violated(v history.Violation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.r.Violations) < 50 {
		r.r.Violations = append(r.r.Violations, v)
	}
	fmt.Fprintf(r.found, "%s %v\n", time.Now().Format("15:04:05.000"), v)
}

// say tells who waits what happens, and writes it down.
func (r *run) say(format string, args ...any) {
	line := fmt.Sprintf("%s  %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
	fmt.Print(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found.WriteString("# " + line)
}

// startAll starts the nodes, one after the other as each must find a cluster to join.
func (r *run) startAll(ctx context.Context) error {
	for _, n := range r.fleet.All() {
		if err := n.Start(); err != nil {
			return err
		}
		if err := r.serves(ctx, n); err != nil {
			return err
		}
		if r.o.nodes > 1 {
			n.Member = true
		}
	}
	return r.settled(ctx)
}

// settled returns once a cluster is whole.
func (r *run) settled(ctx context.Context) error {
	if r.o.nodes == 1 {
		return nil
	}
	return r.whole(ctx)
}

// rounds plays the faults.
func (r *run) rounds(ctx context.Context) error {
	if err := r.acknowledges(ctx); err != nil {
		return err
	}
	for i := 1; ; i++ {
		enough := i > r.o.rounds && r.crew.Pause.Count() >= r.o.puts
		if enough || time.Since(r.began) > r.o.limit || ctx.Err() != nil {
			return nil
		}
		f, _ := faultNamed(r.o.only[r.rng.IntN(len(r.o.only))])
		if err := r.round(ctx, i, f); err != nil {
			return fmt.Errorf("round %d, %s: %w", i, f.name, err)
		}
		if n := len(r.r.Violations); n > 20 {
			return fmt.Errorf("%d violations are enough", n)
		}
	}
}

// round plays one fault, and waits until all nodes serve again.
func (r *run) round(ctx context.Context, i int, f fault) error {
	start := time.Now()
	r.crew.Pause.Begin()
	what, err := f.play(ctx, r)
	if err != nil {
		return err
	}
	healed := time.Since(start)
	for _, n := range r.fleet.All() {
		if err := r.serves(ctx, n); err != nil {
			return err
		}
	}
	if err := r.acknowledges(ctx); err != nil {
		return err
	}
	if err := r.settled(ctx); err != nil {
		return err
	}
	pause, all := r.crew.Pause.Longest(), time.Since(start)
	r.r.add(f.name, pause)
	s := r.h.Sums()
	r.say("%4d  %-12s %-28s pause %6.3f s, healed %6.3f, served %6.3f; %d acknowledged, %d live", i, f.name, what, pause.Seconds(), healed.Seconds(), all.Seconds(), s.Acknowledged, r.h.Live().Jobs)
	r.accidents()
	r.r.measure(r)
	r.pause(ctx, 50*time.Millisecond, r.o.calm)
	return nil
}

// accidents takes the ends of nodes that nobody ordered, and starts these again.
func (r *run) accidents() {
	for _, a := range r.fleet.Accidents() {
		r.say("ACCIDENT: %s ended by itself: %s", a.Node, a.How)
		r.r.Accidents = append(r.r.Accidents, a)
	}
}

// pause lets a time between the two pass.
func (r *run) pause(ctx context.Context, least, most time.Duration) {
	d := least
	if most > least {
		d += time.Duration(r.rng.Int64N(int64(most - least)))
	}
	sleep(ctx, d)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// serves returns once n answers a client. A node that has ended by itself is started
// again, and remembered as an accident.
func (r *run) serves(ctx context.Context, n *nodes.Node) error {
	limit := time.Now().Add(recovery)
	for {
		err := ask(ctx, n.Beanstalkd)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(limit):
			return fmt.Errorf("%s does not serve %v after the fault: %w", n.Name, recovery, err)
		case !n.Running():
			r.accidents()
			sleep(ctx, 100*time.Millisecond)
			if err := n.Start(); err != nil {
				return err
			}
		}
		sleep(ctx, 10*time.Millisecond)
	}
}

// ask asks a server something that no other than a leader answers.
func ask(ctx context.Context, addr string) error {
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
	if err == nil && strings.TrimSpace(line) != "USING default" {
		err = fmt.Errorf("list-tube-used was answered %q", line)
	}
	return err
}

// acknowledges returns once puts are.
func (r *run) acknowledges(ctx context.Context) error {
	enough := r.crew.Pause.Count() + 50
	for limit := time.Now().Add(recovery); r.crew.Pause.Count() < enough; sleep(ctx, 5*time.Millisecond) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(limit) {
			return fmt.Errorf("no puts are acknowledged %v after the fault", recovery)
		}
	}
	return nil
}

// end takes out what is left, and has the history closed.
func (r *run) end(ctx context.Context) error {
	r.say("the end: %d jobs should be there", r.h.Live().Jobs)
	for _, n := range r.fleet.All() {
		if err := r.serves(ctx, n); err != nil {
			return err
		}
	}
	began := bench.Now()
	within, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := r.crew.Drain(within); err != nil {
		return err
	}
	r.accidents()
	v := r.h.Close()
	r.r.Verdict = &v
	r.say("drained %d jobs in %.1f s", v.Seen, float64(bench.Now()-began)/1e9)
	return nil
}
