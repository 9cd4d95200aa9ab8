package core

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"polystalk/shard/record"
)

// A follows is a core that hears of another's records for as long as it goes on, and may be
// that one's successor at any time.
type follows struct {
	core   *Core
	replay *Replay
	buf    record.Buffer
	heard  world          // its directory
	lives  map[JobID]bool // what Hear has told since the first Settle; nil: that is to come
}

// newFollows makes one that has heard nothing so far.
func newFollows() *follows {
	f := &follows{heard: world{dir: []string{}}}
	f.core = New(&f.heard)
	f.core.Pin("default")
	f.core.RecordTo(&f.buf)
	f.replay = f.core.Replay()
	f.replay.Hear = func(id JobID, lives bool) { f.lives[id] = lives }
	return f
}

func (f *follows) apply(rec []byte) error {
	var r record.Record
	own := slices.Clone(rec)
	if _, err := record.Parse(&r, own); err != nil {
		return err
	}
	err := f.replay.Apply(&r)
	clear(own)
	return err
}

func (f *follows) settle(now Time) {
	f.replay.Settle(now)
	if f.lives == nil {
		f.lives = map[JobID]bool{}
		f.core.EachID(func(id JobID) { f.lives[id] = true })
	}
}

// follow makes a follower of s, from its beginning or from the middle, which settles now and then.
func (s *scribe) follow(intn func(int) int, now Time) error {
	f := s.follower
	switch {
	case f == nil && intn(20) == 0:
		f = newFollows()
		s.follower = f
		for _, seg := range s.segments {
			for _, rec := range seg.recs {
				if err := f.apply(rec); err != nil {
					return err
				}
			}
		}
		fallthrough
	case f != nil && intn(10) == 0:
		f.settle(max(now, s.core.now))
		return f.core.Check()
	}
	return nil
}

func (s *scribe) unfollow() {
	if s.follower != nil {
		s.follower.core.Close()
		s.follower = nil
	}
}

// arrivals are the jobs of each list of each tube, in order, with when they came.
func arrivals(c *Core) map[string][]Time {
	m := map[string][]Time{}
	for name, t := range c.names {
		for _, s := range []State{Ready, Delayed, Buried} {
			for i := t.listOf(s).Head; i != 0; i = c.jobs.At(i).Next {
				key := fmt.Sprint(name, s)
				m[key] = append(m[key], c.jobs.At(i).Since)
			}
		}
	}
	return m
}

// compare makes the follower the successor of s's core, and compares it with is, which was
// replayed at once.
func (f *follows) compare(s *scribe, is *Core, now Time) error {
	f.settle(now)
	defer s.unfollow()
	if len(f.heard.dir) != 1 {
		return fmt.Errorf("the directory has heard %v before the end", f.heard.dir)
	}
	if err := f.core.Check(); err != nil {
		return err
	}
	settled := f.core.Digest(now, 0)
	f.replay.Done(now)
	if a, b := settled, f.core.Digest(now, 0); a != b {
		return fmt.Errorf("the digest was %x, and is %x in the end", a, b)
	}
	if a, b := is.Digest(now, 0), f.core.Digest(now, 0); a != b {
		return fmt.Errorf("the digest is %x, want %x", b, a)
	}
	for i := range 2 {
		if err := f.core.Check(); err != nil {
			return err
		}
		if err := sums(f.core, &f.buf); err != nil {
			return err
		}
		if a, b := arrivals(is), arrivals(f.core); !maps.EqualFunc(a, b, slices.Equal) {
			return fmt.Errorf("the jobs came at %v, want %v", b, a)
		}
		if i == 0 {
			settle(f.core, now)
		}
	}
	// It may have heard of jobs that left nothing to be replayed.
	if f.buf.HighID < is.buf.HighID || f.buf.HighID > s.buf.HighID || f.buf.Pauses != is.pauses || is.buf.Pauses != is.pauses || len(f.buf.Data) > 0 {
		return fmt.Errorf("the highest id %d, %d bytes of pauses, %d recorded, want %d, %d, 0",
			f.buf.HighID, f.buf.Pauses, len(f.buf.Data), is.buf.HighID, is.pauses)
	}
	var live []JobID
	f.core.EachID(func(id JobID) { live = append(live, id) })
	slices.Sort(live)
	maps.DeleteFunc(f.lives, func(_ JobID, lives bool) bool { return !lives })
	if told := slices.Sorted(maps.Keys(f.lives)); !slices.Equal(told, live) {
		return fmt.Errorf("it has told of jobs %d, there are %d", told, live)
	}
	return compareTubes(s.core, f.core, f.heard.dir)
}

// settledWorld is a core with n jobs in each list of a tube, one a second, and its follower.
func settledWorld(t *testing.T, n int) (*peer, *scribe) {
	w := newWorld(t)
	s := newScribe(w.core)
	p := w.join("a")
	for range n {
		p.put(1, 0, 1000)
		p.put(2, 100_000, 1000)
		id := p.put(0, 0, 1000)
		p.reserve(id)
		p.do(Op{Kind: OpBury, Client: p.id, ID: id, Pri: 1}, StatusOK)
		w.now += Second
	}
	s.follower = newFollows()
	t.Cleanup(s.unfollow)
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	s.follower.settle(w.now)
	return p, s
}

// TestCopiesStayInTheirPlace: a compaction copies jobs from the middle of a long list. The follower
// neither searches their place nor sorts the list.
func TestCopiesStayInTheirPlace(t *testing.T) {
	const n = 3 * orderMost
	p, s := settledWorld(t, n)
	f := s.follower
	before := arrivals(f.core)
	for id := range p.last {
		s.core.CopyJob(id+1, s.buf.Commit)
		if err := s.take(); err != nil {
			t.Fatal(err)
		}
		if len(f.replay.unsorted) > 0 {
			t.Fatalf("the copy of job %d leaves a list to be sorted", id+1)
		}
	}
	if after := arrivals(f.core); !maps.EqualFunc(before, after, slices.Equal) || len(before) != 3 {
		t.Errorf("the jobs came at %v, want %v", after, before)
	}
	if err := f.core.Check(); err != nil {
		t.Error(err)
	}
	if a, b := s.core.Digest(p.now, 0), f.core.Digest(p.now, 0); a != b {
		t.Error("the digests differ")
	}
}

// TestFollowerAfterTheClockWasSetBack: what comes long before all others in a list is put in
// its place by the next Settle, not by a search for each.
func TestFollowerAfterTheClockWasSetBack(t *testing.T) {
	p, s := settledWorld(t, 3*orderMost)
	f := s.follower
	s.buf.Ahead = -int64(1000 * Second)
	for range 5 {
		p.put(1, 0, 1000)
	}
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	if len(f.replay.unsorted) != 1 {
		t.Fatalf("%d tubes are to be sorted", len(f.replay.unsorted))
	}
	if f.core.Check() == nil {
		t.Fatal("the list is in order before Settle: the test is of no use")
	}
	f.settle(p.now)
	if err := f.core.Check(); err != nil || len(f.replay.unsorted) > 0 {
		t.Errorf("%v, %d tubes are to be sorted", err, len(f.replay.unsorted))
	}
}
