package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A world is a journal with real cores on a disk that may fail, over several
// lives, and what the records of each core so far say.
type world struct {
	rng  *rand.Rand
	disk Disk
	fake *fakedisk.Disk // the same
	opts commit.Options

	j      *commit.Journal
	shards []*part
	now    core.Time
	id     uint64 // the last one given out
	high   uint64 // the last one that an acknowledged commit gave out
	said   uint64 // the last commit that was acknowledged, safe or not
	steps  int
	parts  int // shards; zero: 1 to 3
	fat    int // one body in fat is large
	weight int // bytes of an ordinary body

	aside func() error // between Open and Lead; nil: the journal starts
	turn  func()       // called before each recovery, if it is there
	sole  *sole        // the consensus of a server that could be one of several; nil: it is none
}

// A part is one shard. What is acknowledged is in base, the rest in stream.
type part struct {
	w      *world
	i      int
	core   *core.Core
	log    *commit.Log
	client core.ClientID
	tubes  []core.TubeID
	names  []string // of these
	base   *facts
	stream []entry
	held   []uint64
	all    []uint64
}

// An entry is a record and the commit under which it is durable.
type entry struct {
	rec    []byte
	commit uint64
}

// tubesPerPart is enough that every part has some of its own.
const tubesPerPart = 3

func newWorld(seed uint64, disk *fakedisk.Disk) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 9)), now: 1_700_000_000 * core.Second, fat: 30, weight: 2000}
	w.disk, w.fake = disk, disk
	w.opts = commit.Options{
		Options: Options{
			Disk: disk, SegmentSize: SegmentMin, Manual: true,
			Now:  func() time.Time { return time.Unix(0, int64(w.now)) },
			Copy: w.copyJobs, CopyOther: w.copyOther, Lives: w.lives,
		},
		Shards: 1 + w.rng.IntN(3),
	}
	if seed%3 == 2 {
		w.opts.First = 1 + seed*977
	}
	return w
}

func (w *world) partOf(slot uint16) int { return int(slot) % len(w.shards) }

// record runs f between Begin and End and notes what it appends.
func (p *part) record(f func()) {
	p.log.Begin()
	b := &p.log.Buffer
	data, refs := len(b.Data), len(b.Refs)
	f()
	for _, rec := range split(b, b.Data[data:], b.Refs[refs:]) {
		p.stream = append(p.stream, entry{rec, b.Commit})
	}
	p.log.End()
}

func (w *world) copyJobs(slot uint16, ids []uint64, after uint64) {
	p := w.shards[w.partOf(slot)]
	p.record(func() {
		for _, id := range ids {
			p.core.CopyJob(core.JobID(id), after)
		}
	})
}

func (w *world) lives(slot uint16, id, after uint64) bool {
	return w.shards[w.partOf(slot)].core.NeedsCopy(core.JobID(id), after)
}

func (w *world) copyOther(r *record.Record) {
	p := w.shards[w.partOf(r.Slot)]
	p.record(func() { p.core.CopyOther(r) })
}

// recovered makes cores of what a journal holds; the caller ends their replays. In the log of one
// server of several, all entries count as committed.
func recovered(j *commit.Journal, shards int) (cores []*core.Core, replays []*core.Replay, rec *Recovered, err error) {
	partOf := func(slot uint16) int { return int(slot) % shards }
	for i := range shards {
		c := core.New(nil)
		c.RecordTo(&j.Log(i).Buffer)
		cores, replays = append(cores, c), append(replays, c.Replay())
	}
	rec, err = j.Recover(Replayer{
		Workers: shards, Worker: partOf,
		Apply: func(i int, r *record.Record) error { return replays[i].Apply(r) },
	})
	if err == nil && j.Entries() != nil {
		err = uncommitted(j.Entries(), replays, partOf)
	}
	return cores, replays, rec, err
}

// open recovers what is on the disk. What it finds must be what the streams say up to somewhere
// behind what is safe or, if it is strict, what was acknowledged.
func (w *world) open(strict bool) (*Recovered, error) {
	if w.turn != nil {
		w.turn()
	}
	old := w.shards
	if w.opts.Shards = w.parts; w.parts == 0 {
		w.opts.Shards = 1 + w.rng.IntN(3)
	}
	w.j = commit.New(w.opts)
	cores, replays, rec, err := recovered(w.j, w.opts.Shards)
	if err != nil {
		for _, c := range cores {
			c.Close()
		}
		return nil, fmt.Errorf("recover: %w", err)
	}
	w.shards = nil
	for i, c := range cores {
		w.shards = append(w.shards, &part{w: w, i: i, core: c, log: w.j.Log(i), base: newFacts()})
	}
	got := newFacts()
	for i, p := range w.shards {
		replays[i].Done(w.now)
		p.dump(got)
	}
	if old != nil {
		if err := w.verify(old, got, strict); err != nil {
			w.closeCores()
			w.shards = old
			return nil, err
		}
	}
	for id, f := range got.jobs {
		w.shards[w.partOf(f.slot)].base.jobs[id] = f
	}
	for name, p := range got.pauses {
		w.shards[w.partOf(slotOf(name))].base.pauses[name] = p
	}
	if err := w.start(); err != nil {
		// What was recovered is durable by now: it is what there is.
		return nil, fmt.Errorf("start: %w", err)
	}
	if high := w.j.HighID(); high < w.high {
		return nil, fmt.Errorf("the highest id is %d, was %d", high, w.high)
	}
	w.id, w.said = w.j.HighID(), w.j.Acked()
	for _, p := range w.shards {
		p.join()
	}
	return rec, nil
}

// start is Journal.Start, with something in between, if anything is to be.
func (w *world) start() error {
	if w.aside == nil {
		return w.j.Start()
	}
	if err := w.j.Open(); err != nil {
		return err
	}
	if err := w.aside(); err != nil {
		return err
	}
	return w.j.Lead()
}

func slotOf(tube string) uint16 { return core.SlotOf([]byte(tube)) }

func (w *world) closeCores() {
	for _, p := range w.shards {
		p.core.Close()
	}
}

// dump adds all that the core holds.
func (p *part) dump(to *facts) {
	var b record.Buffer
	p.core.RecordTo(&b)
	var ids []core.JobID
	p.core.EachID(func(id core.JobID) { ids = append(ids, id) })
	slices.Sort(ids)
	for _, id := range ids {
		// A copy gets the number of its commit: that under which the job came back.
		var r core.Reply
		p.core.Apply(p.w.now, &core.Op{Kind: core.OpPeek, ID: id}, &r)
		b.Commit = r.Commit
		p.core.CopyJob(id, 1<<63)
		p.all = append(p.all, uint64(id))
	}
	for i := range 16 {
		for k := range tubesPerPart {
			p.core.CopyPause([]byte(tubeName(i, k)))
		}
	}
	for _, rec := range split(&b, b.Data, b.Refs) {
		to.apply(rec)
	}
	p.core.RecordTo(&p.log.Buffer)
}

// verify compares what came back with each old part's history.
func (w *world) verify(old []*part, got *facts, strict bool) error {
	for _, p := range old {
		keep := func(slot uint16) bool { return int(slot)%len(old) == p.i }
		f, n := p.base.clone(), 0
		for ; strict && n < len(p.stream) && p.stream[n].commit <= w.said; n++ {
			f.apply(p.stream[n].rec)
		}
		err := f.differ(got, int64(w.now), keep, slotOf)
		best := err
		for ; err != nil && n < len(p.stream); n++ {
			f.apply(p.stream[n].rec)
			err = f.differ(got, int64(w.now), keep, slotOf)
		}
		if err != nil {
			return fmt.Errorf("part %d of %d, with %d records that are not safe: what came back is no state it was in: %w (or %v)", p.i, len(old), len(p.stream), best, err)
		}
	}
	for _, p := range old {
		p.core.Close()
	}
	return nil
}

// acked moves what is safe from the streams: by commit number upTo.
func (w *world) acked(upTo uint64) {
	for _, p := range w.shards {
		n := 0
		for ; n < len(p.stream) && p.stream[n].commit <= upTo; n++ {
			var r record.Record
			if record.Parse(&r, p.stream[n].rec); r.Kind == record.KindPut {
				w.high = max(w.high, r.ID)
			}
			p.base.apply(p.stream[n].rec)
		}
		p.stream = p.stream[n:]
	}
}

// live is what lives by all records, acknowledged or not.
func (w *world) live() (n int64) {
	for _, p := range w.shards {
		f := p.base
		if len(p.stream) > 0 {
			f = f.clone()
			for _, e := range p.stream {
				f.apply(e.rec)
			}
		}
		n += f.live()
	}
	return n
}

func tubeName(i, k int) string { return fmt.Sprintf("tube %d of %d", k, i) }

// join has a client use and watch the tubes that are this part's.
func (p *part) join() {
	for i := range 16 {
		for k := range tubesPerPart {
			name := tubeName(i, k)
			if p.w.partOf(slotOf(name)) != p.i || len(p.tubes) == tubesPerPart {
				continue
			}
			r := p.apply(&core.Op{Kind: core.OpWatch, Client: p.client, Waiter: new(core.Waiter), Name: []byte(name)})
			p.client = r.Client
			p.tubes, p.names = append(p.tubes, r.Tube), append(p.names, name)
		}
	}
}

func (p *part) apply(op *core.Op) (r core.Reply) {
	p.record(func() { p.core.Apply(p.w.now, op, &r) })
	return r
}

// act does one thing that a client might. Without open only deletes are done,
// as the server does it while there is no space.
func (p *part) act() {
	w := p.w
	n := w.rng.IntN(100)
	if w.j.Pressure() != commit.Open || n < 30 {
		p.delete()
		return
	}
	id := core.JobID(0)
	if len(p.held) > 0 {
		k := w.rng.IntN(len(p.held))
		id = core.JobID(p.held[k])
	}
	drop := func() { p.held = slices.DeleteFunc(p.held, func(i uint64) bool { return i == uint64(id) }) }
	switch {
	case n < 65:
		p.put()
	case n < 75:
		if r := p.apply(&core.Op{Kind: core.OpReserve, Client: p.client, Bound: core.MaxKey}); r.Status == core.StatusReserved {
			p.held = append(p.held, uint64(r.ID))
		}
	case n < 82:
		p.apply(&core.Op{Kind: core.OpRelease, Client: p.client, ID: id, Pri: w.rng.Uint32N(9), Delay: w.rng.Uint32N(3) * 100})
		drop()
	case n < 90:
		p.apply(&core.Op{Kind: core.OpBury, Client: p.client, ID: id, Pri: w.rng.Uint32N(9)})
		drop()
	case n < 94:
		p.apply(&core.Op{Kind: core.OpKick, Tube: p.tubes[0], N: w.rng.Uint32N(3)})
	case n < 98:
		name := tubeName(w.rng.IntN(16), w.rng.IntN(tubesPerPart))
		p.apply(&core.Op{Kind: core.OpPause, Name: []byte(name), Delay: w.rng.Uint32N(3) * 50})
	default:
		p.apply(&core.Op{Kind: core.OpKickJob, ID: id})
	}
}

func (p *part) delete() {
	if len(p.all) == 0 {
		return
	}
	k := p.w.rng.IntN(len(p.all))
	if p.w.rng.IntN(4) > 0 {
		k /= 2 // rather the old ones
	}
	p.remove(k)
}

// remove deletes the job that is number k of all.
func (p *part) remove(k int) {
	id := p.all[k]
	if r := p.apply(&core.Op{Kind: core.OpDelete, Client: p.client, ID: core.JobID(id)}); r.Status == core.StatusOK {
		p.all = slices.Delete(p.all, k, k+1)
		p.held = slices.DeleteFunc(p.held, func(i uint64) bool { return i == id })
	}
}

func (p *part) put() {
	w := p.w
	size := w.rng.IntN(w.weight)
	if w.fat > 0 && w.rng.IntN(w.fat) == 0 {
		size = []int{65535, 65536, 65537, 131072, 180000}[w.rng.IntN(5)]
	}
	op := core.Op{Kind: core.OpPut, Tube: p.tubes[w.rng.IntN(len(p.tubes))], Pri: w.rng.Uint32N(9), TTR: 60}
	op.Body = bytes.Repeat([]byte{byte(w.id), byte(w.id >> 8), byte(size), 1}, size/4+1)[:size]
	if w.rng.IntN(6) == 0 {
		op.Delay = 1 + w.rng.Uint32N(500)
	}
	if size > 65536 {
		var room commit.Claim
		defer w.j.Release(&room)
		for tries := 0; w.j.Claim(&room, int64(size)) != commit.Open; tries++ {
			if tries == 5 || w.j.Tend() != nil {
				return
			}
		}
		for at := 0; at < size; at += 65536 {
			op.Large = append(op.Large, op.Body[at:min(size, at+65536)])
		}
		op.Body = nil
	}
	w.id++
	op.ID = core.JobID(w.id)
	if r := p.apply(&op); r.Status == core.StatusOK {
		p.all = append(p.all, w.id)
	}
}

// errBroken is a promise that was not kept, as opposed to a disk's error.
var errBroken = errors.New("broken")

// step does some things, commits and tends. Its errors are the journal's, or errBroken.
func (w *world) step() error {
	w.steps++
	w.now += core.Time(w.rng.IntN(5000)) * core.Second / 1000
	for range 1 + w.rng.IntN(30) {
		w.shards[w.rng.IntN(len(w.shards))].act()
	}
	if w.rng.IntN(8) > 0 {
		if err := w.commit(); err != nil {
			return err
		}
	}
	if w.rng.IntN(8) == 0 {
		return nil
	}
	return w.tend()
}

func (w *world) commit() error {
	begun := w.j.Begun()
	err := w.j.Commit()
	w.note()
	if w.sole != nil && w.sole.lag > 0 {
		return w.sole.maybeGoOn(err)
	}
	if err == nil && w.j.Acked() != begun+1 {
		return fmt.Errorf("%w: commit %d acknowledges %d", errBroken, begun+1, w.j.Acked())
	}
	return err
}

// note takes over what is acknowledged, or certainly durable.
func (w *world) note() {
	w.said = w.j.Acked()
	if w.opts.Sync == SyncAlways {
		w.acked(w.j.Acked())
	} else {
		w.acked(w.j.DurableCommit())
	}
}

// largest is more than any record of these worlds has, in bytes.
const largest = record.ChunkMax + 100

// idle reports whether all records were taken by commits.
func (w *world) idle() bool {
	return !slices.ContainsFunc(w.shards, func(p *part) bool { return len(p.log.Buffer.Data) > 0 })
}

// tend tends, and holds the directory against its bound.
func (w *world) tend() error {
	err := w.j.Tend()
	w.note()
	for n := 0; w.sole != nil && err == nil && n < 4 && w.j.Requested(); n++ {
		// It waits for nobody, and goes on once what it has asked for is committed.
		if err = w.commit(); err == nil {
			err = w.j.Tend()
		}
	}
	if err != nil {
		return err
	}
	if w.idle() {
		if s := w.j.Stats(); s.Live != w.live() {
			return fmt.Errorf("%w: %d bytes live, Stats says %d", errBroken, w.live(), s.Live)
		}
	}
	s := w.j.Stats()
	if w.fake == nil {
		return nil
	}
	bound := 2*s.Live + 3*w.opts.SegmentSize + 4*largest
	if w.sole != nil {
		bound += w.opts.SegmentSize // another may be filled while a Floor is on its way
	}
	if size := w.fake.Size(); s.Bytes != size || size > bound {
		return fmt.Errorf("%w: %d bytes on disk, Stats says %d; %d live, which allow %d", errBroken, size, s.Bytes, s.Live, bound)
	}
	return nil
}
