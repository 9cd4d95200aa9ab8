package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"polystalk/codec/gearman"
)

// A gearPacket is a packet or a line of text that a client received.
type gearPacket struct {
	t    gearman.Type
	args []string
	data string
}

// listen takes the output for cn, and checks each packet.
func (c *gearChaos) listen(cn *gearConn) error {
	err := gearPackets(cn.k, func(p *gearPacket) error {
		c.seen[p.t.String()]++
		if err := c.hear(cn, p); err != nil {
			return fmt.Errorf("%v %q %.40q: %w", p.t, p.args, p.data, err)
		}
		return nil
	})
	if err == nil && len(cn.k.Got) > 0 {
		err = fmt.Errorf("no packet: %.60q of %d bytes", cn.k.Got, len(cn.k.Got))
	}
	return err
}

func (c *gearChaos) hear(cn *gearConn, p *gearPacket) error {
	if cn.listing && p.t != gearman.Text {
		return errors.New("in the middle of a list")
	}
	switch p.t {
	case gearman.Noop:
		return c.noop(cn)
	case gearman.WorkData, gearman.WorkWarning, gearman.WorkStatus, gearman.WorkComplete, gearman.WorkFail, gearman.WorkException:
		return c.relayed(cn, p)
	case gearman.Error:
		return c.refused(cn, p)
	}
	if cn.listing {
		cn.listing = p.args[0] != "."
		return nil
	}
	q, err := c.answered(cn)
	if err != nil {
		return err
	}
	return c.answer(cn, q, p)
}

// answered removes messages from the list, up to the one to which a reply belongs.
func (c *gearChaos) answered(cn *gearConn) (*gearAsk, error) {
	for len(cn.asked) > 0 {
		q := cn.asked[0]
		cn.asked = cn.asked[1:]
		if !q.silent() {
			return &q, nil
		}
		c.passed(cn, &q)
	}
	return nil, errors.New("nothing was asked")
}

// passed notes that the server has processed q, which has no reply.
func (c *gearChaos) passed(cn *gearConn, q *gearAsk) {
	switch q.t {
	case gearman.PreSleep:
		cn.sleeps++
		clear(cn.blind)
	case gearman.CanDo, gearman.CanDoTimeout:
		cn.blind[q.fn] = true // until it goes to sleep
	}
	p := q.report
	if p == nil {
		return
	}
	p.settled = true
	if p.t == gearman.WorkFail && p.id == cn.excepted {
		c.seen["swallowed"]++
		cn.excepted = 0
		p.refused = true
		return
	}
	if !ends(p.t) {
		return
	}
	f := c.fate(p.id)
	_, put := c.inserted[p.id]
	switch {
	case p.t == gearman.WorkComplete:
		f.gone, f.at = true, c.steps
	case put || c.jobs[p.id] == nil:
		f.mayBeGone = f.mayBeGone || c.jobs[p.id] == nil && !put // perhaps a job of a client that has left
	case c.bury:
		f.mayBeGone = true
	default:
		f.gone, f.at = true, c.steps
	}
	if p.t == gearman.WorkException {
		cn.excepted = p.id
	}
}

// noop checks that each PRE_SLEEP has at most one NOOP, and none behind the reply to a grab.
func (c *gearChaos) noop(cn *gearConn) error {
	for cn.sleeps == 0 {
		if len(cn.asked) == 0 || !cn.asked[0].silent() {
			return errors.New("to a connection that does not sleep")
		}
		q := cn.asked[0]
		cn.asked = cn.asked[1:]
		c.passed(cn, &q)
	}
	cn.sleeps--
	cn.heard = true
	return nil
}

// refused checks an error reply: only reports are refused here.
func (c *gearChaos) refused(cn *gearConn, p *gearPacket) error {
	for len(cn.asked) > 0 && cn.asked[0].silent() {
		q := cn.asked[0]
		cn.asked = cn.asked[1:]
		if q.report == nil {
			c.passed(cn, &q)
			continue
		}
		if strings.Join(p.args, "\x00") != gearman.NoJobError(q.t) {
			return fmt.Errorf("after a %v", q.t)
		}
		if cn.holds[q.id].firm {
			return fmt.Errorf("it holds job %d", q.id)
		}
		q.report.settled, q.report.refused = true, true
		return nil
	}
	return errors.New("no report was made")
}

// answer checks the reply p to q.
func (c *gearChaos) answer(cn *gearConn, q *gearAsk, p *gearPacket) error {
	want := []gearman.Type{p.t}
	switch {
	case q.fn != "":
		want = []gearman.Type{gearman.JobCreated}
	case q.t == gearman.GrabJob:
		want = []gearman.Type{gearman.JobAssign, gearman.NoJob}
	case q.t == gearman.GrabJobUniq:
		want = []gearman.Type{gearman.JobAssignUniq, gearman.NoJob}
	case q.t == gearman.GrabJobAll:
		want = []gearman.Type{gearman.JobAssignUniq, gearman.JobAssignAll, gearman.NoJob}
	case q.t == gearman.GetStatus:
		want = []gearman.Type{gearman.StatusRes}
	case q.t == gearman.GetStatusUnique:
		want = []gearman.Type{gearman.StatusResUnique}
	case q.t == gearman.OptionReq:
		want = []gearman.Type{gearman.OptionRes}
		cn.exceptions = true
	case q.t == gearman.EchoReq:
		want = []gearman.Type{gearman.EchoRes}
	case q.t == gearman.Text:
		want = []gearman.Type{gearman.Text}
	}
	if !slices.Contains(want, p.t) {
		return fmt.Errorf("answers %v", q.t)
	}
	switch p.t {
	case gearman.JobCreated:
		return c.created(cn, q, p)
	case gearman.NoJob:
		cn.sleeps, cn.heard = 0, false
	case gearman.JobAssign, gearman.JobAssignUniq, gearman.JobAssignAll:
		cn.sleeps, cn.heard = 0, false
		return c.assigned(cn, q, p)
	case gearman.EchoRes:
		if p.data != q.body {
			return fmt.Errorf("it was %q", q.body)
		}
	case gearman.StatusRes:
		return c.status(q, p, handle(q.id))
	case gearman.StatusResUnique:
		return c.status(q, p, q.unique)
	case gearman.Text:
		return c.line(cn, q, p.args[0])
	}
	return nil
}

func (c *gearChaos) status(q *gearAsk, p *gearPacket, of string) error {
	if p.args[0] != of {
		return fmt.Errorf("asked was %q", of)
	}
	if p.args[1] != "0" && q.over {
		return errors.New("it has ended")
	}
	return nil
}

func (c *gearChaos) line(cn *gearConn, q *gearAsk, line string) error {
	switch {
	case strings.HasPrefix(q.line, "cancel"):
		switch line {
		case "OK":
			c.seen["cancelled"]++
			c.fate(q.id).cancelled = true
		case "ERR UNKNOWN_JOB":
		default:
			return fmt.Errorf("answers %q", q.line)
		}
	case q.line == "version":
		if !strings.HasPrefix(line, "OK ") {
			return fmt.Errorf("answers %q", q.line)
		}
	default:
		cn.listing = line != "."
	}
	return nil
}

func jobOf(p *gearPacket) (uint64, error) {
	id, ok := gearman.ParseHandle(prefix, []byte(p.args[0]))
	if !ok {
		return 0, errors.New("no handle")
	}
	return id, nil
}

// created checks that a submission without unique id makes a new job, and others join only jobs
// with the same id.
func (c *gearChaos) created(cn *gearConn, q *gearAsk, p *gearPacket) error {
	id, err := jobOf(p)
	if err != nil {
		return err
	}
	_, background, _ := q.t.Submits()
	j := c.jobs[id]
	switch _, put := c.inserted[id]; {
	case put:
		return errors.New("the handle of a job that was put")
	case j == nil:
		j = &gearJob{fn: q.fn, unique: q.unique}
		c.jobs[id] = j
	case q.unique == "" || j.fn != q.fn || j.unique != q.unique:
		return fmt.Errorf("the handle of a job of %q with the unique id %q", j.fn, j.unique)
	default:
		c.seen["joined"]++
	}
	if q.unique == "" {
		if err := c.meet(q.body, id); err != nil {
			return err
		}
	}
	if background {
		j.background = true
		return nil
	}
	w := cn.waits[id]
	if w == nil {
		w = &gearWait{last: -1}
		cn.waits[id] = w
	}
	if w.n++; w.ended > 0 {
		return errors.New("the client has seen its end")
	}
	return nil
}

func (c *gearChaos) assigned(cn *gearConn, q *gearAsk, p *gearPacket) error {
	id, err := jobOf(p)
	if err != nil {
		return err
	}
	fn := p.args[1]
	if !slices.Contains(q.able, fn) {
		return fmt.Errorf("it is a worker of %q", q.able)
	}
	if err := c.meet(p.data, id); err != nil {
		return err
	}
	home, submitted := c.home[p.data]
	submitted = submitted && !c.alike[p.data] // else it may be a copy in another tube
	if submitted && home != fn {
		return fmt.Errorf("submitted to %q", home)
	}
	if j := c.jobs[id]; j != nil && (j.fn != fn || len(p.args) > 2 && p.args[2] != j.unique) {
		return fmt.Errorf("the job is one of %q with the unique id %q", j.fn, j.unique)
	}
	// A job with a time to run may have timed out and been done by another worker before a slow
	// loop delivers the reply; not if the request was sent after that.
	firm := submitted && !cn.timed[fn] && !c.shaky[id]
	if f := c.fates[id]; f != nil && f.gone && f.at < c.steps && (firm || f.at < q.at) {
		return errors.New("the job has ended")
	}
	cn.told[id] = true
	if cn.k.shut || cn.k.Ended || slices.ContainsFunc(cn.asked, func(q gearAsk) bool {
		return q.t == gearman.CantDo && q.fn == fn || q.t == gearman.ResetAbilities || q.report != nil && q.id == id
	}) {
		return nil // it may have lost the job already
	}
	cn.holds[id] = gearHold{fn, firm}
	if !firm {
		return nil // it may have timed out before the reply arrived
	}
	return c.reservedBy(cn, id)
}

// reservedOnce fails if another worker runs job id, which a client was given.
func (c *gearChaos) reservedOnce(id uint64) error { return c.reservedBy(nil, id) }

func (c *gearChaos) reservedBy(cn *gearConn, id uint64) error {
	for i, o := range c.gears {
		if o != cn && o.holds[id].firm && !o.k.shut && !o.k.broken && !o.k.Ended {
			return fmt.Errorf("connection %d has job %d", i, id)
		}
	}
	return nil
}

// relayed checks a report about a job for which cn waits.
func (c *gearChaos) relayed(cn *gearConn, p *gearPacket) error {
	id, err := jobOf(p)
	if err != nil {
		return err
	}
	w := cn.waits[id]
	if w == nil {
		return errors.New("the client does not wait for that job")
	}
	n := -1
	switch {
	case p.t == gearman.WorkFail:
		if !c.fate(id).mayFail && c.retries == 0 {
			return errors.New("no client made it fail")
		}
	case p.t == gearman.WorkComplete && p.data == "":
		if !c.fate(id).mayFail {
			return errors.New("no client deleted it")
		}
	default:
		number, _, _ := strings.Cut(p.data, " ")
		if p.t == gearman.WorkStatus {
			number = p.args[1]
		}
		if n, err = strconv.Atoi(number); err != nil || n < 0 || n >= len(c.reports) {
			return errors.New("no worker said so")
		}
		if r := c.reports[n]; r.id != id || r.t != p.t || r.data != p.data || r.refused {
			return fmt.Errorf("a worker said %v of %d, %.40q, refused: %v", r.t, r.id, r.data, r.refused)
		}
	}
	if w.ended > 0 && (p.t != w.by || n != w.last) {
		return errors.New("behind its end")
	}
	if ends(p.t) {
		w.by = p.t
		if w.ended++; w.ended > w.n {
			return fmt.Errorf("%d times, %d submissions", w.ended, w.n)
		}
	}
	if p.t == gearman.WorkException && !cn.exceptions {
		return errors.New("the option was not asked for")
	}
	if n < 0 {
		w.last = n
		return nil
	}
	if n < w.last {
		return fmt.Errorf("behind report %d", w.last)
	}
	w.last = n
	if cn.got[n]++; cn.got[n] > w.n {
		return fmt.Errorf("%d times, %d submissions", cn.got[n], w.n)
	}
	if cn.got[n] > 1 {
		c.seen["copied"]++
	}
	return nil
}
