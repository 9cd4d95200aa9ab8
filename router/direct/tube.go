package direct

import (
	"polystalk/router/ops"
	"polystalk/shard/core"
)

// pieceMax is the largest piece of a large body.
const pieceMax = 1 << 20

// Put adds a job to a tube, which is made if need be. The delay and the time to run are in
// seconds. The body is copied. It reports on which commit the change depends; false: there is no memory for it.
func (c *Caller) Put(tube []byte, pri, delay, ttr uint32, body []byte) (id core.JobID, commit uint64, ok bool) {
	shard := c.m.OfTube(tube)
	c.Op().Use(tube, 0)
	used := c.Do(shard).Tube
	ids := c.m.IDs()
	id = ids.Take(1)
	ids.Note(id, shard)
	body, large := stored(body)
	c.Op().Put(used, id, pri, delay, ttr, body, large)
	r := c.Do(shard)
	ok, commit = r.Status == core.StatusOK, r.Commit
	op := c.Op()
	op.Body, op.Large = nil, nil
	c.Op().Unuse(used)
	c.Do(shard)
	if !ok {
		ids.Finish(id)
		return 0, 0, false
	}
	return id, commit, true
}

// StatsTube is what there is to tell about a tube; false: there is none of that name.
func (c *Caller) StatsTube(tube []byte) (s core.TubeStats, ok bool) {
	c.Op().StatsTube(tube, &s)
	r := c.Do(c.m.OfTube(tube))
	ok = r.Status == core.StatusOK
	c.Op().TubeStats = nil
	return s, ok
}

// Pause keeps reserve from a tube for so many seconds; zero: no longer. It reports on which
// commit the change depends; false: there is no such tube.
func (c *Caller) Pause(tube []byte, seconds uint32) (commit uint64, ok bool) {
	c.Op().Pause(tube, seconds)
	r := c.Do(c.m.OfTube(tube))
	return r.Commit, r.Status == core.StatusOK
}

// Kick kicks up to n jobs of a tube, the buried ones if there are any, else the delayed
// ones. It reports how many it has kicked, and on which commit that depends. between is
// called between two visits, with no shard owned: it reports whether to go on.
func (c *Caller) Kick(tube []byte, n uint32, between func() (goOn bool)) (moved uint32, commit uint64) {
	shard := c.m.OfTube(tube)
	c.Op().Use(tube, 0)
	used := c.Do(shard).Tube
	var k ops.Kick
	k.Start(used, n, c.Op())
	for more := true; more; {
		r := c.Do(shard)
		commit = max(commit, r.Commit)
		more = k.Next(r, c.Op()) && between()
	}
	c.Op().Unuse(used)
	c.Do(shard)
	return k.Moved, commit
}
