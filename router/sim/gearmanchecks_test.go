package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

// rest brings the world to rest, including corked replies, and checks the rules for that state.
func (c *gearChaos) rest() error {
	if err := c.w.rest(); err != nil {
		return err
	}
	if c.operatorClient != nil && c.operatorClient.flushed {
		c.operatorClient.flushed = false
		if err := c.w.pass(20 * time.Millisecond); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(c.w.loops, func(l *loop) bool { return len(l.later) > 0 }) {
		c.seen["kept back"]++
		if err := c.w.pass(5 * time.Millisecond); err != nil {
			return err
		}
	}
	if err := c.settle(); err != nil {
		return err
	}
	if err := c.settleGears(); err != nil {
		return err
	}
	if err := c.w.Check(); err != nil {
		return err
	}
	if err := c.complete(); err != nil {
		return err
	}
	if err := c.conserved(); err != nil {
		return err
	}
	if err := c.awake(); err != nil {
		return err
	}
	return c.probe()
}

// settleGears checks that every Gearman client has its replies.
func (c *gearChaos) settleGears() error {
	kept := c.gears[:0]
	for i, cn := range c.gears {
		if err := c.listen(cn); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		if cn.k.broken {
			c.perish(cn)
			continue
		}
		for len(cn.asked) > 0 && cn.asked[0].silent() && !(cn.k.Ended && cn.k.Glutted) {
			q := cn.asked[0]
			cn.asked = cn.asked[1:]
			c.passed(cn, &q)
		}
		switch {
		case cn.k.Ended && cn.k.Glutted:
			if !cn.k.shut {
				c.seen["cut off"]++
			}
			c.perish(cn)
			continue
		case len(cn.asked) > 0:
			return fmt.Errorf("connection %d, closed %v: %v %q is not answered", i, cn.k.Ended, cn.asked[0].t, cn.asked[0].line)
		case cn.listing:
			return fmt.Errorf("connection %d: half a list", i)
		case cn.k.Ended && !cn.k.shut:
			return fmt.Errorf("connection %d was closed", i)
		case cn.k.Ended:
			continue
		}
		cn.reports = false
		kept = append(kept, cn)
	}
	clear(c.gears[len(kept):])
	c.gears = kept
	return nil
}

// perish marks the effects of cn's unanswered messages as unknown.
func (c *gearChaos) perish(cn *gearConn) {
	for _, q := range cn.asked {
		if q.report != nil && ends(q.t) || strings.HasPrefix(q.line, "cancel") {
			c.fate(q.id).mayBeGone = true
		}
	}
}

// complete checks that every report has reached all clients that waited for its job at that time.
func (c *gearChaos) complete() error {
	for _, p := range c.open {
		if !p.settled || p.refused {
			continue // not settled: its worker has left
		}
		for cn, n := range p.due {
			w := cn.waits[p.id]
			if !slices.Contains(c.gears, cn) || cn.got[p.n] >= n {
				continue
			}
			if ends(p.t) && p.t != gearman.WorkComplete || w.ended > 0 && w.last < 0 {
				continue // a WORK_FAIL does not name its worker
			}
			return fmt.Errorf("job %d: %v %.40q came to a client %d times, %d submissions waited", p.id, p.t, p.data, cn.got[p.n], n)
		}
	}
	c.open = c.open[:0]
	for i, cn := range c.gears {
		for id, w := range cn.waits {
			if w.ended > 0 && w.ended < w.n {
				return fmt.Errorf("connection %d heard of the end of job %d %d times, of %d", i, id, w.ended, w.n)
			}
		}
	}
	return nil
}

// conserved checks that the existing jobs are the put and submitted jobs that did not end. Commands
// without replies may or may not have had an effect.
func (c *gearChaos) conserved() error {
	there := c.w.jobs()
	for id, j := range there {
		if err := c.meet(string(j.Body), id); err != nil {
			return fmt.Errorf("job %d: %w", id, err)
		}
	}
	for _, cn := range c.dead {
		for _, q := range cn.asked {
			if rest, ok := strings.CutPrefix(q.line, "delete "); ok {
				id, _ := strconv.ParseUint(rest, 10, 64)
				c.fate(id).mayBeGone = true
			}
		}
	}
	c.dead = nil
	for id := range c.deleted {
		c.fate(id).gone = true
	}
	for id, f := range c.fates {
		if j, ok := there[id]; ok && (f.gone || f.cancelled && j.State != core.Reserved) {
			return fmt.Errorf("job %d has ended and is there, %v", id, j.State)
		}
	}
	lost := func(id uint64) bool {
		f := c.fates[id]
		_, ok := there[id]
		return !ok && (f == nil || !f.gone && !f.cancelled && !f.mayBeGone)
	}
	for id := range c.inserted {
		if lost(id) {
			return fmt.Errorf("job %d is lost", id)
		}
	}
	for id, j := range c.jobs {
		if j.background && c.retries == 0 && lost(id) {
			return fmt.Errorf("background job %d is lost", id)
		}
	}
	for i, cn := range c.gears {
		for id, w := range cn.waits {
			if j, ok := there[id]; w.ended == 0 && (!ok || j.State == core.Buried) {
				return fmt.Errorf("connection %d waits for job %d, which is over", i, id)
			}
		}
		for id, h := range cn.holds {
			if j, ok := there[id]; h.firm && (!ok || j.State != core.Reserved) {
				return fmt.Errorf("connection %d runs job %d, which is not reserved", i, id)
			}
		}
	}
	for id, j := range there {
		if j.State == core.Reserved && !c.knows(id) && !slices.ContainsFunc(c.gears, func(cn *gearConn) bool { return cn.told[id] }) {
			return fmt.Errorf("job %d is reserved for a client without a reply", id)
		}
	}
	return nil
}

// functions returns the tubes from which workers can get jobs now, with the best priority of each.
func (c *gearChaos) functions() map[string]uint32 {
	ready, paused := make(map[string]uint32), make(map[string]bool)
	for _, sh := range c.w.D.Shards() {
		for t := range sh.Tubes() {
			paused[t.Name] = t.Held
		}
	}
	for _, j := range c.w.jobs() {
		if best, ok := ready[j.Tube]; j.State == core.Ready && !paused[j.Tube] && (!ok || j.Pri < best) {
			ready[j.Tube] = j.Pri
		}
	}
	return ready
}

// awake checks that no worker sleeps while a job for it is ready.
func (c *gearChaos) awake() error {
	if c.wakeup > 0 {
		return nil // then not all workers are woken
	}
	ready := c.functions()
	for i, cn := range c.gears {
		for fn := range cn.able {
			if _, ok := ready[fn]; ok && cn.sleeps > 0 && !cn.heard && !cn.blind[fn] {
				return fmt.Errorf("connection %d sleeps, and %q has a job", i, fn)
			}
		}
	}
	return nil
}

// probe lets one worker grab while nothing else happens: it gets a job of the best class, the first
// of its function, or none if there is none.
func (c *gearChaos) probe() error {
	cn := c.anyGear()
	if cn == nil || cn.k.shut {
		return nil
	}
	ready := c.functions()
	best := core.NumClasses
	for fn, pri := range ready {
		if cn.able[fn] {
			best = min(best, core.ClassOf(pri))
		}
	}
	before := c.w.jobs()
	nojobs := c.seen["NO_JOB"]
	c.say(cn, gearAsk{t: gearman.GrabJob, able: slices.Sorted(maps.Keys(cn.able))})
	if err := c.w.rest(); err != nil {
		return err
	}
	if err := c.listen(cn); err != nil {
		return fmt.Errorf("a probe: %w", err)
	}
	if len(cn.asked) > 0 {
		return errors.New("a probe is not answered")
	}
	if none := c.seen["NO_JOB"] > nojobs; none != (best == core.NumClasses) {
		return fmt.Errorf("a probe: NO_JOB: %v; the best class is %d of %v", none, best, ready)
	}
	after := c.w.jobs()
	for id := range cn.told {
		j := before[id]
		if j.State != core.Ready || after[id].State != core.Reserved {
			continue
		}
		if core.ClassOf(j.Pri) != best || j.Pri != ready[j.Tube] {
			return fmt.Errorf("a probe: job %d of priority %d, the best class is %d of %v", id, j.Pri, best, ready)
		}
	}
	return nil
}

// dropAll drops the functions of an empty world, and checks that nothing is left.
func (c *gearChaos) dropAll() error {
	k := c.w.openGearman()
	n := 0
	for _, sh := range c.w.D.Shards() {
		for t := range sh.Tubes() {
			if t.Function {
				n++
				k.Send([]byte("drop function " + t.Name + "\n"))
			}
		}
	}
	k.halfClose()
	if err := c.w.rest(); err != nil {
		return err
	}
	if want := strings.Repeat(gearman.MsgOK, n); string(k.Got) != want || !k.Ended {
		return fmt.Errorf("dropping %d functions: got %q, closed %v", n, k.Got, k.Ended)
	}
	for _, sh := range c.w.D.Shards() {
		for t := range sh.Tubes() {
			if !t.Pinned || t.Function {
				return fmt.Errorf("tube %q is left", t.Name)
			}
		}
		if n := sh.Counts(); n.Clients != 0 {
			return fmt.Errorf("shard %d is not empty: %+v", sh.Index, n)
		}
	}
	return c.w.Check()
}
