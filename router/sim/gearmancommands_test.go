package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

// gearAsk sends one to four messages at once.
func (c *gearChaos) gearAsk() {
	cn := c.anyGear()
	if cn == nil || cn.k.shut || cn.k.broken {
		return
	}
	for range 1 + c.rng.IntN(4) {
		c.message(cn)
	}
	if c.flood && c.steps > 300 {
		// More than one visit ends, or more than the work of a turn.
		c.flood = false
		c.seen["floods"]++
		for i := range 4000 {
			if i < 2500 {
				c.submit(cn, "default")
			} else {
				c.grab(cn)
			}
		}
	}
	if c.rng.IntN(100) == 0 {
		// The beginning of a workload that is never completed.
		b := packet(gearman.SubmitJob, "default", "", "half a workload")
		cn.k.Send(b[:len(b)-1-c.rng.IntN(20)])
		c.part(cn)
		if !cn.k.broken {
			cn.k.halfClose()
		}
	}
}

func packet(t gearman.Type, args ...string) []byte {
	list := make([][]byte, len(args))
	for i, a := range args {
		list[i] = []byte(a)
	}
	return gearman.AppendRequest(nil, t, list...)
}

// say sends one message. If it always has a reply, the reply shows the result of the report before
// it.
func (c *gearChaos) say(cn *gearConn, q gearAsk, args ...string) {
	switch {
	case q.report != nil && cn.reports:
		c.say(cn, gearAsk{t: gearman.EchoReq, body: "between"}, "between")
		cn.reports = true
	case q.report != nil:
		cn.reports = true
	case !q.silent():
		cn.reports = false
	}
	q.at = c.steps
	cn.asked = append(cn.asked, q)
	if q.t == gearman.Text {
		cn.k.Send([]byte(q.line + "\n"))
		return
	}
	cn.k.Send(packet(q.t, args...))
}

// silent reports whether q has no reply, unless a report is refused.
func (q *gearAsk) silent() bool {
	switch q.t {
	case gearman.CanDo, gearman.CanDoTimeout, gearman.CantDo, gearman.ResetAbilities, gearman.PreSleep, gearman.SetClientID:
		return true
	}
	return q.report != nil
}

// grabs reports whether q grabs a job.
func (q *gearAsk) grabs() bool {
	return q.t == gearman.GrabJob || q.t == gearman.GrabJobUniq || q.t == gearman.GrabJobAll
}

func (c *gearChaos) message(cn *gearConn) {
	name := c.names[c.rng.IntN(len(c.names))]
	r := c.rng.IntN(200)
	switch cn.bias {
	case worker:
		r = 70 + c.rng.IntN(100)
	case client:
		r = []int{c.rng.IntN(60), 160 + c.rng.IntN(40)}[c.rng.IntN(4)/3]
	case sleeper:
		if r = 60 + c.rng.IntN(140); 80 <= r && r < 105 && c.rng.IntN(4) > 0 {
			r = 105 // PRE_SLEEP
		}
	case patient:
		if r = c.rng.IntN(60); cn.waiting() {
			return
		}
	}
	switch {
	case r < 60:
		c.submit(cn, name)
	case r < 76:
		t, args := gearman.CanDo, []string{name}
		if c.rng.IntN(6) == 0 {
			t, args = gearman.CanDoTimeout, []string{name, "1000"}
			cn.timed[name] = true
		}
		cn.able[name] = true
		c.say(cn, gearAsk{t: t, fn: name}, args...)
	case r < 79:
		delete(cn.able, name)
		maps.DeleteFunc(cn.holds, func(_ uint64, h gearHold) bool { return h.fn == name })
		c.say(cn, gearAsk{t: gearman.CantDo, fn: name}, name)
	case r < 80:
		clear(cn.able)
		clear(cn.holds)
		c.say(cn, gearAsk{t: gearman.ResetAbilities})
	case r < 105:
		c.grab(cn)
	case r < 120:
		c.say(cn, gearAsk{t: gearman.PreSleep})
	case r < 160:
		for range 1 + c.rng.IntN(3) {
			c.report(cn)
		}
	default:
		c.query(cn, r-160)
	}
}

// waiting reports whether cn waits for a reply or a job.
func (cn *gearConn) waiting() bool {
	for _, w := range cn.waits {
		if w.ended < w.n {
			return true
		}
	}
	return len(cn.asked) > 0
}

func (c *gearChaos) submit(cn *gearConn, fn string) {
	c.puts++
	q := gearAsk{fn: fn, body: fmt.Sprintf("submitted-%d ", c.puts)}
	q.t = []gearman.Type{
		gearman.SubmitJob, gearman.SubmitJob, gearman.SubmitJob, gearman.SubmitJobHigh, gearman.SubmitJobLow, gearman.SubmitReduceJob,
		gearman.SubmitJobBG, gearman.SubmitJobHighBG, gearman.SubmitJobLowBG, gearman.SubmitReduceJobBG, gearman.SubmitJobEpoch,
	}[c.rng.IntN(11)]
	q.unique = []string{"", "", "u", "v", "-", "of its own"}[c.rng.IntN(6)]
	if q.unique == "of its own" {
		q.unique = fmt.Sprint(c.puts)
	}
	switch c.rng.IntN(40) {
	case 0:
		q.body += strings.Repeat("x", 70_000+c.rng.IntN(100_000))
	case 1, 2:
		q.body += strings.Repeat("y", c.rng.IntN(70_000))
	}
	if q.unique == "-" {
		q.body = fmt.Sprintf("%sby %s %d", sharedBody, fn, c.rng.IntN(2))
	}
	if _, there := c.bodies[q.body]; !there {
		c.bodies[q.body] = 0
	}
	c.home[q.body] = fn
	switch q.t {
	case gearman.SubmitJobEpoch:
		at := c.w.day()/core.Second + core.Time(c.rng.IntN(3))
		c.say(cn, q, fn, q.unique, fmt.Sprint(at), q.body)
	case gearman.SubmitReduceJob, gearman.SubmitReduceJobBG:
		c.say(cn, q, fn, q.unique, "reducer", "", q.body)
	default:
		c.say(cn, q, fn, q.unique, q.body)
	}
}

func (c *gearChaos) grab(cn *gearConn) {
	t := []gearman.Type{gearman.GrabJob, gearman.GrabJobUniq, gearman.GrabJobAll}[c.rng.IntN(3)]
	c.say(cn, gearAsk{t: t, able: slices.Sorted(maps.Keys(cn.able))})
}

// report sends a report, usually about a job of the worker, rarely about another.
func (c *gearChaos) report(cn *gearConn) {
	q := gearAsk{t: []gearman.Type{
		gearman.WorkData, gearman.WorkData, gearman.WorkData, gearman.WorkData, gearman.WorkWarning, gearman.WorkStatus,
		gearman.WorkComplete, gearman.WorkComplete, gearman.WorkFail, gearman.WorkException,
	}[c.rng.IntN(10)]}
	switch ids := slices.Sorted(maps.Keys(cn.holds)); {
	case len(ids) > 0 && c.rng.IntN(20) > 0:
		q.id = ids[c.rng.IntN(len(ids))]
	case cn.excepted != 0 && c.rng.IntN(2) == 0:
		q.id, q.t = cn.excepted, gearman.WorkFail
	case slices.ContainsFunc(cn.asked, func(q gearAsk) bool { return q.grabs() }):
		return // perhaps a job that it does not know yet
	case c.rng.IntN(10) > 0:
		c.grab(cn)
		return
	default:
		q.id = uint64(1 + c.rng.IntN(c.puts+2))
	}
	c.reportOn(cn, q)
}

func (c *gearChaos) reportOn(cn *gearConn, q gearAsk) {
	p := &gearReport{n: len(c.reports), t: q.t, id: q.id, due: map[*gearConn]uint32{}}
	c.reports = append(c.reports, p)
	c.open = append(c.open, p)
	q.report = p
	p.data = fmt.Sprintf("%d said", p.n)
	switch c.rng.IntN(40) {
	case 0:
		p.data += strings.Repeat("z", c.rng.IntN(140_000))
	case 1, 2, 3, 4:
		p.data += strings.Repeat("z", c.rng.IntN(10_000))
	}
	for _, o := range c.gears {
		if w := o.waits[p.id]; w != nil && w.ended == 0 {
			p.due[o] = w.n
		}
	}
	args := []string{handle(p.id), p.data}
	switch q.t {
	case gearman.WorkStatus:
		p.data = ""
		args = []string{handle(p.id), fmt.Sprint(p.n), "100"}
	case gearman.WorkFail:
		args = args[:1]
	}
	if ends(q.t) {
		delete(cn.holds, p.id)
	}
	if q.t == gearman.WorkFail || q.t == gearman.WorkException {
		c.fate(p.id).mayFail = true
	}
	c.say(cn, q, args...)
}

func ends(t gearman.Type) bool {
	return t == gearman.WorkComplete || t == gearman.WorkFail || t == gearman.WorkException
}

func handle(id uint64) string { return gearman.Handle{Prefix: prefix, ID: id}.String() }

// query sends a request; r is below 40.
func (c *gearChaos) query(cn *gearConn, r int) {
	id := uint64(1 + c.rng.IntN(c.puts+2))
	switch {
	case r < 6:
		f := c.fates[id]
		c.say(cn, gearAsk{t: gearman.GetStatus, id: id, over: f != nil && f.gone}, handle(id))
	case r < 9:
		u := []string{"u", "v", "-"}[c.rng.IntN(3)]
		c.say(cn, gearAsk{t: gearman.GetStatusUnique, unique: u}, u)
	case r < 12:
		c.say(cn, gearAsk{t: gearman.OptionReq}, "exceptions")
	case r < 13:
		c.say(cn, gearAsk{t: gearman.SetClientID}, "me")
	case r < 18:
		body := fmt.Sprint("echo ", c.steps)
		c.say(cn, gearAsk{t: gearman.EchoReq, body: body}, body)
	case r < 20:
		for range c.rng.IntN(3) { // preferably a job that exists
			if f := c.fates[id]; f == nil || !f.gone {
				break
			}
			id = uint64(1 + c.rng.IntN(c.puts+2))
		}
		c.fate(id).mayFail = true
		c.say(cn, gearAsk{t: gearman.Text, line: "cancel job " + handle(id), id: id})
	default:
		lines := []string{"status", "prioritystatus", "show jobs", "show unique jobs", "workers", "version"}
		c.say(cn, gearAsk{t: gearman.Text, line: lines[c.rng.IntN(len(lines))]})
	}
}
