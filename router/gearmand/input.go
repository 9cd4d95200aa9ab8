package gearmand

import (
	"polystalk/codec/gearman"
	"polystalk/router/session"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// Input implements session.Protocol.
func (c *conn) Input(b []byte) (n int) {
	for n < len(b) {
		used, more := c.input(c, b[n:])
		n += used
		if !more {
			break
		}
		c.FlushFull()
	}
	return n
}

// The functions with the results n and more are values of conn.input. Each uses n bytes from
// the front of b. more is false if the session is stopped, or b has only a part of a message.

// opening takes the first message of a connection. It refuses a client that speaks HTTP or TLS:
// a web page can make a browser send such a line, followed by lines that are commands here.
func (c *conn) opening(b []byte) (n int, more bool) {
	if !c.MayParse() {
		return 0, false
	}
	n, _ = gearman.Parse(&c.m, b, c.front.cfg.Load().MaxBody)
	foreign := c.m.Type == gearman.Text && (session.IsForeign(b[:n], false) || session.IsProxied(b))
	if n == 0 {
		foreign = session.IsTLS(b) // TLS has no lines
	}
	switch {
	case foreign:
		c.Quit()
		c.front.host.CountRejection(session.RejectedForeign)
		c.front.host.Complain(session.ForeignComplaint, "conn", &c.Session)
		return len(b), true
	case n == 0:
		return c.incomplete(b)
	}
	c.input = (*conn).command
	return c.command(b)
}

// command takes one message.
func (c *conn) command(b []byte) (n int, more bool) {
	if !c.MayParse() {
		return 0, false
	}
	m := &c.m
	n, fault := gearman.Parse(m, b, c.front.cfg.Load().MaxBody)
	if n == 0 {
		return c.incomplete(b)
	}
	if fault != nil {
		c.Spend(1)
		c.faulty(fault)
		return n, true
	}
	if c.Credential() != nil && !c.authorize() {
		return n, true
	}
	switch v, why := c.Admit(c.need()); v {
	case session.Wait:
		return 0, false
	case session.Refuse:
		c.refuseSubmission(why)
		return n, true
	}
	c.counted()
	return n + c.dispatch(b[n:]), true
}

// dispatch runs the parsed message if b has all of its data, else it starts to collect the data.
// It returns how many bytes of b it used.
func (c *conn) dispatch(b []byte) (n int) {
	size := c.m.Size
	switch {
	case !c.m.Type.HasData():
		c.skipNext(size)
		c.runMessage(nil, nil)
		return 0
	case size <= slab.MaxSize && len(b) >= size:
		c.runMessage(b[:size:size], nil)
		return size
	}
	c.keepArgs()
	c.StartBody(size, 0)
	c.input = (*conn).collectData
	return 0
}

// counted counts the message.
func (c *conn) counted() {
	c.Spend(1)
	c.Count(c.front.base + kinds.of(&c.m))
}

// faulty replies to an invalid message.
func (c *conn) faulty(fault *gearman.Fault) {
	if c.Unproven() {
		c.refuseUnproven()
		return
	}
	c.sayFault(fault)
	if fault.Close {
		c.Refuse()
		return
	}
	c.skipNext(c.m.Size)
}

// refuseSubmission replies to a submission that is not admitted, and skips its data.
func (c *conn) refuseSubmission(why session.Reason) {
	c.counted()
	if why == session.Draining {
		c.fail(gearman.ErrorDraining)
	} else {
		c.fail(gearman.ErrorQueue)
	}
	c.skipNext(c.m.Size)
}

// need returns the needs of the message.
func (c *conn) need() (n session.Need) {
	if !c.m.Type.HasData() {
		return n
	}
	n.Body = c.m.Size
	_, n.Records, n.Submits = c.m.Type.Submits()
	n.Puts = n.Submits
	return n
}

// skipNext skips the next n bytes.
func (c *conn) skipNext(n int) {
	if n > 0 {
		c.skip = n
		c.input = (*conn).throwAway
	}
}

// throwAway takes bytes to skip.
func (c *conn) throwAway(b []byte) (n int, more bool) {
	if c.Stopped() {
		return 0, false
	}
	n = min(c.skip, len(b))
	if c.skip -= n; c.skip == 0 {
		c.input = (*conn).command
	}
	return n, true
}

// keepArgs copies the arguments, because the input is valid only during Input.
func (c *conn) keepArgs() {
	m := &c.m
	c.args = c.args[:0]
	for _, a := range m.Args[:m.N] {
		c.args = append(c.args, a...)
	}
	at := 0
	for i, a := range m.Args[:m.N] {
		m.Args[i] = c.args[at : at+len(a) : at+len(a)]
		at += len(a)
	}
}

// collectData takes data of the message, and runs the message when the data is complete.
func (c *conn) collectData(b []byte) (n int, more bool) {
	if c.Stopped() {
		return 0, false
	}
	n, v := c.Collect(b, len(c.args), c.need().Records)
	switch {
	case v == session.Refuse:
		left := c.BodyLeft()
		c.EndBody()
		c.fail(gearman.ErrorQueue)
		c.input = (*conn).command
		c.skipNext(left)
	case c.BodyLeft() == 0 && !c.maySubmit(): // since a reload
		c.EndBody()
		c.fail(gearman.ErrorNotPermitted)
		c.input = (*conn).command
	case c.BodyLeft() == 0:
		c.input = (*conn).command
		small, large, _ := c.Collected()
		c.runMessage(small, large)
	}
	return n, true
}

// runMessage runs the message; its data is in body or large.
func (c *conn) runMessage(body []byte, large core.Large) {
	c.patient.heard()
	switch m := &c.m; m.Type {
	case gearman.Text:
		c.admin()
	case gearman.EchoReq:
		c.echo(body, large)
	case gearman.CanDo:
		c.register(0)
	case gearman.CanDoTimeout:
		c.register(core.Time(m.Timeout))
	case gearman.CantDo:
		if i := c.abilities.Find(m.Args[0]); i >= 0 {
			c.unregister(i)
		}
	case gearman.ResetAbilities:
		c.reset()
	case gearman.PreSleep:
		c.preSleep()
	case gearman.GrabJob, gearman.GrabJobUniq, gearman.GrabJobAll:
		c.grab()
	case gearman.WorkStatus, gearman.WorkComplete, gearman.WorkFail,
		gearman.WorkException, gearman.WorkData, gearman.WorkWarning:
		c.report(body, large)
	case gearman.GetStatus:
		c.getStatus()
	case gearman.GetStatusUnique:
		c.getStatusUnique()
	case gearman.OptionReq:
		c.setOption(m.Args[0])
	case gearman.SetClientID:
		c.front.directory.setID(c.entry, m.Args[0])
	default:
		c.submit(body, large)
	}
	c.Run()
}

// echo replies with the data of the message.
func (c *conn) echo(body []byte, large core.Large) {
	c.SetOut(gearman.AppendEchoHead(c.Out(), c.m.Size))
	if large != nil {
		c.writeShared(nil, large) // no job has it
	} else {
		c.SetOut(append(c.Out(), body...))
	}
	c.EndBody()
}

// setOption switches the option exceptions on, or takes a token.
func (c *conn) setOption(name []byte) {
	if token, ok := gearman.AuthOption(name); ok && c.Credential() != nil {
		c.auth(token)
		return
	}
	if !gearman.IsExceptions(name) {
		c.fail(gearman.ErrorUnknownOption)
		return
	}
	c.exceptions = true
	c.SetOut(gearman.AppendReply(c.Out(), gearman.OptionRes, name))
}
