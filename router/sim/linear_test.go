package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"polystalk/router/routertest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/router"
	"polystalk/shard/core"
)

// TestOverlappingHistoriesAreLinearizable lets clients with long watch lists work at the same time,
// reading a few tubes at a time, and checks their replies against a single queue.
func TestOverlappingHistoriesAreLinearizable(t *testing.T) {
	kinds := make(map[routertest.Kind]int)
	none, undecided, runs := 0, 0, 0
	seeds(t, 400, func(seed uint64) error {
		h := newOverlap(seed)
		defer h.w.Close()
		err := h.run()
		if err == nil {
			err = routertest.CheckHistory(h.all())
		}
		runs++
		for _, o := range h.ops {
			kinds[o.Kind]++
			if o.Kind == routertest.Reserve && o.Job == 0 {
				none++
			}
		}
		if errors.Is(err, routertest.ErrUndecided) {
			undecided++
			return nil
		}
		return err
	})
	if *seedFlag == 0 && (len(kinds) != int(routertest.HoldEnds) || none < runs) {
		t.Errorf("in %d histories: %v; %d reserves got nothing", runs, kinds, none)
	}
	if undecided > 1+runs/100 {
		t.Errorf("%d of %d histories are undecided", undecided, runs)
	}
}

// An overlap is a history of overlapping commands. Time is counted in steps.
type overlap struct {
	w     *world
	rng   *rand.Rand
	conns []*overlapConn
	names []string
	ops   []routertest.Op
	step  int64

	opened int // clients so far

	known  []uint64     // acknowledged jobs
	timed  []timed      // future events without a command
	paused map[int]bool // tubes that may be paused
	tubeOf map[uint64]int
	ttrOf  map[uint64]core.Time
}

// A timed is an event without a command. Its exact time depends on when the server ran the command
// behind it: between call and return.
type timed struct {
	op          routertest.Op
	early, late core.Time
	began       bool
}

type overlapConn struct {
	k     *sock
	n     int
	watch []bool
	use   int
	line  string
	opens int // number of replies that must arrive first
	op    routertest.Op
	asked core.Time
	ttr   core.Time // time to run of the job that it puts
	held  map[uint64]bool
	tell  bool  // it waits for a reply
	since int64 // the rest since which its wait is certain; zero: it is not
	lost  error // a later client got a job that it waits for; not an error if its wait is over
}

func newOverlap(seed uint64) *overlap {
	rng := rand.New(rand.NewPCG(seed, 3))
	w, err := New(seed, 1+rng.IntN(3), router.Config{Shards: []int{4, 16}[rng.IntN(2)]})
	if err != nil {
		panic(err)
	}
	w.D.LookAtMost(1 + rng.IntN(4))
	h := &overlap{
		w: w, rng: rng, paused: make(map[int]bool), tubeOf: make(map[uint64]int), ttrOf: make(map[uint64]core.Time),
	}
	for i := range []int{3, 6, 60, 120}[rng.IntN(4)] {
		h.names = append(h.names, fmt.Sprintf("t%d", i))
	}
	for range 3 + rng.IntN(4) {
		h.conns = append(h.conns, h.open())
	}
	return h
}

// open makes a client that watches some or most of the tubes. It does nothing else before all
// replies to that have arrived.
func (h *overlap) open() *overlapConn {
	h.opened++
	c := &overlapConn{
		k: h.w.Open(), n: h.opened, watch: make([]bool, len(h.names)), use: h.rng.IntN(len(h.names)), held: make(map[uint64]bool), tell: true, line: "use",
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "use %s\r\n", h.names[c.use])
	sparse := 1 + h.rng.IntN(4)
	for i, name := range h.names {
		if h.rng.IntN(sparse) == 0 || i == c.use {
			c.watch[i] = true
			fmt.Fprintf(&b, "watch %s\r\n", name)
		}
	}
	b.WriteString("ignore default\r\n")
	c.k.Send(b.Bytes())
	c.opens = bytes.Count(b.Bytes(), []byte("\n"))
	return c
}

func (h *overlap) run() error {
	for range 4 {
		for range 60 + h.rng.IntN(100) {
			h.step++
			if h.rng.IntN(3) == 0 {
				h.send(h.conns[h.rng.IntN(len(h.conns))])
			}
			if h.rng.IntN(40) == 0 {
				h.jump()
			}
			h.w.late()
			if err := h.hear(); err != nil {
				return err
			}
		}
		if err := h.rest(); err != nil {
			return err
		}
	}
	return nil
}

// rest lets all pending and due events happen.
func (h *overlap) rest() error {
	h.step++
	if err := h.w.pass(0); err != nil {
		return err
	}
	if err := h.hear(); err != nil {
		return err
	}
	h.due()
	h.timed = slices.DeleteFunc(h.timed, func(d timed) bool {
		if d.late > h.w.Now() {
			return false
		}
		d.op.Return = h.step
		h.ops = append(h.ops, d.op)
		if d.op.Kind == routertest.Unpause {
			delete(h.paused, d.op.Tube)
		}
		return true
	})
	for _, c := range h.conns {
		if c.tell && !c.k.waiting() {
			return fmt.Errorf("client %d: %q is not answered", c.n, c.line)
		}
		if c.tell && c.lost != nil {
			return c.lost
		}
		if c.tell && c.since == 0 {
			c.since = h.step
		}
	}
	h.step++
	return h.w.Check()
}

// jump lets time pass without running timers.
func (h *overlap) jump() {
	h.w.jump(time.Duration(1+h.rng.IntN(1500)) * time.Millisecond)
	h.due()
}

// due starts the events that are due.
func (h *overlap) due() {
	for i := range h.timed {
		if d := &h.timed[i]; !d.began && d.early <= h.w.Now() {
			d.began = true
			d.op.Call = h.step
		}
	}
}

// happens records an event that will happen after a time, counted from a command of c with a reply
// now.
func (h *overlap) happens(c *overlapConn, o routertest.Op, after core.Time) {
	h.timed = append(h.timed, timed{op: o, early: c.asked + after, late: h.w.Now() + after})
	if d := &h.timed[len(h.timed)-1]; d.early <= h.w.Now() {
		d.began = true
		d.op.Call = c.op.Call
	}
}

// all returns the whole history: events that have begun and are not over may have happened.
func (h *overlap) all() []routertest.Op {
	ops := h.ops
	for _, d := range h.timed {
		if d.began {
			d.op.Return = routertest.Pending
			ops = append(ops, d.op)
		}
	}
	return ops
}

// send lets an idle client send a command, or disconnect.
func (h *overlap) send(c *overlapConn) {
	if c.tell {
		return
	}
	if h.rng.IntN(60) == 0 {
		c.k.Abort()
		for id := range c.held {
			h.timed = append(h.timed, timed{op: routertest.Op{Kind: routertest.HoldEnds, Client: c.n, Job: id, Call: h.step}, began: true})
		}
		h.conns[slices.Index(h.conns, c)] = h.open()
		return
	}
	o := routertest.Op{Client: c.n, Call: h.step, Tube: c.use}
	pri := uint32(h.rng.IntN(3))
	switch r := h.rng.IntN(20); {
	case r < 7:
		o.Kind, o.Pri, o.Delayed = routertest.Put, pri, h.rng.IntN(6) == 0
		delay := 0
		if o.Delayed {
			delay = 1
		}
		ttr := []int{2, 1000}[h.rng.IntN(2)]
		c.ttr = core.Time(ttr) * core.Second
		c.line = fmt.Sprintf("put %d %d %d 1\r\nx", pri, delay, ttr)
	case r < 14:
		o.Kind, o.Watch = routertest.Reserve, c.watch
		c.line = []string{"reserve-with-timeout 0", "reserve-with-timeout 0", "reserve-with-timeout 1", "reserve"}[h.rng.IntN(4)]
	case r == 14:
		if h.paused[c.use] {
			return
		}
		h.paused[c.use] = true
		o.Kind = routertest.Pause
		c.line = fmt.Sprintf("pause-tube %s %d", h.names[c.use], 1+h.rng.IntN(3))
	default:
		o.Kind = []routertest.Kind{routertest.Delete, routertest.Release, routertest.Bury, routertest.KickJob}[h.rng.IntN(4)]
		o.Job, o.Pri = h.job(c), pri
		if o.Job == 0 {
			return
		}
		c.line = map[routertest.Kind]string{
			routertest.Delete: fmt.Sprintf("delete %d", o.Job), routertest.KickJob: fmt.Sprintf("kick-job %d", o.Job),
			routertest.Release: fmt.Sprintf("release %d %d 0", o.Job, pri), routertest.Bury: fmt.Sprintf("bury %d %d", o.Job, pri),
		}[o.Kind]
	}
	c.op, c.tell, c.asked = o, true, h.w.Now()
	c.k.Send([]byte(c.line + "\r\n"))
}

// job returns a job, usually one that c holds.
func (h *overlap) job(c *overlapConn) uint64 {
	if len(c.held) > 0 && h.rng.IntN(4) > 0 {
		var ids []uint64
		for id := range c.held {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		return ids[h.rng.IntN(len(ids))]
	}
	if len(h.known) == 0 {
		return 0
	}
	return h.known[h.rng.IntN(len(h.known))]
}

// hear takes the replies that have arrived.
func (h *overlap) hear() error {
	for _, c := range h.conns {
		got := string(c.k.Got)
		switch {
		case len(got) == 0:
			continue
		case !c.tell:
			return fmt.Errorf("client %d: unasked: %q", c.n, got)
		case c.line == "use":
			if strings.Count(got, "\n") == c.opens {
				c.tell, c.k.Got = false, nil
			}
			continue
		}
		c.k.Got, c.tell = nil, false
		if err := h.answered(c, got); err != nil {
			return fmt.Errorf("client %d: %q: %q: %w", c.n, c.line, got, err)
		}
	}
	return nil
}

func (h *overlap) answered(c *overlapConn, got string) error {
	o := c.op
	o.Return = h.step
	words := strings.Fields(got)
	o.Found = words[0] != "NOT_FOUND"
	id := uint64(0)
	if len(words) > 1 {
		id, _ = strconv.ParseUint(words[1], 10, 64)
	}
	switch o.Kind {
	case routertest.Put:
		if words[0] != "INSERTED" {
			return errors.New("refused")
		}
		o.Job = id
		h.known = append(h.known, id)
		h.tubeOf[id] = o.Tube
		h.ttrOf[id] = c.ttr
		if o.Delayed {
			h.happens(c, routertest.Op{Kind: routertest.DelayEnds, Job: id}, core.Second)
		}
	case routertest.Reserve:
		switch words[0] {
		case "RESERVED":
			o.Job = id
			c.held[id] = true
			ttr, ok := h.ttrOf[id]
			if !ok {
				ttr = 2 * core.Second // its put has no reply yet; with a longer time nothing happens
			}
			h.happens(c, routertest.Op{Kind: routertest.HoldEnds, Client: c.n, Job: id}, ttr)
			if !ok {
				h.timed[len(h.timed)-1].late = core.Never
			}
			h.inTurn(c, id)
		case "TIMED_OUT", "DEADLINE_SOON":
		default:
			return errors.New("what is that?")
		}
		c.since, c.lost = 0, nil
	case routertest.Pause:
		secs, _ := strconv.Atoi(strings.Fields(c.line)[2])
		h.happens(c, routertest.Op{Kind: routertest.Unpause, Tube: o.Tube}, core.Time(secs)*core.Second)
	case routertest.Delete, routertest.Release, routertest.Bury:
		delete(c.held, o.Job)
		for i := range h.timed {
			// This hold is over; the next one may be of the same job.
			if d := &h.timed[i]; d.op.Kind == routertest.HoldEnds && d.op.Client == c.n && d.op.Job == o.Job {
				d.late = core.Never
			}
		}
	}
	h.ops = append(h.ops, o)
	return nil
}

// inTurn records the clients that have waited for longer than c for the job that c gets.
func (h *overlap) inTurn(c *overlapConn, id uint64) {
	tube, ok := h.tubeOf[id]
	if !ok {
		return // its put has no reply yet
	}
	for _, o := range h.conns {
		if o != c && o.tell && o.since != 0 && o.since < c.op.Call && o.watch[tube] && o.lost == nil {
			o.lost = fmt.Errorf("client %d waits since before step %d, and client %d gets job %d at step %d", o.n, o.since, c.n, id, h.step)
		}
	}
}
