package core

import (
	"bytes"
	"hash"

	"github.com/cespare/xxhash/v2"

	"polystalk/shard/record"
	"polystalk/shard/slab"
)

// submissions has the additional state of a core for jobs that are submitted to functions.
type submissions struct {
	opts          SubmitOptions
	jobs          *slab.Pool[submission]
	texts         *slab.Bytes         // unique ids and reducers
	unique        uniqueTable         // the jobs that can be joined
	progresses    map[uint32]progress // by Job.submission, of the few jobs that have one
	followers     []followerList      // by submission.Followers; entry 0 is always empty
	freeFollowers []uint32            // unused entries of followers
	mail          []*Mail             // to post once the shard is released
	record        record.Submitted    // what submittedRecord returns

	numbered numbered // see recordNumber

	tail JobID  // the last job of all when one was sent to the tail of its priority
	turn uint32 // number of jobs that were sent behind that job
}

// A progress counts what has happened to a submitted job so far. Few jobs have one at the same
// time; for the others it is zero.
type progress struct {
	lost                   uint32 // how often the job has lost its worker
	numerator, denominator uint32 // its worker's last report
}

// noTTR is the time to run, in seconds, of a submitted job that a client reserves as if it
// had been put.
const noTTR = 1<<32 - 1

// SubmitOptions configures how a core treats submitted jobs.
type SubmitOptions struct {
	// Retries is how often a job may lose its worker before it fails; zero: any number of times.
	Retries uint32
	// Wakeup is how many sleeping workers a job wakes; zero: all.
	Wakeup int
	// BuryFailed buries a background job that fails, instead of deleting it.
	BuryFailed bool
	// Hash hashes unique ids, for this core only. It should have a secret seed: otherwise clients
	// can choose ids that all fall into one bucket, and each submission searches all of them.
	// Nothing else depends on it. Nil: xxhash, without a seed.
	Hash hash.Hash64
}

// SetSubmitOptions sets the options for submitted jobs. It must be called before the first
// operation and the first replayed record, and may be called again later. Later calls ignore
// o.Hash, since the index of jobs depends on it. Lost workers are counted for any Retries.
func (c *Core) SetSubmitOptions(o SubmitOptions) {
	if c.submitOpts != nil {
		o.Hash = c.submitOpts.Hash
	}
	c.submitOpts = &o
	if g := c.submissions; g != nil {
		o.Hash = g.opts.Hash
		g.opts = o
	}
}

// ensureSubmissions makes c.submissions when a client first names a function, so a core
// without functions does not need the memory.
func (c *Core) ensureSubmissions() {
	if c.submissions != nil {
		return
	}
	c.submissions = &submissions{jobs: slab.NewPool[submission](), texts: slab.NewBytes(), followers: make([]followerList, 1)}
	if c.submitOpts != nil {
		c.submissions.opts = *c.submitOpts
	}
	if c.submissions.opts.Hash == nil {
		c.submissions.opts.Hash = xxhash.New()
	}
}

// close unmaps the memory outside the collector's view.
func (g *submissions) close() {
	g.jobs.Close()
	g.texts.Close()
}

// submissionOf returns the submission of a job that isSubmitted.
func (c *Core) submissionOf(j *Job) *submission {
	return c.submissions.jobs.At(j.submission())
}

// ttrOf is a job's time to run, in seconds.
func (c *Core) ttrOf(j *Job) uint32 {
	if j.isSubmitted() {
		return noTTR
	}
	return j.ttr()
}

// deadlineOf returns the end of a reservation of j by cl that begins now, in time awake. A put
// job has its own time to run, for any client.
func (c *Core) deadlineOf(j *Job, t *tube, cl *client) Time {
	if !j.isSubmitted() {
		return c.awake() + Time(j.ttr())*Second
	}
	if !cl.usesFunctions() {
		return c.awake() + noTTR*Second
	}
	if d := cl.timeouts[t.id]; d != 0 && d < Never-c.now {
		return c.awake() + d
	}
	return Never
}

// sumOf returns the hash by which op joins another job of its function: of its unique id, or of
// its body. Not ok: it never joins another job.
func (g *submissions) sumOf(op *Op) (sum uint64, ok bool) {
	h := g.opts.Hash
	h.Reset()
	switch {
	case !op.Function.ByBody:
		h.Write(op.Function.Unique()) // a hash's Write never fails
		return h.Sum64(), op.Function.uniqueLen > 0
	case op.Large == nil:
		h.Write(op.Body)
		return ^h.Sum64(), len(op.Body) > 0
	}
	for _, p := range op.Large {
		h.Write(p)
	}
	return ^h.Sum64(), true
}

// hashIn returns the hash in the uniqueTable of a job of t with that sum. With 32 bits few of
// ten million jobs share a hash.
func hashIn(t *tube, sum uint64) uint32 { return hashAmong(uint32(t.id)%uniqueGroups, sum) }

// uniqueGroups is the number of groups of functions. The hash of a unique id depends on the
// group. So a UniqueStatus looks up this many hashes for any number of functions, and jobs of
// different functions with the same unique id do not all fall into one bucket.
const uniqueGroups = 256

// hashAmong is hashIn for all functions of a group.
func hashAmong(group uint32, sum uint64) uint32 {
	const spread = 0x9E3779B97F4A7C15 // 2^64 by the golden ratio, as in idHash
	return uint32((sum ^ uint64(group)*spread) >> 32)
}

// findUnique finds the job of t that op joins, zero if there is none.
func (c *Core) findUnique(t *tube, op *Op, hash uint32) uint32 {
	n := c.submissions.unique.find(c.submissions.jobs, hash, func(n uint32) bool {
		x := c.submissions.jobs.At(n)
		switch j := c.jobs.At(x.Job); {
		case j.Tube != t.id || x.is(byBody) != op.Function.ByBody || isTaken(j) || c.isFlushed(j):
			return false // a taken job is about to leave the tube
		case x.is(byBody):
			return c.sameBody(j, op)
		}
		return bytes.Equal(c.submissions.uniqueOf(x), op.Function.Unique())
	})
	if n == 0 {
		return 0
	}
	return c.submissions.jobs.At(n).Job
}

// uniqueOf returns x's unique id, which is valid until x is freed.
func (g *submissions) uniqueOf(x *submission) []byte {
	return g.texts.Get(x.Unique, int(x.UniqueLen))
}

// reducerOf returns x's reducer, which is valid until x is freed.
func (g *submissions) reducerOf(x *submission) []byte {
	return g.texts.Get(x.Reducer, int(x.ReducerLen))
}

// newSubmission makes the submission of job i of t. Without memory it reports false and changes
// nothing.
func (c *Core) newSubmission(t *tube, i uint32, j *Job, op *Op) bool {
	g := c.submissions
	n, x := g.jobs.Alloc()
	if n == 0 {
		return false
	}
	if n > submissionMax {
		g.jobs.Free(n)
		return false
	}
	var ok bool
	if x.Unique, ok = g.texts.Put(op.Function.Unique()); !ok {
		g.jobs.Free(n)
		return false
	}
	if x.Reducer, ok = g.texts.Put(op.Function.Reducer()); !ok {
		g.texts.Free(x.Unique, len(op.Function.Unique()))
		g.jobs.Free(n)
		return false
	}
	x.UniqueLen, x.ReducerLen = op.Function.uniqueLen, op.Function.reducerLen
	x.Job = i
	if op.Function.Background {
		x.Flags |= Background
	}
	if op.Function.ByBody {
		x.Flags |= byBody
	}
	j.submit(n)
	if sum, joins := g.sumOf(op); joins {
		x.Flags |= indexed
		x.Hash = hashIn(t, sum)
		g.unique.insert(g.jobs, n)
	}
	return true
}

// progressOf is the progress of record n.
func (g *submissions) progressOf(n uint32) progress {
	if !g.jobs.At(n).is(hasProgress) {
		return progress{}
	}
	return g.progresses[n]
}

// setProgress gives record n a progress, or none if that is zero.
func (g *submissions) setProgress(n uint32, e progress) {
	x := g.jobs.At(n)
	switch was := x.is(hasProgress); {
	case e != progress{}:
		if g.progresses == nil {
			g.progresses = make(map[uint32]progress)
		}
		g.progresses[n] = e
		x.Flags |= hasProgress
	case was:
		x.Flags &^= hasProgress
		if delete(g.progresses, n); len(g.progresses) == 0 {
			g.progresses = nil // a map never shrinks
		}
	}
}

// submittedRecord returns the part of a record that only submitted jobs have. It is valid until
// the next call.
func (c *Core) submittedRecord(j *Job) *record.Submitted {
	x := c.submissionOf(j)
	c.submissions.record = record.Submitted{
		Unique: c.submissions.uniqueOf(x), Reducer: c.submissions.reducerOf(x),
		ByBody: x.is(byBody), Joinable: x.is(indexed), Lost: c.submissions.progressOf(j.submission()).lost,
	}
	return &c.submissions.record
}

// unindex takes x out of the index: no submission can join it any more.
func (g *submissions) unindex(n uint32, x *submission) {
	if !x.is(indexed) {
		return
	}
	x.Flags &^= indexed
	g.unique.Remove(g.jobs, n)
}

// freeSubmission frees the submission of j, and its followers.
func (c *Core) freeSubmission(j *Job) {
	g := c.submissions
	x := c.submissionOf(j)
	c.unfollowAll(x)
	g.unindex(j.submission(), x)
	g.setProgress(j.submission(), progress{})
	g.texts.Free(x.Unique, int(x.UniqueLen))
	g.texts.Free(x.Reducer, int(x.ReducerLen))
	g.jobs.Free(j.submission())
}

// A submittedJob is one live job in a list.
type submittedJob struct {
	ID         JobID
	Lost       uint32
	Background bool
	Unique     string
}
