package core

import (
	"slices"
	"sync/atomic"
)

// A quota counts the jobs of a class of tubes in one shard. Its size is a cache line, so two shards
// share none.
type quota struct {
	jobs, bytes atomic.Int64
	_           [48]byte
}

// quotas are those of one shard, by class. The shard's owner changes them; any goroutine may read
// them.
type quotas struct{ list atomic.Pointer[[]*quota] }

// at returns the quota of a class; nil: no tube has had the class.
func (q *quotas) at(class uint16) *quota {
	if l := q.list.Load(); l != nil && int(class) < len(*l) {
		return (*l)[class]
	}
	return nil
}

func (q *quotas) add(class uint16, jobs int, bytes int64) {
	of := q.at(class)
	of.jobs.Add(int64(jobs))
	of.bytes.Add(bytes)
}

// make makes the quota of a class, if there is none.
func (q *quotas) make(class uint16) {
	if q.at(class) != nil {
		return
	}
	var list []*quota
	if l := q.list.Load(); l != nil {
		list = slices.Clone(*l)
	}
	list = append(list, make([]*quota, max(0, int(class)+1-len(list)))...)
	list[class] = new(quota)
	q.list.Store(&list)
}

// A classifier is a Directory that gives each tube its class; 0: it belongs to none. It is called
// while the shard is owned, like a Directory.
type classifier interface {
	ClassOf(tube string) uint16
}

// weigh adds jobs to a tube, or subtracts them. bytes are those of their bodies.
func (c *Core) weigh(t *tube, jobs int, bytes int64) {
	t.jobs += int32(jobs)
	t.bytes += uint64(bytes)
	if t.class != 0 {
		c.quotas.add(t.class, jobs, bytes)
	}
}

// classify gives the tube its class, with its jobs.
func (c *Core) classify(t *tube) {
	d, ok := c.dir.(classifier)
	if !ok {
		return
	}
	class := d.ClassOf(t.name)
	if class == t.class {
		return
	}
	jobs, bytes := int(t.jobs), int64(t.bytes)
	c.weigh(t, -jobs, -bytes)
	if t.class = class; class != 0 {
		c.quotas.make(class)
	}
	c.weigh(t, jobs, bytes)
}

// classifyMost is how many tubes Classify visits.
const classifyMost = 32

// Classify gives some tubes their classes and their policies again, after the directory's classes or
// the core's set of policies have changed. from is 0, then the result of the last call; 0: all are
// done. A tube that is opened meanwhile has both.
func (c *Core) Classify(from int) (next int) {
	end := min(from+classifyMost, len(c.tubes))
	for ; from < end; from++ {
		if t := c.tubes[from]; t != nil {
			c.classify(t)
			if c.policing != nil {
				c.applyPolicy(t)
			}
		}
	}
	if from >= len(c.tubes) {
		return 0
	}
	return from
}

// Used returns the jobs of a class of tubes, and the bytes of their bodies. Any goroutine may call it.
func (c *Core) Used(class uint16) (jobs, bytes int64) {
	if q := c.quotas.at(class); q != nil {
		return q.jobs.Load(), q.bytes.Load()
	}
	return 0, 0
}
