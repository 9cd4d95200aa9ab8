package core

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"polystalk/shard/record"
)

var (
	replaySeed = flag.Uint64("replay.seed", 0, "play only this history of TestReplay")
	replayRuns = flag.Int("replay.runs", 80, "how many histories TestReplay plays")
)

// A scribe keeps what a core records, in segments as a journal does, and what
// the records alone say of each job.
type scribe struct {
	core     *Core
	buf      record.Buffer
	segments []*scribeSegment
	counts   map[uint64]record.Counts // as last recorded
	follower *follows                 // hears each record as it is taken; may be nil
}

type scribeSegment struct {
	recs       [][]byte
	lastCommit uint64
	high       uint64 // id
}

func newScribe(c *Core) *scribe {
	s := &scribe{core: c, counts: map[uint64]record.Counts{}, segments: []*scribeSegment{{}}}
	s.buf.Commit = 1
	c.RecordTo(&s.buf)
	return s
}

// take moves what was recorded to the last segment.
func (s *scribe) take() error {
	last := s.segments[len(s.segments)-1]
	data, refs := s.buf.Data, s.buf.Refs
	for total := len(data); len(data) > 0; {
		var rec, ref []byte
		rec, ref, data, refs = record.Next(data, refs, total-len(data))
		whole := append(slices.Clone(rec), ref...)
		var r record.Record
		if _, err := record.Parse(&r, whole); err != nil {
			return err
		}
		if r.Kind == record.KindPut || r.Kind == record.KindCopy || r.Kind == record.KindUpdate {
			s.counts[r.ID] = r.Counts
		}
		last.recs = append(last.recs, whole)
		if s.follower != nil {
			if err := s.follower.apply(whole); err != nil {
				return err
			}
		}
		last.lastCommit = s.buf.Commit
		last.high = max(last.high, r.ID)
	}
	s.buf.Data, s.buf.Refs = s.buf.Data[:0], nil
	return nil
}

// compact copies what lives in the first segment to the end and drops it.
func (s *scribe) compact() error {
	first := s.segments[0]
	s.segments = append(s.segments[1:], &scribeSegment{})
	for _, rec := range first.recs {
		var r record.Record
		if _, err := record.Parse(&r, rec); err != nil {
			return err
		}
		switch r.Kind {
		case record.KindPut, record.KindCopy:
			s.core.CopyJob(JobID(r.ID), first.lastCommit)
		case record.KindPause, record.KindPolicies:
			s.core.CopyOther(&r)
		}
	}
	return s.take()
}

// replay makes a core of what is there. It comes with a log of its own.
func (s *scribe) replay(now Time, dir Directory) (*Core, *record.Buffer, error) {
	c := New(dir)
	c.Pin("default")
	buf := new(record.Buffer)
	c.RecordTo(buf)
	p := c.Replay()
	for _, seg := range s.segments {
		for _, rec := range seg.recs {
			var r record.Record
			own := slices.Clone(rec)
			if _, err := record.Parse(&r, own); err != nil {
				return c, buf, err
			}
			if err := p.Apply(&r); err != nil {
				return c, buf, err
			}
			clear(own) // Apply keeps nothing of it
		}
	}
	p.Done(now)
	if len(buf.Data) > 0 {
		return c, buf, fmt.Errorf("a replay records %d bytes itself", len(buf.Data))
	}
	return c, buf, c.Check()
}

// settle lets everything happen that is due.
func settle(c *Core, now Time) {
	for c.Expire(now); c.Next() <= now; {
		c.Expire(now)
	}
}

// A fact is what must survive of a job.
type fact struct {
	tube            string
	state           State
	pri, delay, ttr uint32
	created, due    Time
	since           Time // of Delayed and Buried; a Ready one may have been reserved, unrecorded
	body            string
	counts          record.Counts
}

func facts(c *Core, counts map[uint64]record.Counts) map[JobID]fact {
	m := map[JobID]fact{}
	c.eachJob(func(j *Job) {
		f := fact{
			tube: c.tubes[j.Tube].name, state: j.State, pri: j.Pri, delay: j.Delay, ttr: j.ttr(), created: j.Created,
			body:   string(c.bodyOf(j)),
			counts: record.Counts{Reserves: j.Reserves, Timeouts: j.Timeouts, Releases: j.Releases, Buries: j.Buries, Kicks: j.Kicks},
		}
		if counts != nil {
			f.counts = counts[uint64(j.ID)]
		}
		if isTaken(j) {
			f.state = c.moving[j.ID].was
			if f.state == Delayed && c.dueOf(j) <= c.now {
				f.state = Ready
			}
		} else if j.State == Reserved {
			f.state = Ready
		}
		switch f.state {
		case Delayed:
			f.due, f.since = c.dueOf(j), j.Since
			// That of a copy is by less than a second not the one that a replay goes by.
			if since := f.due - Time(j.Delay)*Second; max(since-f.since, f.since-since) < Second {
				f.since = since
			}
		case Buried:
			f.since = j.Since
		}
		m[j.ID] = f
	})
	return m
}

// compareReplay replays s and compares what comes out with the core.
func compareReplay(s *scribe, now Time) error {
	settle(s.core, now)
	now = max(now, s.core.now)
	if err := s.take(); err != nil {
		return err
	}
	heard := &world{dir: []string{}}
	c, buf, err := s.replay(now, heard)
	if err != nil {
		c.Close()
		return err
	}
	defer c.Close()
	settle(c, now)
	if err := c.Check(); err != nil {
		return err
	}
	was, is := facts(s.core, s.counts), facts(c, nil)
	for id, f := range was {
		if g, ok := is[id]; !ok || f != g {
			f.body, g.body = fmt.Sprintf("%.20q %d", f.body, len(f.body)), fmt.Sprintf("%.20q %d", g.body, len(g.body))
			return fmt.Errorf("job %d: replayed (%v) as %+v, want %+v", id, ok, g, f)
		}
	}
	if len(is) != len(was) {
		return fmt.Errorf("%d jobs after the replay, want %d", len(is), len(was))
	}
	if a, b := s.core.Digest(now, 0), c.Digest(now, 0); a != b {
		return fmt.Errorf("the digest is %x after the replay, want %x", b, a)
	}
	if err := sums(s.core, &s.buf); err != nil {
		return fmt.Errorf("before the replay: %w", err)
	}
	if err := sums(c, buf); err != nil {
		return fmt.Errorf("after the replay: %w", err)
	}
	high := uint64(0)
	for _, seg := range s.segments {
		high = max(high, seg.high)
	}
	if buf.HighID != high || s.buf.HighID < high {
		return fmt.Errorf("the highest id is %d, recorded %d, was %d", buf.HighID, high, s.buf.HighID)
	}
	if err := compareTubes(s.core, c, heard.dir); err != nil {
		return err
	}
	if s.follower != nil {
		if err := s.follower.compare(s, c, now); err != nil {
			return fmt.Errorf("the follower: %w", err)
		}
	}
	return pausesEnd(c)
}

// compareCrash replays s as it is, maybe in the middle of a flush: what is there comes back
// as it was, and besides that only what is flushed and not yet collected.
func compareCrash(s *scribe, now Time) error {
	if err := s.take(); err != nil {
		return err
	}
	c, _, err := s.replay(now, nil)
	if err != nil {
		c.Close()
		return err
	}
	defer c.Close()
	settle(c, now)
	was, is := facts(s.core, s.counts), facts(c, nil)
	for id, f := range was {
		if g, ok := is[id]; !ok || f != g {
			return fmt.Errorf("job %d: after a crash (%v) as %+v, want %+v", id, ok, g, f)
		}
	}
	for id := range is {
		if _, j := s.core.ids.find(s.core.jobs, id); j == nil {
			return fmt.Errorf("job %d was gone, and comes back after a crash", id)
		}
	}
	return c.Check()
}

// sums recounts what a buffer says of its core.
func sums(c *Core, buf *record.Buffer) error {
	live, jobs := int64(0), int64(0)
	c.eachJob(func(j *Job) {
		live += record.JobSize(len(c.tubes[j.Tube].name), int(j.Size))
		jobs++
	})
	if buf.Live != live || buf.Jobs != jobs {
		return fmt.Errorf("%d jobs of %d bytes, the buffer says %d of %d", jobs, live, buf.Jobs, buf.Live)
	}
	return nil
}

// compareTubes: tubes that nothing needs are gone, and the directory has heard of each of the
// others once. (The digest tells of pauses.)
func compareTubes(was, is *Core, heard []string) error {
	want := map[string]bool{"+default": true}
	for _, t := range was.tubes {
		if t == nil {
			continue
		}
		r := is.names[t.name]
		if r == nil {
			if t.jobs > 0 || t.pauseUntil != 0 {
				return fmt.Errorf("tube %q is lost", t.name)
			}
			continue
		}
		if !r.pinned && t.jobs == 0 && t.pauseUntil == 0 {
			return fmt.Errorf("tube %q is there for nothing", t.name)
		}
	}
	for name := range is.names {
		if was.names[name] == nil {
			return fmt.Errorf("tube %q is there again", name)
		}
		want["+"+name] = true
	}
	slices.Sort(heard)
	if !slices.Equal(heard, slices.Sorted(maps.Keys(want))) {
		return fmt.Errorf("the directory heard %v, want %v", heard, slices.Sorted(maps.Keys(want)))
	}
	return nil
}

// pausesEnd: a tube that only its pause kept is gone afterwards.
func pausesEnd(c *Core) error {
	for _, name := range slices.Sorted(maps.Keys(c.names)) {
		t := c.names[name]
		if t == nil || t.pauseUntil == 0 || t.pauseUntil > c.now+1e6*Second { // others are gone already, or last a century
			continue
		}
		settle(c, t.pauseUntil-1)
		if c.names[name] != t || t.pauseUntil == 0 {
			return fmt.Errorf("tube %q is gone before its pause ends", name)
		}
		end := t.pauseUntil
		jobs := t.jobs
		settle(c, end)
		if got := c.names[name]; got != nil && got.pauseUntil != 0 || (got != nil) != (jobs > 0 || t.pinned) {
			return fmt.Errorf("tube %q with %d jobs after its pause: there is %+v", name, jobs, got)
		}
	}
	return c.Check()
}

// play plays one history; what is replayed at the end goes on as the core of the next life.
func playReplay(seed uint64) (*driver, error) {
	rng := rand.New(rand.NewPCG(seed, 3))
	d := newDriver(rng.IntN)
	defer d.core.Close()
	s := newScribe(d.core)
	defer s.unfollow()
	// What newDriver's widen did is before the log: it makes no record.
	for range 400 {
		if err := d.step(); err != nil {
			return d, err
		}
		if err := s.take(); err != nil {
			return d, err
		}
		if rng.IntN(3) == 0 {
			s.buf.Commit++
		}
		if err := s.follow(rng.IntN, d.now); err != nil {
			return d, fmt.Errorf("the follower: %w", err)
		}
		switch rng.IntN(60) {
		case 0, 1:
			s.segments = append(s.segments, &scribeSegment{})
		case 2:
			if len(s.segments) > 1 {
				d.trace = append(d.trace, "compact")
				if err := s.compact(); err != nil {
					return d, err
				}
			}
		case 3:
			if d.last > 0 {
				s.core.CopyJob(1+JobID(rng.Uint64N(uint64(d.last))), s.buf.Commit)
			}
		case 6, 7:
			d.trace = append(d.trace, "crash")
			if err := d.expire(); err != nil {
				return d, err
			}
			if err := compareCrash(s, d.now); err != nil {
				return d, err
			}
		case 4, 5:
			// Ahead of the twin it settles; the twin follows.
			if err := d.conclude(); err != nil {
				return d, err
			}
			if err := compareReplay(s, d.now); err != nil {
				return d, err
			}
		}
	}
	if err := d.conclude(); err != nil {
		return d, err
	}
	return d, compareReplay(s, d.now)
}

// conclude expires what is due in the core and in its twin, until nothing is flushed.
func (d *driver) conclude() error {
	for more := true; more; more = d.core.collection.jobs > 0 {
		d.now += collectEvery
		if err := d.expire(); err != nil {
			return err
		}
	}
	return nil
}

// expire does what is due in the core and in its twin.
func (d *driver) expire() error {
	d.now = max(d.now, d.core.now)
	settle(d.core, d.now)
	d.twin.expire(d.now)
	return d.compare()
}

// collectAll lets time pass until nothing is flushed.
func collectAll(c *Core, now *Time) {
	for c.collection != nil && c.collection.jobs > 0 {
		*now = max(*now, c.now) + collectEvery
		settle(c, *now)
	}
}

// again replays what w's core recorded and puts a new core in its place.
func (w *world) again(s *scribe) {
	w.t.Helper()
	if err := s.take(); err != nil {
		w.t.Fatal(err)
	}
	c, _, err := s.replay(w.now, nil)
	w.t.Cleanup(c.Close)
	if err != nil {
		w.t.Fatal(err)
	}
	w.core = c
}

// TestCommitOfReplies: a reply waits for its own record, and for the record
// of the job that it shows.
func TestCommitOfReplies(t *testing.T) {
	w := newWorld(t)
	s := newScribe(w.core)
	wants := func(what string, r Reply, commit uint64) {
		t.Helper()
		if r.Commit != commit {
			t.Errorf("%s depends on commit %d, want %d", what, r.Commit, commit)
		}
	}
	p, q := w.join("a"), w.join("a")
	at := func(n uint64, op Op) Reply {
		t.Helper()
		s.buf.Commit = n
		return w.do(op, StatusOK)
	}
	wants("join", at(2, Op{Kind: OpWatch, Client: p.id, Name: []byte("b")}), 0)
	wants("put", at(3, Op{Kind: OpPut, Client: p.id, Tube: p.tube, ID: 1, TTR: 10}), 3)
	s.buf.Commit = 4
	wants("reserve", p.reserve(1), 3)
	wants("peek", w.do(Op{Kind: OpPeek, ID: 1}, StatusFound), 3)
	wants("release", at(5, Op{Kind: OpRelease, Client: p.id, ID: 1}), 5)
	s.buf.Commit = 6
	wants("reserve-job", p.do(Op{Kind: OpReserveJob, Client: p.id, ID: 1}, StatusReserved), 3)
	wants("touch", at(7, Op{Kind: OpTouch, Client: p.id, ID: 1}), 0)
	wants("bury", at(8, Op{Kind: OpBury, Client: p.id, ID: 1}), 8)
	wants("kick of nothing", at(9, Op{Kind: OpKick, Tube: p.tube, N: 0}), 0)
	wants("kick", at(9, Op{Kind: OpKick, Tube: p.tube, N: 5}), 9)
	wants("pause", at(10, Op{Kind: OpPause, Name: []byte("a"), Delay: 9}), 10)
	wants("delete", at(11, Op{Kind: OpDelete, ID: 1}), 11)
	q.waiter.Arm()
	w.pause("a", 0)
	q.wait(Never)
	s.buf.Commit = 12
	at(12, Op{Kind: OpPut, Client: p.id, Tube: p.tube, ID: 2, TTR: 10})
	woken := w.core.TakeWoken(nil)
	if len(woken) != 1 {
		t.Fatalf("%d are woken", len(woken))
	}
	wants("a wake-up", woken[0].Msg.Reply, 12)
}

// TestReplay compares what comes back with what was there.
func TestReplay(t *testing.T) {
	first, last := uint64(1), uint64(*replayRuns)
	if testing.Short() {
		last = last / 8
	}
	if *replaySeed != 0 {
		first, last = *replaySeed, *replaySeed
	}
	for seed := first; seed <= last; seed++ {
		if d, err := playReplay(seed); err != nil {
			t.Fatalf("%v\nhistory:\n%s\nrerun: go test ./shard -run TestReplay -replay.seed=%d", err, d.recent(), seed)
		}
	}
}
