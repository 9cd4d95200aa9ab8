package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// One operation is one answered command, in every workload but connect: put, reserve and delete of
// one job are three operations. Connecting is not an operation.
var beanstalkdWorkloads = map[string]spec{
	"cycle": {help: "put, reserve, delete, every connection on its own tube",
		traits: constant, setup: ownTubes(func(a *cycler) turn { return a.cycle })},
	"one-tube": {help: "producers and consumers, half of the connections each, meet on one tube",
		traits: pairs | stamped, setup: setupOneTube},
	"put": {help: "put only, every connection into its own tube",
		traits: constant, setup: ownTubes(func(a *cycler) turn { return a.putAll })},
	"drain": {help: "reserve and delete -count jobs that were put before (default 200000)",
		defaults: Load{Count: 200_000}, traits: once, setup: setupBeansDrain},
	"wakeup": {help: "consumers block, one producer's put wakes one: latency from put to RESERVED",
		traits: pairs | single | stamped, setup: setupWakeup},
	"many-tubes": {help: "cycle on -tubes tubes, a connection changes its tube every turn (default 5000)",
		defaults: Load{Tubes: 5000}, setup: setupManyTubes},
	"idle-tubes": {help: "cycle next to -tubes tubes with one delayed job each (default 5000)",
		defaults: Load{Tubes: 5000}, setup: func(ctx context.Context, e *env) (runner, error) {
			if err := e.anchor(ctx, "idle", e.Load.Tubes); err != nil {
				return nil, err
			}
			return ownTubes(func(a *cycler) turn { return a.cycle })(ctx, e)
		}},
	"held": {help: "one connection holds -held reservations and deletes them in shuffled order (default 40000)",
		defaults: Load{Conns: 1, Held: 40_000}, setup: setupHeld},
	"multi-watch": {help: "cycle over -tubes watched tubes, put into each in turn (default 16)",
		defaults: Load{Tubes: 16}, setup: setupMultiWatch},
	"laravel": {help: "what Laravel workers send: polls of two queues, a push, stats-job, new connections",
		defaults: Load{Tubes: 4, Reconnect: 10}, traits: single | stamped, setup: setupLaravel},
	"connect": {help: "connect, use, put, close: every put on its own connection, 16 at a time",
		defaults: Load{Conns: 16}, traits: unpaced | constant | single | stamped, setup: setupConnect},
	"big-bodies": {help: "cycle with bodies of 60000 bytes, 8 connections",
		defaults: Load{Body: 60_000, Conns: 8}, traits: constant, setup: ownTubes(func(a *cycler) turn { return a.cycle })},
	"job": {help: "put, take and acknowledge a job, all connections on one queue; an operation is a job", unit: "job",
		traits: single, setup: setupJobs(newBeanJobs)},
	"memory": {help: "resident memory of -count ready jobs (default 1000000), and after their drain",
		defaults: Load{Count: 1_000_000, Conns: 4, Depth: 64}, traits: once | unpaced, setup: setupBeansMemory},
}

// A cycler puts jobs into its own tube, reserves them and deletes them. No other connection uses the tube,
// so the jobs must come back with their bodies in the order of their ids. Its functions are created
// once, because a closure for each turn would be garbage.
type cycler struct {
	*Conn
	ids                        []uint64 // jobs of the current turn; 0: not known
	last, taken                uint64   // stamps of the last job that was put, and of the last one reserved
	put, reserve, remove       func(i int)
	onPut, onReserve, onRemove func(i int) error
}

// newCycler returns a cycler for up to n jobs in a turn.
func newCycler(c *Conn, n int) *cycler {
	a := &cycler{Conn: c, ids: make([]uint64, n)}
	a.put = func(int) { a.last++; c.put(jobPri, 0, a.last) }
	a.onPut = func(i int) error { a.ids[i%n] = c.Reply.Num; return c.expect("put", "INSERTED") }
	a.reserve = func(int) { c.say("reserve") }
	a.onReserve = func(i int) error {
		id := a.ids[i]
		a.ids[i] = c.Reply.Num
		a.taken++
		return c.expectJob(id, a.taken)
	}
	a.remove = func(i int) { c.sayJob("delete", a.ids[i]) }
	a.onRemove = c.expects("delete", "DELETED")
	return a
}

func (a *cycler) putAll(l *lane) error { return a.batch(l, a.depth, a.depth, a.put, a.onPut) }

// cycle is one turn: put, reserve and delete.
func (a *cycler) cycle(l *lane) error {
	if err := a.putAll(l); err != nil {
		return err
	}
	return a.take(l, a.depth)
}

// take reserves and deletes the last n jobs that were put.
func (a *cycler) take(l *lane, n int) error {
	if err := a.batch(l, n, a.depth, a.reserve, a.onReserve); err != nil {
		return err
	}
	return a.batch(l, n, a.depth, a.remove, a.onRemove)
}

// takeAny reserves and deletes up to depth of the remaining jobs in the tube.
func (a *cycler) takeAny(l *lane) error {
	n := int(min(uint64(a.depth), a.last-a.taken))
	if n == 0 {
		return errDone
	}
	clear(a.ids)
	return a.take(l, n)
}

// fill puts n jobs in bulk.
func (a *cycler) fill(n int) error { return a.batch(unmeasured(), n, bulk, a.put, a.onPut) }

// cyclers gives each connection its own tube and a cycler.
func (e *env) cyclers(ctx context.Context) ([]*cycler, error) {
	all := make([]*cycler, e.Load.Conns)
	return all, e.openAll(ctx, len(all), func(i int, c *Conn) error {
		all[i] = newCycler(c, c.depth)
		return c.own(e.tubeName("c", i))
	})
}

// turnsOf returns the turn of each actor.
func turnsOf[A any](actors []A, f func(A) turn) []turn {
	turns := make([]turn, len(actors))
	for i, a := range actors {
		turns[i] = f(a)
	}
	return turns
}

// ownTubes returns the setup of a workload in which each connection has its own tube and a cycler.
func ownTubes(f func(a *cycler) turn) func(ctx context.Context, e *env) (runner, error) {
	return func(ctx context.Context, e *env) (runner, error) {
		all, err := e.cyclers(ctx)
		return func(ph *phase) error { return ph.all(turnsOf(all, f)) }, err
	}
}

// setupBeansDrain puts the jobs. Only the number of jobs limits the run.
func setupBeansDrain(ctx context.Context, e *env) (runner, error) {
	all, err := e.cyclers(ctx)
	for _, a := range all {
		if err == nil {
			err = a.fill(max(1, int(e.Load.Count)/e.Load.Conns))
		}
	}
	return func(ph *phase) error {
		ph.count = 0
		return ph.all(turnsOf(all, func(a *cycler) turn { return a.takeAny }))
	}, err
}

// setupBeansMemory puts jobs into the connections' tubes, and reserves and deletes them.
func setupBeansMemory(ctx context.Context, e *env) (runner, error) {
	all, err := e.cyclers(ctx)
	each := int(e.Load.Count) / e.Load.Conns
	return memoryRunner(func(ph *phase) (int64, error) {
		return int64(each * len(all)), ph.all(turnsOf(all, func(a *cycler) turn {
			return func(l *lane) error {
				if err := a.batch(l, each, a.depth, a.put, a.onPut); err != nil {
					return err
				}
				return errDone
			}
		}))
	}, func(ph *phase) error { return ph.all(turnsOf(all, func(a *cycler) turn { return a.takeAny })) }), err
}

// setupManyTubes divides tubes among the connections. Each tube exists all the time, because it has a
// job delayed for hours. A turn moves to the connection's next tube (use, watch, ignore the last
// one) and cycles there: six commands for one job at depth 1. A connection with a single tube
// ignores "default", which it does not watch, so that it sends the same commands.
func setupManyTubes(ctx context.Context, e *env) (runner, error) {
	conns := e.Load.Conns
	n := max(e.Load.Tubes, conns)
	if err := e.anchor(ctx, "t", n); err != nil {
		return nil, err
	}
	return e.uniform(ctx, func(i int, c *Conn) (turn, error) {
		var tubes []string
		for j := i * n / conns; j < (i+1)*n/conns; j++ {
			tubes = append(tubes, e.tubeName("t", j))
		}
		a, last, used := newCycler(c, c.depth), "default", 0
		both := uint64(min(len(tubes), 2))
		steps := []step{
			{func() {
				if len(tubes) > 1 {
					last = tubes[used]
				}
				used = (used + 1) % len(tubes)
				c.sayTube("use", tubes[used])
			}, func() error { return c.expectUsing(tubes[used]) }},
			{func() { c.sayTube("watch", tubes[used]) }, func() error { return c.expectWatching("watch", both) }},
			{func() { c.sayTube("ignore", last) }, func() error { return c.expectWatching("ignore", 1) }},
		}
		move, onMove := func(i int) { steps[i].say() }, func(i int) error { return steps[i].check() }
		return func(l *lane) error {
			if err := c.batch(l, 3, c.depth, move, onMove); err != nil {
				return err
			}
			return a.cycle(l)
		}, c.own(tubes[0])
	})
}

// setupMultiWatch has connections that watch several tubes of their own. The names spread the tubes
// over a server's shards. A turn is depth times (use the next tube, put), then depth reserves and
// depth deletes. All jobs have one priority: they must come back in the order of their ids over all
// tubes.
func setupMultiWatch(ctx context.Context, e *env) (runner, error) {
	return e.uniform(ctx, func(i int, c *Conn) (turn, error) {
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
		onPut := func(i int) error {
			if i%2 == 1 {
				return a.onPut(i / 2)
			}
			answered = (answered + 1) % len(tubes)
			return c.expectUsing(tubes[answered])
		}
		return func(l *lane) error {
			if err := c.batch(l, 2*c.depth, c.depth, put, onPut); err != nil {
				return err
			}
			return a.take(l, c.depth)
		}, c.watchOnly(tubes...)
	})
}

// setupHeld has one connection that holds reservations and deletes them in a shuffled order. One
// operation is one delete. Puts and reserves are not measured; they are repeated for the duration
// of the run.
func setupHeld(ctx context.Context, e *env) (runner, error) {
	if e.Load.Conns != 1 {
		return nil, errors.New("workload held has one connection")
	}
	c, err := e.open(ctx)
	if err != nil {
		return nil, err
	}
	a, rng := newCycler(c, e.Load.Held), rand.New(rand.NewPCG(1, 2))
	fill := func() error { // puts and reserves all jobs, and shuffles them
		if err := a.fill(len(a.ids)); err != nil {
			return err
		}
		if err := c.batch(unmeasured(), len(a.ids), bulk, a.reserve, a.onReserve); err != nil {
			return err
		}
		rng.Shuffle(len(a.ids), func(i, j int) { a.ids[i], a.ids[j] = a.ids[j], a.ids[i] })
		return nil
	}
	return func(ph *phase) error {
		l, err := ph.lane(0, 1, true)
		if err != nil {
			return err
		}
		defer l.end()
		// It runs at least one round and never cuts one short. The deadline counts measured time.
		for first := true; first || l.more(); first = false {
			if err := ph.exclude(fill); err != nil {
				return err
			}
			l.deadline = ph.deadline + int64(ph.excludedWall)
			if err := c.batch(l, len(a.ids), c.depth, a.remove, a.onRemove); err != nil {
				return err
			}
		}
		return nil
	}, c.own(e.tubeName("held", 0))
}

// setupLaravel sends what a Laravel worker sends through pheanstalk: polls of a high queue and then
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
func setupLaravel(ctx context.Context, e *env) (runner, error) {
	return e.uniform(ctx, func(i int, c *Conn) (turn, error) {
		q := i % e.Load.Tubes
		a := &poller{Conn: c, watched: "default"}
		high, low := e.tubeName("high", q), e.tubeName("low", q)
		var stamp, id uint64
		steps := slices.Concat([]step{
			{func() { a.sayTube("use", low) }, func() error { return a.expectUsing(low) }},
			{func() { stamp++; a.put(jobPri, 0, stamp) }, func() error { return a.expect("put", "INSERTED") }},
		}, a.poll(high, func() error { return a.expect("reserve-with-timeout 0", "TIMED_OUT") }), a.poll(low, func() error {
			stamp, err := Stamp(a.Reply.Body)
			if err != nil {
				return a.wrong("reserve-with-timeout 0", "RESERVED")
			}
			id = a.Reply.Num
			return a.expectJob(0, stamp)
		}), []step{
			{func() { a.sayJob("stats-job", id) }, func() error {
				a.text = fmt.Appendf(a.text[:0], "---\nid: %d\n", id)
				if !bytes.HasPrefix(a.Reply.Body, a.text) || !bytes.Contains(a.Reply.Body, []byte("\nstate: reserved\n")) {
					return fmt.Errorf("wrong reply to stats-job %d, which is reserved: got %q %q", id, a.Reply.Line, a.Reply.Body)
				}
				return nil
			}},
			{func() { a.sayJob("delete", id) }, func() error { return a.expect("delete", "DELETED") }},
		})
		say, check := func(i int) { steps[i].say() }, func(i int) error { return steps[i].check() }
		turns := i % e.Load.Reconnect
		return func(l *lane) (err error) {
			if turns++; turns%e.Load.Reconnect == 0 {
				if err := a.quit(); err != nil {
					return err
				}
				e.drop(a.Conn)
				if a.Conn, err = e.open(context.Background()); err != nil {
					return err
				}
				a.watched = "default"
			}
			return a.batch(l, len(steps), 1, say, check)
		}, nil
	})
}

// A step is a command and the check of its reply.
type step struct {
	say   func()
	check func() error
}

// A poller is the connection of one worker process of the application.
type poller struct {
	*Conn
	watched string // the one tube watched between polls
	text    []byte // that an answer must have
}

// poll returns the steps that make tube the only watched one and ask for a job without waiting.
func (a *poller) poll(tube string, onReserve func() error) []step {
	return []step{
		{func() { a.sayTube("watch", tube) }, func() error { return a.expectWatching("watch", 2) }},
		{func() { a.say("list-tubes-watched") }, func() error {
			a.text = fmt.Appendf(a.text[:0], "---\n- %s\n- %s\n", a.watched, tube)
			if !bytes.Equal(a.Reply.Body, a.text) {
				return fmt.Errorf("wrong reply to list-tubes-watched: expected %q, got %q %q", a.text, a.Reply.Line, a.Reply.Body)
			}
			return nil
		}},
		{func() { a.sayTube("ignore", a.watched) }, func() error { return a.expectWatching("ignore", 1) }},
		{func() { a.watched = tube; a.say("reserve-with-timeout 0") }, onReserve},
	}
}
