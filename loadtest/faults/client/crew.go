package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"polystalk/loadtest/faults/history"
)

// Options are what a Crew is made with.
type Options struct {
	History *history.History
	// Beanstalkd and Gearman say where the nodes listen that there are; without Gearman
	// none is spoken. They are called by any goroutine.
	Beanstalkd, Gearman func() []string
	Tubes, Functions    int // how many of each; Names has their names in this order
	Clients             Clients
	Depth               int   // commands in one write, at most
	Stock               int64 // jobs above which producers of many put none
	Patience            time.Duration
	Seed                uint64
}

// Clients are how many there are of each kind.
type Clients struct {
	Singles    int `json:"singles"` // producers of one put at a time
	Producers  int `json:"producers"`
	Workers    int `json:"workers"`
	Kickers    int `json:"kickers"`
	Submitters int `json:"submitters"`
	Grabbers   int `json:"grabbers"`
}

// Names are those of so many tubes and of so many functions, for history.Options.
func Names(tubes, functions int) []string {
	var all []string
	for i := range tubes {
		all = append(all, fmt.Sprintf("tube-%d", i))
	}
	for i := range functions {
		all = append(all, fmt.Sprintf("function-%d", i))
	}
	return all
}

// A Crew is all clients of a run.
type Crew struct {
	o     Options
	names []string
	Pause Pause

	ctx     context.Context
	cancel  context.CancelFunc
	clients sync.WaitGroup

	mu      sync.Mutex
	waiting []waiting // jobs that nobody is given until they are kicked
	wrong   []error
	dialed  int64
}

// A waiting job is buried, or delayed for longer than the run.
type waiting struct {
	token history.Token
	id    uint64
}

// Start starts the clients, which go on until Stop.
func Start(ctx context.Context, o Options) *Crew {
	w := &Crew{o: o, names: Names(o.Tubes, o.Functions)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.Pause.Begin()
	if o.Gearman == nil {
		o.Clients.Submitters, o.Clients.Grabbers = 0, 0
	}
	seed := o.Seed
	for _, kind := range []struct {
		n     int
		addrs func() []string
		work  func(w *Crew, c *conn, rng *rand.Rand) error
	}{
		{o.Clients.Singles, o.Beanstalkd, func(w *Crew, c *conn, rng *rand.Rand) error { return w.produce(c, rng, 1) }},
		{o.Clients.Producers, o.Beanstalkd, func(w *Crew, c *conn, rng *rand.Rand) error { return w.produce(c, rng, w.o.Depth) }},
		{o.Clients.Workers, o.Beanstalkd, (*Crew).labour},
		{o.Clients.Kickers, o.Beanstalkd, (*Crew).kick},
		{o.Clients.Submitters, o.Gearman, (*Crew).submit},
		{o.Clients.Grabbers, o.Gearman, (*Crew).grab},
	} {
		for range kind.n {
			seed++
			rng := rand.New(rand.NewPCG(seed, 1))
			w.clients.Go(func() { w.serve(kind.addrs, rng, kind.work) })
		}
	}
	return w
}

// Stop ends the clients. They close their connections without another word, so that
// what is under way is in doubt.
func (w *Crew) Stop() {
	w.cancel()
	w.clients.Wait()
}

// Wrong are the answers that were none to what was asked.
func (w *Crew) Wrong() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrong
}

// Dialed is how many connections were made.
func (w *Crew) Dialed() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dialed
}

// serve is one client: a connection after the other.
func (w *Crew) serve(addrs func() []string, rng *rand.Rand, work func(*Crew, *conn, *rand.Rand) error) {
	for w.ctx.Err() == nil {
		c, err := dial(w.ctx, addrs(), rng, w.o.Patience, w.o.History)
		if err != nil {
			w.sleep(10 * time.Millisecond)
			continue
		}
		w.mu.Lock()
		w.dialed++
		w.mu.Unlock()
		stop := context.AfterFunc(w.ctx, func() { c.nc.Close() })
		err = work(w, c, rng)
		stop()
		c.close()
		if err != nil && !errors.Is(err, errBroken) {
			w.mu.Lock()
			if len(w.wrong) < 100 {
				w.wrong = append(w.wrong, err)
			}
			w.mu.Unlock()
		}
		w.sleep(time.Millisecond)
	}
}

// sleep returns after d, or when the crew ends.
func (w *Crew) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.ctx.Done():
	}
}

// keep notes a job that is to be kicked.
func (w *Crew) keep(t history.Token, id uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, waiting{t, id})
}

// kept takes up to n of them, those first that have waited longest.
func (w *Crew) kept(n int) []waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = min(n, len(w.waiting))
	taken := append([]waiting(nil), w.waiting[:n]...)
	w.waiting = append(w.waiting[:0], w.waiting[n:]...)
	return taken
}
