package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

const (
	tubes     = 6  // of beanstalkd's clients
	functions = 2  // of Gearman's
	depth     = 30 // maximum of commands in one write
)

// tubeNames returns the tubes, the functions, and the tube with a policy.
func tubeNames() (all []string) {
	for i := range tubes {
		all = append(all, fmt.Sprintf("tube-%d", i))
	}
	for i := range functions {
		all = append(all, fmt.Sprintf("function-%d", i))
	}
	return append(all, failingName)
}

// A crew is all clients of a run. A client dials any of the nodes. When its connection breaks, or
// no answer arrives in time, it reports its unanswered commands to the history, and dials another
// node. It never repeats a put, which would be another job. The seed decides what each client does
// next; the timing depends on the machine.
type crew struct {
	h        *history
	names    []string
	stock    int64         // number of jobs at which bulk producers pause
	patience time.Duration // for an answer
	seed     uint64
	nodes    func() []*node // any goroutine may call it

	ctx     context.Context
	cancel  context.CancelFunc
	clients sync.WaitGroup

	mu      sync.Mutex
	waiting []waitingJob
	wrong   []string // replies that do not fit the command
	dialed  int64
}

// A waitingJob is buried, or delayed for longer than the run: no worker gets it until it is kicked.
type waitingJob struct {
	token token
	id    uint64
}

// start starts the clients, which continue until stop.
func (w *crew) start(ctx context.Context) {
	w.names = tubeNames()
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.h.beginPause()
	seed := w.seed
	beanstalkd, gearman := func(n *node) string { return n.beanstalkd }, func(n *node) string { return n.gearman }
	for _, kind := range []struct {
		n    int
		addr func(*node) string
		work func(c *conn, rng *rand.Rand) error
	}{
		{4, beanstalkd, func(c *conn, rng *rand.Rand) error { return w.produce(c, rng, 1) }},
		{2, beanstalkd, func(c *conn, rng *rand.Rand) error { return w.produce(c, rng, depth) }},
		{6, beanstalkd, func(c *conn, rng *rand.Rand) error { return w.work(c, rng, w.names[:tubes], (*task).draw) }},
		{1, beanstalkd, w.kick},
		{1, gearman, w.submit},
		{2, gearman, w.grab},
		{3 * w.failing(), beanstalkd, func(c *conn, rng *rand.Rand) error { return w.work(c, rng, w.names[failingTube:], (*task).drawFailing) }},
		{w.failing(), beanstalkd, w.inter},
	} {
		for range kind.n {
			seed++
			rng := rand.New(rand.NewPCG(seed, 1))
			w.clients.Go(func() { w.serve(kind.addr, rng, kind.work) })
		}
	}
}

// failing returns 1 if there is a tube with a policy, else 0.
func (w *crew) failing() int { return min(w.h.attempts, 1) }

// stop ends the clients. They close their connections without another command, so commands in
// progress are in doubt.
func (w *crew) stop() {
	w.cancel()
	w.clients.Wait()
}

// serve runs one client, with one connection after the other.
func (w *crew) serve(addr func(*node) string, rng *rand.Rand, work func(*conn, *rand.Rand) error) {
	for w.ctx.Err() == nil {
		c, err := w.dial(w.ctx, addr, rng, w.patience)
		if err != nil {
			w.sleep(10 * time.Millisecond)
			continue
		}
		stop := context.AfterFunc(w.ctx, c.Close)
		err = work(c, rng)
		stop()
		c.close()
		w.mu.Lock()
		w.dialed++
		if err != nil && !errors.Is(err, errBroken) && len(w.wrong) < 100 {
			w.wrong = append(w.wrong, err.Error())
		}
		w.mu.Unlock()
		w.sleep(time.Millisecond)
	}
}

// dial connects to a random node.
func (w *crew) dial(ctx context.Context, addr func(*node) string, rng *rand.Rand, patience time.Duration) (*conn, error) {
	d := net.Dialer{Timeout: time.Second, KeepAlive: -1}
	all := w.nodes()
	nc, err := d.DialContext(ctx, "tcp", addr(all[rng.IntN(len(all))]))
	if err != nil {
		return nil, errBroken
	}
	return newConn(nc, patience, w.h), nil
}

// sleep returns after d, or when the crew ends.
func (w *crew) sleep(d time.Duration) { sleep(w.ctx, d) }

// keep records jobs to kick later.
func (w *crew) keep(jobs ...waitingJob) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, jobs...)
}

// takeKept removes and returns up to depth of the kept jobs, the oldest first.
func (w *crew) takeKept() []waitingJob {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(depth, len(w.waiting))
	taken := append([]waitingJob(nil), w.waiting[:n]...)
	w.waiting = append(w.waiting[:0], w.waiting[n:]...)
	return taken
}
