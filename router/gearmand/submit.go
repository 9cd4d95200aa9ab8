package gearmand

import (
	"time"

	"polystalk/codec/gearman"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// ScheduleCost is the cost of finding the next minute of a schedule, in units of a turn.
const ScheduleCost = 64

// epochMax is the last second that fits a core.Time.
const epochMax = int64(core.Never/core.Second) - 1

// submit runs a submission.
func (c *conn) submit(body []byte, large core.Large) {
	m := &c.m
	due, ok := c.due()
	if !ok {
		c.fail(gearman.ErrorSchedule)
		c.EndBody()
		return
	}
	size := len(body)
	if large != nil {
		size = large.Len()
	}
	if c.Exceeds(m.Args[0], size) {
		c.fail(gearman.ErrorQueueFull)
		c.EndBody()
		return
	}
	priority, background, _ := m.Type.Submits()
	c.AddRole(session.Producer)
	shard := c.places().OfTube(m.Args[0])
	c.Op().Submit(c.handles.Client(shard), &core.SubmitRequest{
		Function: m.Args[0], Pri: priority.Pri(), Body: body, Large: large,
		Unique: m.Args[1], Reducer: m.Reducer(), ByBody: string(m.Args[1]) == "-",
		Background: background, Due: due, Numbers: c.places().Numbers(shard),
	})
	c.early.waits = reportsWait
	c.runOn(shard, (*conn).submitted)
}

// due returns the earliest time at which the submitted job may run; zero: at once. ok is false if
// its schedule matches no time.
func (c *conn) due() (at core.Time, ok bool) {
	b := c.Loop().Batch()
	switch c.m.Type {
	case gearman.SubmitJobEpoch:
		return b.FromDay(core.Time(min(max(c.m.Epoch, 0), epochMax)) * core.Second), true
	case gearman.SubmitJobSched:
		c.Spend(ScheduleCost)
		t, ok := c.m.Schedule.Next(time.Unix(0, int64(b.Day())))
		if !ok {
			return 0, false
		}
		return b.FromDay(core.Time(t.UnixNano())), true
	}
	return 0, true
}

// submitted takes the reply of a submission.
func (c *conn) submitted(r *core.Reply) {
	if c.Unadmitted(r) {
		c.next = (*conn).submitAgain
		return
	}
	op := c.Op()
	op.Name, op.Body, op.Large = nil, nil, nil
	c.EndBody()
	c.sayNoop() // before the reply, because the job may have woken this connection
	switch r.Status {
	case core.StatusFull:
		c.fail(gearman.ErrorQueueFull)
	case core.StatusOutOfMemory:
		c.front.host.Complain("out of memory for a job", "conn", &c.Session, "bytes", c.m.Size)
		c.fail(gearman.ErrorQueue)
	default:
		c.created(r.ID)
	}
	c.mailMayGo()
}

// created replies JOB_CREATED.
func (c *conn) created(id core.JobID) {
	first := len(c.Out()) == 0
	c.SetOut(gearman.AppendJobCreated(c.Out(), c.handleOf(id)))
	if c.op.Background {
		return
	}
	if first && !c.patient.eager {
		c.Cork()
	}
	c.patient.waits = true
}

// submitAgain repeats a submission that waited for room in the log, or refuses it.
func (c *conn) submitAgain() {
	may := c.mayPut(c.Op().Name, c.op.Reducer()) // a reload may have ended that; m.Args are not valid any more
	switch c.Readmit(may) {
	case session.Run:
		c.Visit(c.Visited())
	case session.Wait:
		c.next = (*conn).submitAgain
	case session.Refuse:
		switch {
		case c.Broken():
			return
		case may:
			c.fail(gearman.ErrorQueue)
		default:
			c.fail(gearman.ErrorNotPermitted)
		}
		c.mailMayGo()
	}
}

// A patience detects how a client waits for its jobs. A client that submits a foreground job and
// waits for it receives two packets: JOB_CREATED, which it ignores, and the result. Writes to
// sockets are two thirds of the cost of such a job, so a busy loop delays JOB_CREATED for a short
// time, until there is more output (session.Session.Cork): 3 writes per job become 2. Once a client
// has sent a message before the result, as with several jobs in parallel, it is no longer delayed.
type patience struct {
	waits bool // a foreground job was created and has not ended
	eager bool // the client has sent a message before the end of such a job
}

// heard notes a message from the client.
func (p *patience) heard() { p.eager = p.eager || p.waits }

// ended notes that the end of a job was sent to the client.
func (p *patience) ended() { p.waits = false }
