package core

import (
	"bytes"

	"github.com/cespare/xxhash/v2"

	"polystalk/shard/record"
	"polystalk/shard/slab"
)

// gearing is what a core needs for submitted jobs.
type gearing struct {
	opts   GearOptions
	jobs   *slab.Pool[gearJob]
	texts  *slab.Bytes // uniques and reducers
	unique uniqueTable // the jobs that can be joined
	extras map[uint32]gearExtra
	waits  []waitList       // by gearJob.waits: who waits; 0 is none
	free   []uint32         // of waits
	mail   []*Mail          // to be posted
	record record.Submitted // scratch of submitted

	numbered numbered // see logNumber

	tail JobID  // the last job when one was sent behind it
	turn uint32 // how many were since
}

// A gearJob is what a submitted job has besides a job: 32 bytes without pointers.
type gearJob struct {
	hash                  uint32 // see hashIn and gearing.unique
	next                  uint32 // see uniqueTable
	job                   uint32 // its job
	unique, reducer       uint32 // in gearing.texts
	waits                 uint32 // in gearing.waits; zero: nobody
	uniqueLen, reducerLen uint8
	background            bool
	byBody                bool // its unique id is its body
	indexed               bool
	cancelled             bool // it runs, but is over for everybody else
	extra                 bool // there is one in gearing.extras
}

// A gearExtra is what few jobs have.
type gearExtra struct {
	lost                   uint32 // how often its worker was
	numerator, denominator uint32
}

// noTTR is the time to run of a submitted job that a beanstalkd client reserves.
const noTTR = 1<<32 - 1

// GearOptions sets how submitted jobs are treated, before the first operation and the
// first record that is replayed.
func (c *Core) GearOptions(o GearOptions) { c.gearOpts = &o }

// gearUp prepares for submitted jobs.
func (c *Core) gearUp() {
	if c.gear != nil {
		return
	}
	c.gear = &gearing{jobs: slab.NewPool[gearJob](), texts: slab.NewBytes(), waits: make([]waitList, 1)}
	if c.gearOpts != nil {
		c.gear.opts = *c.gearOpts
	}
	if c.gear.opts.Hash == nil {
		c.gear.opts.Hash = xxhash.New()
	}
}

func (g *gearing) close() {
	g.jobs.Close()
	g.texts.Close()
}

// gearOf is the gearJob of a job that isGear.
func (c *Core) gearOf(j *job) *gearJob { return c.gear.jobs.At(j.ttr) }

// ttrOf is a job's time to run, in seconds.
func (c *Core) ttrOf(j *job) uint32 {
	if j.isGear() {
		return noTTR
	}
	return j.ttr
}

// deadlineOf is when a reservation of j by cl that begins now runs out, in time awake. A job
// that was put has its own time to run, whoever takes it.
func (c *Core) deadlineOf(j *job, t *tube, cl *client) Time {
	if !j.isGear() {
		return c.awake() + Time(j.ttr)*Second
	}
	if cl.mail == nil {
		return c.awake() + noTTR*Second
	}
	if d := cl.timeouts[t.id]; d != 0 && d < Never-c.now {
		return c.awake() + d
	}
	return Never
}

// sumOf is the hash of what makes op's job one that others join, within its
// function. Not ok: it never joins another.
func (g *gearing) sumOf(op *Op) (sum uint64, ok bool) {
	h := g.opts.Hash
	h.Reset()
	switch {
	case !op.Gear.ByBody:
		h.Write(op.Gear.Unique()) // a hash's Write never fails
		return h.Sum64(), op.Gear.uniqueLen > 0
	case op.Large == nil:
		h.Write(op.Body)
		return ^h.Sum64(), len(op.Body) > 0
	}
	for _, p := range op.Large {
		h.Write(p)
	}
	return ^h.Sum64(), true
}

// hashIn is under which hash such a job of t is found. In 32 bits few of ten million
// jobs have the same.
func hashIn(t *tube, sum uint64) uint32 { return hashAmong(uint32(t.id)%uniqueGroups, sum) }

// uniqueGroups are into how many groups functions fall, each with a hash of its own for
// the same unique id. So a question that names no function looks under so many hashes,
// however many functions there are; and an id that each of very many functions has
// makes no longer chain than that many would have jobs.
const uniqueGroups = 256

func hashAmong(group uint32, sum uint64) uint32 {
	const spread = 0x9E3779B97F4A7C15 // 2^64 by the golden ratio, as in idHash
	return uint32((sum ^ uint64(group)*spread) >> 32)
}

// findUnique finds the job of t that op joins, zero if there is none.
func (c *Core) findUnique(t *tube, op *Op, hash uint32) uint32 {
	n := c.gear.unique.find(c.gear.jobs, hash, func(n uint32) bool {
		x := c.gear.jobs.At(n)
		switch j := c.jobs.At(x.job); {
		case j.tube != t.id || x.byBody != op.Gear.ByBody:
			return false
		case x.byBody:
			return c.sameBody(j, op)
		}
		return bytes.Equal(c.gear.uniqueOf(x), op.Gear.Unique())
	})
	if n == 0 {
		return 0
	}
	return c.gear.jobs.At(n).job
}

func (c *Core) sameBody(j *job, op *Op) bool {
	if op.Large == nil {
		return j.flags&flagLarge == 0 && bytes.Equal(c.bodies.Get(j.body, int(j.size)), op.Body)
	}
	if j.flags&flagLarge == 0 || int(j.size) != op.Large.Len() {
		return false
	}
	a, b := c.large[j.body], op.Large
	var x, y []byte
	for {
		for ; len(x) == 0 && len(a) > 0; a = a[1:] {
			x = a[0]
		}
		for ; len(y) == 0 && len(b) > 0; b = b[1:] {
			y = b[0]
		}
		n := min(len(x), len(y))
		if n == 0 {
			return true // of the same length: both are at their end
		}
		if !bytes.Equal(x[:n], y[:n]) {
			return false
		}
		x, y = x[n:], y[n:]
	}
}

func (g *gearing) uniqueOf(x *gearJob) []byte  { return g.texts.Get(x.unique, int(x.uniqueLen)) }
func (g *gearing) reducerOf(x *gearJob) []byte { return g.texts.Get(x.reducer, int(x.reducerLen)) }

// newGear gives job i of t what a submitted job has besides. It reports false when
// there is no memory; nothing is left behind then.
func (c *Core) newGear(t *tube, i uint32, j *job, op *Op) bool {
	g := c.gear
	n, x := g.jobs.Alloc()
	if n == 0 {
		return false
	}
	if n > recordMax {
		g.jobs.Free(n)
		return false
	}
	var ok bool
	if x.unique, ok = g.texts.Put(op.Gear.Unique()); !ok {
		g.jobs.Free(n)
		return false
	}
	if x.reducer, ok = g.texts.Put(op.Gear.Reducer()); !ok {
		g.texts.Free(x.unique, len(op.Gear.Unique()))
		g.jobs.Free(n)
		return false
	}
	x.uniqueLen, x.reducerLen = op.Gear.uniqueLen, op.Gear.reducerLen
	x.job, x.background, x.byBody = i, op.Gear.Background, op.Gear.ByBody
	j.flags |= flagGear
	j.ttr = n
	var sum uint64
	if sum, x.indexed = g.sumOf(op); x.indexed {
		x.hash = hashIn(t, sum)
		g.unique.insert(g.jobs, n)
	}
	return true
}

// extraOf is the gearExtra of record n.
func (g *gearing) extraOf(n uint32) gearExtra {
	if !g.jobs.At(n).extra {
		return gearExtra{}
	}
	return g.extras[n]
}

func (g *gearing) setExtra(n uint32, e gearExtra) {
	x := g.jobs.At(n)
	switch was := x.extra; {
	case e != gearExtra{}:
		if g.extras == nil {
			g.extras = make(map[uint32]gearExtra)
		}
		g.extras[n], x.extra = e, true
	case was:
		x.extra = false
		if delete(g.extras, n); len(g.extras) == 0 {
			g.extras = nil // a map never shrinks
		}
	}
}

// submitted describes what j has besides, until the next call.
func (c *Core) submitted(j *job) *record.Submitted {
	x := c.gearOf(j)
	c.gear.record = record.Submitted{
		Unique: c.gear.uniqueOf(x), Reducer: c.gear.reducerOf(x),
		ByBody: x.byBody, Joinable: x.indexed, Lost: c.gear.extraOf(j.ttr).lost,
	}
	return &c.gear.record
}

// forget takes x out of the index: nobody can join it any more.
func (g *gearing) forget(n uint32, x *gearJob) {
	if !x.indexed {
		return
	}
	x.indexed = false
	g.unique.remove(g.jobs, n)
}

// freeGear forgets what j has besides; nobody waits for it any more.
func (c *Core) freeGear(j *job) {
	g := c.gear
	x := c.gearOf(j)
	c.detach(x)
	g.forget(j.ttr, x)
	g.setExtra(j.ttr, gearExtra{})
	g.texts.Free(x.unique, int(x.uniqueLen))
	g.texts.Free(x.reducer, int(x.reducerLen))
	g.jobs.Free(j.ttr)
}
