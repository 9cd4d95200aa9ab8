package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
)

var beanstalkd = &Protocol{
	name:      "beanstalkd",
	addr:      "127.0.0.1:11300",
	args:      "-l 127.0.0.1 -p {port}",
	unit:      "command answered",
	first:     "cycle",
	ask:       "stats\r\n",
	version:   regexp.MustCompile(`\nversion: "?([^"\n]+)"?\n`),
	clean:     cleanBeanstalkd,
	workloads: beanstalkdWorkloads,
	bench:     beanstalkdBench,
	goals:     beanstalkdGoals,
}

// One operation is one answered command, in every workload but connect: put, reserve and delete of
// one job are three operations. Connecting is not an operation.
var beanstalkdWorkloads = map[string]spec{
	"cycle": {help: "put, reserve, delete, every connection on its own tube",
		traits: constant, build: newCycle},
	"one-tube": {help: "producers and consumers, half of the connections each, meet on one tube",
		traits: pairs | stamped, build: newOneTube},
	"put": {help: "put only, every connection into its own tube",
		traits: constant, build: newPut},
	"drain": {help: "reserve and delete -count jobs that were put before (default 200000)",
		defaults: Load{Count: 200_000}, traits: once, build: newBeansDrain},
	"wakeup": {help: "consumers block, one producer's put wakes one: latency from put to RESERVED",
		traits: pairs | single | stamped, build: newWakeup},
	"many-tubes": {help: "cycle on -tubes tubes, a connection changes its tube every turn (default 5000)",
		defaults: Load{Tubes: 5000}, build: newManyTubes},
	"idle-tubes": {help: "cycle next to -tubes tubes with one delayed job each (default 5000)",
		defaults: Load{Tubes: 5000}, build: newIdleTubes},
	"held": {help: "one connection holds -held reservations and deletes them in shuffled order (default 40000)",
		defaults: Load{Conns: 1, Held: 40_000}, traits: alone, build: newHeld},
	"multi-watch": {help: "cycle over -tubes watched tubes, put into each in turn (default 16)",
		defaults: Load{Tubes: 16}, build: newMultiWatch},
	"laravel": {help: "what Laravel workers send: polls of two queues, a push, stats-job, new connections",
		defaults: Load{Tubes: 4, Reconnect: 10}, traits: single | stamped, build: newLaravel},
	"connect": {help: "connect, use, put, close: every put on its own connection, 16 at a time",
		defaults: Load{Conns: 16}, traits: unpaced | constant | single | stamped, build: newConnect},
	"big-bodies": {help: "cycle with bodies of 60000 bytes, 8 connections",
		defaults: Load{Body: 60_000, Conns: 8}, traits: constant, build: newCycle},
	"memory": {help: "resident memory of -count ready jobs (default 1000000), and after their drain",
		defaults: Load{Count: 1_000_000, Conns: 4, Depth: 64}, traits: once | alone | unpaced, build: newBeansMemory},
}

// A cycler puts jobs into its own tube, reserves them and deletes them. No other connection uses the tube,
// so the jobs must come back with their bodies in the order of their ids. Its functions are created
// once, because a closure for each turn would be garbage.
type cycler struct {
	*bconn
	ids                        []uint64 // jobs of the current turn
	last, taken                uint64   // stamps of the last job that was put, and of the last one reserved
	put, reserve, remove       func(i int)
	onPut, onReserve, onRemove func(i int, r *reply) error
	onTake                     func(i int, r *reply) error // like onReserve, if the ids were not kept
}

// newCycler returns a cycler for up to n jobs in a turn.
func newCycler(c *bconn, n int) *cycler {
	a := &cycler{bconn: c, ids: make([]uint64, n)}
	a.put = func(int) { a.last++; c.put(jobPri, 0, a.last) }
	a.onPut = func(i int, r *reply) error { a.ids[i%n] = r.num; return c.expect("put", "INSERTED", r) }
	a.reserve = func(int) { c.say("reserve") }
	a.onReserve = func(i int, r *reply) error { a.taken++; return c.expectJob(r, a.ids[i], a.taken) }
	a.onTake = func(i int, r *reply) error { a.ids[i] = r.num; a.taken++; return c.expectJob(r, 0, a.taken) }
	a.remove = func(i int) { c.sayJob("delete", a.ids[i]) }
	a.onRemove = func(_ int, r *reply) error { return c.expect("delete", "DELETED", r) }
	return a
}

// cycle is one turn: put, reserve and delete.
func (a *cycler) cycle(l *lane) error {
	if err := a.batch(l, a.depth, a.put, a.onPut); err != nil {
		return err
	}
	return a.take(l, a.depth)
}

// take reserves and deletes the last n jobs that were put.
func (a *cycler) take(l *lane, n int) error {
	if err := a.batch(l, n, a.reserve, a.onReserve); err != nil {
		return err
	}
	return a.batch(l, n, a.remove, a.onRemove)
}

// takeAny reserves and deletes up to depth of the remaining jobs in the tube.
func (a *cycler) takeAny(l *lane) error {
	n := int(min(uint64(a.depth), a.last-a.taken))
	if n == 0 {
		return errDone
	}
	if err := a.batch(l, n, a.reserve, a.onTake); err != nil {
		return err
	}
	return a.batch(l, n, a.remove, a.onRemove)
}

// fill puts n jobs in bulk.
func (a *cycler) fill(l *lane, n int) error {
	return batch(a.link, l, n, bulk, a.put, a.read, a.onPut)
}

// ownTube returns a workload in which each connection has its own tube and a cycler.
func ownTube(e *env, kind string, make func(a *cycler) (turn, error)) *uniform[*bconn] {
	return &uniform[*bconn]{env: e, open: e.beans, make: func(i int, c *bconn) (turn, error) {
		if err := c.own(e.tubeName(kind, i)); err != nil {
			return nil, err
		}
		return make(newCycler(c, c.depth))
	}}
}

func newCycle(e *env) workload {
	return ownTube(e, "c", func(a *cycler) (turn, error) { return a.cycle, nil })
}

// newIdleTubes returns cycle next to idle tubes, which the first process makes.
func newIdleTubes(e *env) workload {
	w := newCycle(e).(*uniform[*bconn])
	if e.Process == 0 {
		w.before = func(ctx context.Context) error { return e.anchorTubes(ctx, "idle", e.Load.Tubes) }
	}
	return w
}

// anchorTubes creates n tubes.
func (e *env) anchorTubes(ctx context.Context, kind string, n int) error {
	c, err := e.beans(ctx)
	if err != nil {
		return err
	}
	names := make([]string, n)
	for i := range names {
		names[i] = e.tubeName(kind, i)
	}
	return c.anchor(names)
}

func newPut(e *env) workload {
	return ownTube(e, "put", func(a *cycler) (turn, error) {
		return func(l *lane) error { return a.batch(l, a.depth, a.put, a.onPut) }, nil
	})
}

// newBeansDrain puts the jobs in its setup. Only the number of jobs limits the run.
func newBeansDrain(e *env) workload {
	w := ownTube(e, "drain", func(a *cycler) (turn, error) {
		return a.takeAny, a.fill(unmeasured(), max(1, int(e.Load.Count)/e.Load.Conns))
	})
	return &steps{w.setup, func(ph *phase) error {
		ph.count = 0 // the number of jobs is the limit
		return w.run(ph)
	}}
}

// newManyTubes divides tubes among the connections. Each tube exists all the time, because it has a
// job delayed for hours. A turn moves to the connection's next tube (use, watch, ignore the last
// one) and cycles there: six commands for one job at depth 1. A connection with a single tube
// ignores "default", which it does not watch, so that it sends the same commands.
func newManyTubes(e *env) workload {
	conns := e.share(e.Load.Conns)
	n := max(e.share(e.Load.Tubes), conns)
	return &uniform[*bconn]{env: e, open: e.beans,
		before: func(ctx context.Context) error { return e.anchorTubes(ctx, "t", n) },
		make: func(i int, c *bconn) (turn, error) {
			var tubes []string
			for j := i * n / conns; j < (i+1)*n/conns; j++ {
				tubes = append(tubes, e.tubeName("t", j))
			}
			return wander(newCycler(c, c.depth), tubes), c.own(tubes[0])
		}}
}

// wander returns the turn of a cycler that changes its tube in every turn.
func wander(a *cycler, tubes []string) turn {
	last, used, both := "default", 0, uint64(1)
	if len(tubes) > 1 {
		both = 2
	}
	move := func(i int) {
		switch i {
		case 0:
			if len(tubes) > 1 {
				last = tubes[used]
			}
			used = (used + 1) % len(tubes)
			a.tube = tubes[used]
			a.sayTube("use", a.tube)
		case 1:
			a.sayTube("watch", a.tube)
		case 2:
			a.sayTube("ignore", last)
		}
	}
	onMove := func(i int, r *reply) error {
		switch i {
		case 0:
			return a.expectUsing(r)
		case 1:
			return a.expectWatching("watch", both, r)
		default:
			return a.expectWatching("ignore", 1, r)
		}
	}
	return func(l *lane) error {
		if err := a.batch(l, 3, move, onMove); err != nil {
			return err
		}
		return a.cycle(l)
	}
}

// newMultiWatch has connections that watch several tubes of their own. The names spread the tubes
// over a server's shards. A turn is depth times (use the next tube, put), then depth reserves and
// depth deletes. All jobs have one priority: they must come back in the order of their ids over all
// tubes.
func newMultiWatch(e *env) workload {
	return &uniform[*bconn]{env: e, open: e.beans, make: func(i int, c *bconn) (turn, error) {
		tubes := make([]string, e.Load.Tubes)
		for j := range tubes {
			tubes[j] = e.tubeName("w", i*len(tubes)+j)
		}
		a, named, answered := newCycler(c, c.depth), 0, 0
		put := func(i int) {
			if i%2 == 1 {
				a.put(i)
				return
			}
			named = (named + 1) % len(tubes)
			c.sayTube("use", tubes[named])
		}
		onPut := func(i int, r *reply) error {
			if i%2 == 1 {
				return a.onPut(i/2, r)
			}
			answered = (answered + 1) % len(tubes)
			c.tube = tubes[answered]
			return c.expectUsing(r)
		}
		return func(l *lane) error {
			if err := c.batch(l, 2*c.depth, put, onPut); err != nil {
				return err
			}
			return a.take(l, c.depth)
		}, c.watchOnly(tubes...)
	}}
}

// held has one connection that holds reservations and deletes them in a shuffled order. One
// operation is one delete. Puts and reserves are not measured; they are repeated for the duration
// of the run.
type held struct {
	*env
	a   *cycler
	rng *rand.Rand
}

func newHeld(e *env) workload { return &held{env: e, rng: rand.New(rand.NewPCG(1, 2))} }

func (w *held) setup(ctx context.Context) error {
	if w.Load.Conns != 1 {
		return fmt.Errorf("workload held has one connection")
	}
	c, err := w.beans(ctx)
	if err != nil {
		return err
	}
	w.a = newCycler(c, w.Load.Held)
	return c.own(w.tubeName("held", 0))
}

func (w *held) run(ph *phase) error {
	l, err := ph.lane(0, 1, true)
	if err != nil {
		return err
	}
	defer l.end()
	// It runs at least one round and never cuts one short. The deadline counts measured time.
	for first := true; first || l.more(); first = false {
		if err := ph.exclude(w.fill); err != nil {
			return err
		}
		l.deadline = ph.deadline + int64(ph.excludedWall)
		if err := w.a.batch(l, len(w.a.ids), w.a.remove, w.a.onRemove); err != nil {
			return err
		}
	}
	return nil
}

// fill puts and reserves all jobs, and shuffles them.
func (w *held) fill() error {
	a := w.a
	if err := a.fill(unmeasured(), len(a.ids)); err != nil {
		return err
	}
	if err := batch(a.link, unmeasured(), len(a.ids), bulk, a.reserve, a.read, a.onReserve); err != nil {
		return err
	}
	w.rng.Shuffle(len(a.ids), func(i, j int) { a.ids[i], a.ids[j] = a.ids[j], a.ids[i] })
	return nil
}

// newBeansMemory puts jobs into the connections' tubes and reads resident memory. Then it reserves
// and deletes the jobs, and reads resident memory again after Settle.
func newBeansMemory(e *env) workload {
	var cyclers []*cycler
	w := ownTube(e, "m", func(a *cycler) (turn, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		cyclers = append(cyclers, a)
		return nil, nil
	})
	each := int(e.Load.Count) / e.Load.Conns
	return &memory{w, func(ph *phase) (int64, error) {
		return int64(each * len(cyclers)), ph.all(turnsOf(cyclers, func(a *cycler, l *lane) error {
			if err := a.batch(l, each, a.put, a.onPut); err != nil {
				return err
			}
			return errDone
		}))
	}, func(ph *phase) error { return ph.all(turnsOf(cyclers, (*cycler).takeAny)) }}
}

func turnsOf[A any](actors []A, f func(A, *lane) error) []turn {
	turns := make([]turn, len(actors))
	for i, a := range actors {
		turns[i] = func(l *lane) error { return f(a, l) }
	}
	return turns
}

// newLaravel sends what a Laravel worker sends through pheanstalk: polls of a high queue and then
// of a low one, and the push of one job to the low queue. The mix agrees with beanstalkd's issue
// 573 (for every put about two each of watch, ignore and list-tubes-watched, and one stats-job). A
// turn is twelve commands, each sent after the last reply:
//
//	use low, put,
//	watch high, list-tubes-watched, ignore …, reserve-with-timeout 0 → TIMED_OUT,
//	watch low, list-tubes-watched, ignore high, reserve-with-timeout 0 → RESERVED,
//	stats-job, delete
//
// Connections share tubes pairs of queues. Every turn puts before it reserves, so a poll of the low
// queue always finds a job. The connection is replaced after reconnect turns.
func newLaravel(e *env) workload {
	return &uniform[*bconn]{env: e, open: e.beans, make: func(i int, c *bconn) (turn, error) {
		q := i % e.Load.Tubes
		a := &poller{e: e, c: c, high: e.tubeName("high", q), low: e.tubeName("low", q), watched: "default", turns: i % e.Load.Reconnect}
		return a.turn, nil
	}}
}

// A poller is one worker process of the application.
type poller struct {
	e         *env
	c         *bconn
	high, low string
	watched   string // the one tube watched between polls
	turns     int
	stamp, id uint64
	list      []byte
	r         *reply
	err       error
}

func (a *poller) turn(l *lane) error {
	if a.turns++; a.turns%a.e.Load.Reconnect == 0 {
		if err := a.c.quit(); err != nil {
			return err
		}
		a.e.drop(a.c.link)
		c, err := a.e.beans(context.Background())
		if err != nil {
			return err
		}
		a.c, a.watched = c, "default"
	}
	c := a.c
	c.tube = a.low
	c.sayTube("use", a.low)
	a.ask(l, c.expectUsing)
	a.stamp++
	c.put(jobPri, 0, a.stamp)
	a.ask(l, func(r *reply) error { return c.expect("put", "INSERTED", r) })
	a.poll(l, a.high, func(r *reply) error { return c.expect("reserve-with-timeout 0", "TIMED_OUT", r) })
	a.poll(l, a.low, func(r *reply) error {
		stamp, err := Stamp(r.body)
		if err != nil {
			return c.wrong("reserve-with-timeout 0", "RESERVED", r)
		}
		a.id = r.num
		return c.expectJob(r, 0, stamp)
	})
	c.sayJob("stats-job", a.id)
	a.ask(l, func(r *reply) error {
		a.list = fmt.Appendf(a.list[:0], "---\nid: %d\n", a.id)
		if !bytes.HasPrefix(r.body, a.list) || !bytes.Contains(r.body, []byte("\nstate: reserved\n")) {
			return fmt.Errorf("wrong reply to stats-job %d, which is reserved: got %q %q", a.id, r.line, r.body)
		}
		return nil
	})
	c.sayJob("delete", a.id)
	a.ask(l, func(r *reply) error { return c.expect("delete", "DELETED", r) })
	return a.err
}

// ask sends the command in c.out and checks its reply. After an error it does nothing.
func (a *poller) ask(l *lane, check func(*reply) error) {
	if a.err != nil {
		return
	}
	var t int64
	if t, a.err = l.begin(1); a.err != nil {
		return
	}
	if a.err = a.c.ask(); a.err != nil {
		return
	}
	if a.r, a.err = a.c.read(); a.err == nil {
		l.answered(t, a.c.at)
		a.err = check(a.r)
	}
}

// poll makes tube the only watched one and asks for a job without waiting.
func (a *poller) poll(l *lane, tube string, check func(*reply) error) {
	c := a.c
	c.sayTube("watch", tube)
	a.ask(l, func(r *reply) error { return c.expectWatching("watch", 2, r) })
	c.say("list-tubes-watched")
	a.ask(l, func(r *reply) error {
		a.list = fmt.Appendf(a.list[:0], "---\n- %s\n- %s\n", a.watched, tube)
		if !bytes.Equal(r.body, a.list) {
			return fmt.Errorf("wrong reply to list-tubes-watched: expected %q, got %q %q", a.list, r.line, r.body)
		}
		return nil
	})
	c.sayTube("ignore", a.watched)
	a.ask(l, func(r *reply) error { return c.expectWatching("ignore", 1, r) })
	a.watched = tube
	c.say("reserve-with-timeout 0")
	a.ask(l, check)
}
