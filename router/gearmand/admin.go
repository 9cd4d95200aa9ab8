package gearmand

import (
	"os"
	"strconv"

	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

// admin runs a line of text.
func (c *conn) admin() {
	m, out := &c.m, c.Out()
	switch m.Verb {
	case gearman.Workers:
		c.workers()
	case gearman.Status, gearman.PriorityStatus, gearman.ShowJobs, gearman.ShowUniqueJobs:
		c.listAll()
	case gearman.MaxQueue:
		c.Op().LimitFunction(m.Args[0], m.Limits)
		c.runOn(c.places().OfTube(m.Args[0]), (*conn).done)
	case gearman.CreateFunction:
		c.Op().CreateFunction(m.Args[0])
		c.runOn(c.places().OfTube(m.Args[0]), (*conn).done)
	case gearman.DropFunction:
		name := []byte(c.places().Tubes().FindFolded(string(m.Args[0])))
		c.Op().DropFunction(name)
		c.runOn(c.places().OfTube(name), (*conn).dropped)
	case gearman.CancelJob:
		c.cancel(m.Args[0])
	case gearman.Version:
		*out = gearman.AppendOK(*out, c.front.cfg.Load().Version)
	case gearman.Verbose:
		*out = gearman.AppendOK(*out, c.front.cfg.Load().Verbose)
	case gearman.GetPID:
		*out = gearman.AppendOK(*out, strconv.Itoa(os.Getpid()))
	case gearman.Shutdown, gearman.ShutdownGraceful:
		c.shutDown()
	}
}

// done answers what cannot fail.
func (c *conn) done(*core.Reply) {
	c.Op().Name = nil
	c.Say(gearman.MsgOK)
}

func (c *conn) dropped(r *core.Reply) {
	c.Op().Name = nil
	switch r.Status {
	case core.StatusNotFound:
		c.refuseLine(gearman.MsgFunctionNotFound, functionNotFound)
	case core.StatusInUse:
		c.refuseLine(gearman.MsgFunctionBusy, functionBusy)
	default:
		c.Say(gearman.MsgOK)
	}
}

// cancel ends the job of a handle.
func (c *conn) cancel(handle []byte) {
	id, shard, ok := c.find(handle)
	if !ok {
		c.refuseLine(gearman.MsgUnknownJob, unknownJob)
		return
	}
	c.Op().CancelJob(id)
	c.runOn(shard, (*conn).cancelled)
}

func (c *conn) cancelled(r *core.Reply) {
	if r.Status == core.StatusNotFound {
		c.refuseLine(gearman.MsgUnknownJob, unknownJob)
		return
	}
	c.Say(gearman.MsgOK)
}

// shutDown asks for the end of the server, if this client may.
func (c *conn) shutDown() {
	verb, host := c.m.Verb, c.front.host
	if !c.mayShutDown() {
		host.Complain("refused the command "+verb.String()+": see --gearman-shutdown", "conn", &c.Session)
		c.sayFault(gearman.ErrUnknownCommand)
		return
	}
	host.Log.Info("a Gearman administrator sent "+verb.String(), "conn", &c.Session)
	c.Say(gearman.MsgOK)
	c.front.wantShutdown(verb == gearman.ShutdownGraceful)
}
