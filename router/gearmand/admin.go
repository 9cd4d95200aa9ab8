package gearmand

import (
	"net"
	"os"
	"strconv"

	"polystalk/codec/gearman"
	"polystalk/router/access"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// admin runs a line of text.
func (c *conn) admin() {
	m := &c.m
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
		name := m.Args[0]
		if c.Credential() == nil { // otherwise the reply could depend on a function that is hidden
			name = []byte(c.places().Tubes().FindFolded(string(name)))
		}
		c.Op().DropFunction(name)
		c.runOn(c.places().OfTube(name), (*conn).dropped)
	case gearman.CancelJob:
		c.cancel(m.Args[0])
	case gearman.Version:
		c.SetOut(gearman.AppendOK(c.Out(), c.front.cfg.Load().Version))
	case gearman.Verbose:
		c.SetOut(gearman.AppendOK(c.Out(), c.front.cfg.Load().Verbose))
	case gearman.GetPID:
		c.SetOut(gearman.AppendOK(c.Out(), strconv.Itoa(os.Getpid())))
	case gearman.Shutdown, gearman.ShutdownGraceful:
		c.shutDown()
	case gearman.Auth:
		if c.Credential() == nil {
			c.sayFault(gearman.ErrUnknownCommand)
			return
		}
		c.auth(m.Args[0])
	}
}

// done replies OK to a command that cannot fail.
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

// cancel cancels the job of a handle.
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
	c.denyHidden()
	if r.Status == core.StatusNotFound {
		c.refuseLine(gearman.MsgUnknownJob, unknownJob)
		return
	}
	c.Say(gearman.MsgOK)
}

// shutDown requests the shutdown of the server, if this client may.
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

// getStatus and getStatusUnique keep their argument, because the reply repeats it.
func (c *conn) getStatus() {
	c.keepArgs()
	id, shard, ok := c.find(c.m.Args[0])
	if !ok {
		c.sayStatus(gearman.JobStatus{})
		return
	}
	c.Op().JobStatus(c.handles.Client(shard), id)
	c.runOn(shard, (*conn).statusTold)
}

func (c *conn) statusTold(r *core.Reply) {
	c.denyHidden()
	c.sayStatus(c.jobStatus(r))
}

func (c *conn) sayStatus(s gearman.JobStatus) {
	c.SetOut(gearman.AppendStatus(c.Out(), c.m.Args[0], s))
}

// jobStatus returns the job's status in a reply.
func (c *conn) jobStatus(r *core.Reply) gearman.JobStatus {
	if r.ID == 0 {
		return gearman.JobStatus{}
	}
	return gearman.JobStatus{Known: true, Running: c.op.Running, Numerator: c.op.Numerator, Denominator: c.op.Denominator}
}

// A uniqueStatus is the status of the newest job with a unique id, among the shards visited so far.
type uniqueStatus struct {
	newest  core.JobID // zero: there is none
	status  gearman.JobStatus
	clients uint32 // submissions that wait for it
}

// uniqueCost is the cost of one shard's part of GET_STATUS_UNIQUE, in units of a turn.
const uniqueCost = 64

// getStatusUnique visits all shards, because the request does not name a function. The newest job
// counts.
func (c *conn) getStatusUnique() {
	c.keepArgs()
	c.uniq = uniqueStatus{}
	c.askUnique(c.walk.Start(c.places()))
}

// askUnique visits a shard, from the beginning.
func (c *conn) askUnique(shard int) {
	c.Op().UniqueStatus(c.handles.Client(shard), c.m.Args[0])
	c.Spend(uniqueCost)
	c.runOn(shard, (*conn).uniqueTold)
}

func (c *conn) uniqueTold(r *core.Reply) {
	u := &c.uniq
	if r.ID > u.newest {
		*u = uniqueStatus{r.ID, c.jobStatus(r), c.op.Clients}
	}
	switch hop := c.walk.Next(r.Status); {
	case hop.Later:
		c.visitLater(0)
	case hop.Shard != ops.None:
		c.askUnique(hop.Shard)
	default:
		c.SetOut(gearman.AppendStatusUnique(c.Out(), c.m.Args[0], u.status, u.clients))
	}
}

// addressesCost is the cost of listing the machine's addresses, in units of a turn.
const addressesCost = 256

// mayShutDown reports whether the client may shut the server down.
func (c *conn) mayShutDown() bool {
	if c.Credential().Level() < access.AdminLevel {
		c.Deny(access.Manage, nil)
		return false
	}
	switch c.front.cfg.Load().Shutdown {
	case ShutdownAny:
		return true
	case ShutdownNone:
		return false
	}
	c.Spend(addressesCost)
	return isHere(session.PeerOf(c.Conn()))
}

// peerIP returns the address without the port, for the command workers.
func peerIP(a net.Addr) string {
	if f, ok := a.(session.Forwarded); ok {
		a = f.Addr
	}
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return "-"
}

// isHere reports whether a is on this machine: a unix socket, a loopback address, or an address
// of one of the machine's interfaces. If another server has forwarded the connection, only an
// interface address counts: the others belong to that server.
func isHere(a net.Addr) bool {
	f, forwarded := a.(session.Forwarded)
	if forwarded {
		a = f.Addr
	}
	if _, ok := a.(*net.UnixAddr); ok {
		return !forwarded
	}
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return false
	}
	if tcp.IP.IsLoopback() {
		return !forwarded
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, o := range own {
		if n, ok := o.(*net.IPNet); ok && n.IP.Equal(tcp.IP) {
			return true
		}
	}
	return false
}
