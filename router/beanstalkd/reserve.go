package beanstalkd

import (
	"polystalk/codec/beanstalk"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// startReserve starts a reserve that waits at most d.
func (c *conn) startReserve(d core.Time) {
	c.AddRole(session.Worker)
	if c.reserve == nil {
		l := c.Loop()
		c.reserve = ops.NewReserve(c.Host().Map, l.Batch(), l, &c.watched, &c.handles)
		m := &c.reserve.Waiter.Msg
		m.Home, m.Owner = l, &c.Session
	}
	c.reserveOn(c.reserve.Start(d, c.Op()), nil)
}

// reserveTook takes the reply of a visit of the reserve.
func (c *conn) reserveTook(r *core.Reply) {
	c.reserveOn(c.reserve.Took(r, c.handles.In(c.Visited()), c.Op()), r)
}

// surveyOn continues the survey of several shards, unless the connection is broken: its job would
// be returned at once.
func (c *conn) surveyOn() {
	if !c.Broken() {
		c.reserveOn(c.reserve.Look(c.Op()), nil)
	}
}

// reserveOn does the next step of the reserve. If the step has a job, it is in r.
func (c *conn) reserveOn(s ops.Step, r *core.Reply) {
	switch s.Said {
	case core.StatusOK:
	case core.StatusReserved:
		c.sayReserved(r)
	case core.StatusDeadlineSoon:
		c.Say(beanstalk.MsgDeadlineSoon)
	case core.StatusTimedOut:
		c.Say(beanstalk.MsgTimedOut)
	default:
		c.fail(internalError)
	}
	switch s.Next {
	case ops.Visit:
		c.runOn(s.Shard, (*conn).reserveTook)
	case ops.Look:
		c.next = (*conn).surveyOn
		c.After()
	case ops.Later:
		c.goOnLater(0, 0, (*conn).surveyOn)
	case ops.Wait:
		c.startWaiting()
	}
}

// startWaiting makes the session wait for the wake-up, which may have arrived already.
func (c *conn) startWaiting() {
	if c.reserve.TakeEarly() {
		c.woken()
		return
	}
	c.Wait()
	if c.HalfClosed() && !c.Broken() {
		c.GiveUp()
	}
}

// Woken implements session.Protocol: the wake-up.
func (c *conn) Woken(m *core.Message) {
	switch {
	case c.Closing():
		m.Done()
	case c.Busy():
		c.reserve.Early() // the StatusWaiting reply is still on its way
	default:
		if c.Waiting() {
			c.EndWait()
		}
		c.woken()
	}
}

// woken replies with the result of the wait.
func (c *conn) woken() {
	m := &c.reserve.Waiter.Msg
	h := c.handles.Learn(m.From, len(c.Host().Map.Shards()), &m.Reply)
	c.Depend(m.Reply.Commit)
	c.reserveOn(c.reserve.Woken(&m.Reply, h, c.Op()), &m.Reply)
	m.Done()
}

// GiveUp implements session.Protocol: the wait times out, unless a shard has ended it already and
// the wake-up is on its way.
func (c *conn) GiveUp() {
	if s, ok := c.reserve.GiveUp(c.Op()); ok {
		c.EndWait()
		c.reserveOn(s, nil)
	}
}
