package gearmand

import (
	"polystalk/codec/gearman"
	"polystalk/shard/core"
)

// relayOf is what a report, other than WORK_STATUS, is to those who wait for the job.
func relayOf(t gearman.Type) core.RelayKind {
	switch t {
	case gearman.WorkWarning:
		return core.RelayWarning
	case gearman.WorkComplete:
		return core.RelayDone
	case gearman.WorkFail:
		return core.RelayFailed
	case gearman.WorkException:
		return core.RelayException
	}
	return core.RelayData
}

// report takes what a worker says about a job that it runs.
func (c *conn) report(body []byte, large core.Large) {
	m := &c.m
	if m.Type == gearman.WorkFail && c.failsAgain(m.Args[0]) {
		return
	}
	client := core.ClientID(0)
	id, shard, ok := c.find(m.Args[0])
	if ok {
		client = c.handles.Client(shard)
	}
	if client == 0 {
		c.fail(gearman.NoJobError(m.Type))
		c.EndBody()
		return
	}
	if m.Type == gearman.WorkStatus {
		c.args = append(c.args[:0], m.Args[1]...)
		c.args = append(append(c.args, 0), m.Args[2]...)
		c.Op().ReportStatus(client, id, m.Numerator, m.Denominator, c.args)
	} else {
		c.Op().Report(client, id, relayOf(m.Type), body, large)
	}
	c.runOn(shard, (*conn).reported)
}

// failsAgain reports whether a WORK_FAIL, which has no data, is about the job that its
// worker has just ended by WORK_EXCEPTION: some send both, and die of an ERROR.
func (c *conn) failsAgain(handle []byte) bool {
	n, ours := gearman.ParseHandle(c.front.cfg.Load().Prefix, handle)
	if !ours || core.JobID(n) != c.excepted { // ids begin at 1
		return false
	}
	c.excepted = 0
	return true
}

func (c *conn) reported(r *core.Reply) {
	op := c.Op()
	op.Body, op.Large = nil, nil
	c.EndBody()
	c.Spend(int(r.N))
	switch {
	case r.Status == core.StatusNotFound:
		c.fail(gearman.NoJobError(c.m.Type))
	case c.m.Type == gearman.WorkException:
		c.excepted = op.ID
	}
}
