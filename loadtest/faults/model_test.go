package main

import (
	"cmp"
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var runs = flag.Int("runs", 50, "queues that are modelled")

// A plant is a fault of a modelled queue that the history must find.
type plant uint8

const (
	plantNone   plant = iota
	plantForget       // a put is acknowledged and its job is not there
	plantUndo         // a delete is acknowledged and its job comes back
	plantTwice        // a job is reserved by two
	plantHasty        // a delay is cut short
	plantExhume       // a buried job is ready
	plantDisown       // a reservation is lost while its connection lives
	plantDemote       // the priority of a release is lost
	plants
)

// playTime is how long clients work.
const playTime = int64(20 * time.Second)

// A queue is a correct queue in virtual time, used by clients with connections that break. Its
// commands take effect between call and answer. The history hears of the answer even later.
type queue struct {
	rng   *rand.Rand
	h     *history
	fault plant
	done  int // faults that were made

	now    int64
	events []event
	jobs   map[token]*modelJob
	found  []string
}

type modelJob struct {
	token token
	state string
	by    *modelClient // that holds it
	until int64        // delayed, or the TTR
	pri   uint32
	ttr   uint32
}

type modelClient struct {
	q      *queue
	s      *holder
	gone   bool // for the server: nothing that arrives takes effect
	broken bool // for the client
	held   []token
}

type event struct {
	at int64
	do func()
}

// after runs do at a random time up to most from now.
func (q *queue) after(most time.Duration, do func()) {
	q.events = append(q.events, event{q.now + 1 + q.rng.Int64N(int64(most)), do})
}

// wrong reports whether the queue errs now: f is its fault, and a random choice selects it.
func (q *queue) wrong(f plant) bool {
	if q.fault != f || q.rng.IntN(10) != 0 {
		return false
	}
	q.done++
	return true
}

// tick ends delays and TTRs that are over.
func (q *queue) tick() {
	for _, j := range q.jobs {
		if (j.state == "delayed" || j.state == "reserved") && j.until <= q.now {
			j.state, j.by = "ready", nil
		}
	}
}

// pick returns a random job in a state, or nil. The seed does not decide the order of a map.
func (q *queue) pick(is func(j *modelJob) bool) *modelJob {
	var all []*modelJob
	for _, t := range slices.Sorted(maps.Keys(q.jobs)) {
		if is(q.jobs[t]) {
			all = append(all, q.jobs[t])
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[q.rng.IntN(len(all))]
}

// drop ends a connection on the server's side.
func (q *queue) drop(c *modelClient) {
	c.gone = true
	for _, j := range q.jobs {
		if j.by == c {
			j.state, j.by = "ready", nil
		}
	}
}

// connect begins a client's next connection.
func (q *queue) connect() {
	c := &modelClient{q: q, s: q.h.connect()}
	q.after(2*time.Second, func() { // it breaks, and either side learns of it first
		q.after(time.Second, func() { q.drop(c) })
		q.after(time.Second, func() { c.broken = true })
	})
	c.next()
}

// do sends a command: take runs it on the server. It calls answered when the answer arrives, or
// doubt if it never does.
func (c *modelClient) do(take func(), answered func(call), doubt func(invoked int64)) {
	q := c.q
	invoked := q.now
	q.after(20*time.Millisecond, func() {
		ran := !c.gone
		if ran {
			q.tick()
			take()
		}
		q.after(20*time.Millisecond, func() {
			at := q.now
			q.after(50*time.Millisecond, func() {
				if !ran || c.broken || c.gone {
					doubt(invoked)
					c.end()
					return
				}
				c.s.answered(invoked)
				answered(call{invoked, at})
				c.next()
			})
		})
	})
}

// end ends a connection on the client's side.
func (c *modelClient) end() {
	c.s.broken()
	if !c.gone { // what was sent may come to the server still, but the connection ends for it too
		c.q.after(time.Second, func() { c.q.drop(c) })
	}
	c.q.connect()
}

// next runs a client's next action.
func (c *modelClient) next() {
	q := c.q
	switch n := q.rng.IntN(10); {
	case q.now > playTime:
		c.s.broken()
		q.drop(c)
	case c.broken:
		c.end()
	case n < 3:
		c.put()
	case n < 4:
		c.kick()
	case len(c.held) > 0:
		c.change()
	default:
		c.reserve()
	}
}

func (c *modelClient) put() {
	q := c.q
	t := q.h.newToken()
	p := put{pri: q.rng.Uint32N(9), ttr: 1 + q.rng.Uint32N(3), body: bodyOf(t)}
	if q.rng.IntN(4) == 0 {
		p.delay = time.Duration(1+q.rng.IntN(2)) * time.Second
	}
	q.h.putting(t, p, q.now)
	c.do(func() {
		if q.wrong(plantForget) {
			return
		}
		j := &modelJob{token: t, state: "ready", pri: p.pri, ttr: p.ttr}
		if p.delay > 0 {
			j.state, j.until = "delayed", q.now+int64(p.delay)
			if q.wrong(plantHasty) {
				j.until = q.now
			}
		}
		q.jobs[t] = j
	}, func(c call) { q.h.inserted(t, uint64(t), c) }, func(int64) {})
}

func (c *modelClient) reserve() {
	q := c.q
	var got *modelJob
	c.do(func() {
		got = q.pick(func(j *modelJob) bool {
			return j.state == "ready" || j.state == "reserved" && j.by != c && q.fault == plantTwice || j.state == "buried" && q.fault == plantExhume
		})
		if got == nil {
			return
		}
		if got.state != "ready" {
			q.done++
		}
		got.state, got.by, got.until = "reserved", c, q.now+int64(got.ttr)*int64(time.Second)
	}, func(at call) {
		if got != nil {
			c.s.reserved(uint64(got.token), bodyOf(got.token), at)
			c.held = append(c.held, got.token)
		}
	}, func(int64) {})
}

// change deletes, releases or buries a job that c reserved.
func (c *modelClient) change() {
	q := c.q
	t := c.held[0]
	c.held = c.held[1:]
	act, pri, delay := [...]opKind{opDelete, opRelease, opBury}[q.rng.IntN(3)], q.rng.Uint32N(9), int64(0)
	if act == opRelease {
		delay = int64(q.rng.IntN(3)) * int64(time.Second)
	}
	found := false
	made := func(invoked int64) op {
		o := op{kind: act, pri: pri}
		if delay > 0 {
			o.due = invoked + delay
		}
		return o
	}
	c.do(func() {
		j := q.jobs[t]
		if j == nil || j.by != c && (act != opDelete || j.state == "reserved") || j.by == c && q.wrong(plantDisown) {
			return
		}
		found, j.by, j.state = true, nil, "ready"
		if act != opDelete && !q.wrong(plantDemote) {
			j.pri = pri
		}
		switch {
		case act == opDelete && !q.wrong(plantUndo):
			delete(q.jobs, t)
		case act == opBury:
			j.state = "buried"
		case delay > 0 && !q.wrong(plantHasty):
			j.state, j.until = "delayed", q.now+delay
		}
	}, func(at call) {
		o := made(at.invoked)
		if !found {
			o = op{kind: opNotFound}
		}
		c.s.told(t, o, at)
	}, func(invoked int64) { c.s.doubted(t, made(invoked), invoked) })
}

// kick kicks any job by its id.
func (c *modelClient) kick() {
	q := c.q
	any := q.pick(func(*modelJob) bool { return true })
	if any == nil {
		c.reserve()
		return
	}
	t := any.token
	q.h.kicking(t, q.now)
	kicked := false
	c.do(func() {
		if j := q.jobs[t]; j != nil && (j.state == "buried" || j.state == "delayed") {
			j.state, kicked = "ready", true
		}
	}, func(c call) { q.h.kickAnswered(t, c, kicked) }, func(int64) {})
}

// model plays a queue for some virtual seconds, and closes its history.
func model(seed uint64, f plant) *queue {
	q := &queue{rng: rand.New(rand.NewPCG(seed, 1)), fault: f, jobs: make(map[token]*modelJob), now: 1}
	q.h = newHistory([]string{"a"}, 0, func(r rule, text string) { q.found = append(q.found, text) })
	for range 5 {
		q.connect()
	}
	for len(q.events) > 0 {
		e := slices.MinFunc(q.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
		i := slices.IndexFunc(q.events, func(o event) bool { return o.at == e.at })
		q.events = slices.Delete(q.events, i, i+1)
		q.now = e.at
		e.do()
	}
	q.h.beginRest(never)
	s := q.h.connect()
	q.now += int64(10 * time.Second)
	q.tick()
	for _, j := range q.jobs {
		c := call{q.now, q.now + 1}
		q.h.look(j.token, sight{"a", j.state, j.pri, j.ttr}, c)
		q.h.kickingTube(0)
		s.reserved(uint64(j.token), bodyOf(j.token), call{q.now + 2, q.now + 3})
		s.told(j.token, op{kind: opDelete}, call{q.now + 4, q.now + 5})
		q.now += 10
	}
	q.h.close()
	return q
}

// The history finds no fault in a correct queue, whatever breaks and however late reports arrive.
func TestCorrectQueuesAreNotFaulted(t *testing.T) {
	n := *runs
	if testing.Short() {
		n = (n + 9) / 10
	}
	for seed := range uint64(n) {
		if q := model(seed, plantNone); len(q.found) > 0 {
			t.Fatalf("seed %d: %v", seed, q.found)
		}
	}
}

// Every fault is found in most of the queues with it.
func TestFaultsOfQueuesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for f := plantForget; f < plants; f++ {
		made, found := 0, 0
		for seed := range uint64(*runs / 5) {
			q := model(seed, f)
			if q.done > 0 {
				made++
			}
			if len(q.found) > 0 {
				found++
			}
		}
		t.Logf("fault %d: %d queues made it, in %d it was found", f, made, found)
		if made == 0 || found < made*2/3 {
			t.Errorf("fault %d: %d queues made it, in %d alone it was found", f, made, found)
		}
	}
}
