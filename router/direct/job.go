package direct

import "polystalk/shard/core"

// StatsJob is what there is to tell about a job; false: there is none of that id.
func (c *Caller) StatsJob(id core.JobID) (s core.JobStats, ok bool) {
	shard, ok := c.m.OfJob(id)
	if !ok {
		return s, false
	}
	c.Op().StatsJob(0, id, &s)
	r := c.Do(shard)
	ok = r.Status == core.StatusOK
	c.Op().JobStats = nil
	return s, ok
}

// Peek is a copy of a job's body; false: there is no such job.
func (c *Caller) Peek(id core.JobID) (body []byte, ok bool) {
	shard, ok := c.m.OfJob(id)
	if !ok {
		return nil, false
	}
	c.Op().Peek(0, id)
	r := c.Do(shard)
	if r.Status != core.StatusFound {
		return nil, false
	}
	return jobOf(r).Body, true
}

// DeleteJob deletes a job that nobody has reserved. It reports on which commit that
// depends; false: there is no such job, or somebody has it.
func (c *Caller) DeleteJob(id core.JobID) (commit uint64, ok bool) {
	shard, ok := c.m.OfJob(id)
	if !ok {
		return 0, false
	}
	c.Op().Delete(0, id)
	r := c.Do(shard)
	if r.Status != core.StatusOK {
		return 0, false
	}
	c.m.IDs().Finish(id)
	return r.Commit, true
}

// KickJob makes a buried or delayed job ready. It reports on which commit that depends;
// false: there is no such job, or it is neither.
func (c *Caller) KickJob(id core.JobID) (commit uint64, ok bool) {
	shard, ok := c.m.OfJob(id)
	if !ok {
		return 0, false
	}
	c.Op().KickJob(0, id)
	r := c.Do(shard)
	return r.Commit, r.Status == core.StatusOK
}
