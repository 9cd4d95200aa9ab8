package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/record"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A mute is the commit.Proposer of a server that never leads.
type mute struct{}

func (mute) Propose([]byte, uint64) error { return errors.New("it does not lead") }
func (mute) End(uint64) error             { return errors.New("it does not lead") }
func (mute) Wanted() bool                 { return false }

// newLog opens the journal of a server that never leads.
func newLog(t *testing.T, d Disk, change func(o *commit.Options)) *commit.Journal {
	t.Helper()
	o := commit.Options{Options: Options{Disk: d, SegmentSize: SegmentMin, Manual: true, Now: time.Now}, Shards: 1, Proposer: mute{}}
	if change != nil {
		change(&o)
	}
	j := commit.New(o)
	must(t, second(j.Recover(Replayer{
		Workers: 1, Worker: func(uint16) int { return 0 }, Apply: func(int, *record.Record) error { return nil },
	})))
	must(t, j.Open())
	return j
}

// A follower is a journal as a log on a disk that may stop at any operation, over several
// lives, and what its log may be by now.
type follower struct {
	rng  *rand.Rand
	disk *fakedisk.Disk
	j    *commit.Journal
	e    *Entries

	// truth is what is committed, by all that will ever be known; truth[i] has index i+1. known
	// is up to where this server knows so.
	truth []Entry
	known uint64
	// logs are what the log may be after a crash, from what is synced on: each is what came
	// of one more entry, with the highest commit that was told with them.
	logs  []naive
	floor uint64 // the highest that was given up
	serial,
	term uint64
}

// A naive log is what everybody would write down.
type naive struct {
	log    []Entry // from index 1 on
	commit uint64
}

// append is the log with one more entry.
func (n naive) append(x Entry, commit uint64) naive {
	return naive{append(slices.Clone(n.log[:x.Index-1]), x), max(n.commit, commit)}
}

func (n naive) last() uint64 { return uint64(len(n.log)) }

func (n naive) committed() uint64 { return min(n.commit, n.last()) }

func newFollower(seed uint64) *follower {
	f := &follower{rng: rand.New(rand.NewPCG(seed, 5)), disk: fakedisk.New(seed), logs: make([]naive, 1), term: 1}
	return f
}

// recordsOf returns the data of a normal entry: records with an id of their own.
func (f *follower) recordsOf() (b []byte) {
	if f.rng.IntN(10) == 0 {
		return nil
	}
	size := []int{20, 300, 3000, 60_000}[f.rng.IntN(4)]
	for range 1 + f.rng.IntN(3) {
		f.serial++
		j := record.Job{ID: f.serial, Tube: []byte("t"), State: record.Ready, Body: bytes.Repeat([]byte{byte(f.serial)}, 1+f.rng.IntN(size))}
		b = j.AppendPut(b, uint16(f.rng.IntN(4)), 0)
	}
	return b
}

// open recovers what is on the disk, and holds it against what the log may be.
func (f *follower) open() error {
	f.j = commit.New(commit.Options{
		Options: Options{
			Disk: f.disk, SegmentSize: SegmentMin, Manual: true,
			Now: func() time.Time { return time.Unix(1, 0) },
		},
		Shards:   1,
		Proposer: mute{},
		Node:     1,
	})
	f.e = f.j.Entries()
	got := make([][]uint64, 2) // by worker
	_, err := f.j.Recover(Replayer{
		Workers: 2, Worker: func(slot uint16) int { return int(slot) % 2 },
		Apply: func(w int, r *record.Record) error {
			if r.Kind == record.KindPut {
				got[w] = append(got[w], r.ID)
			}
			return nil
		},
	})
	if err == nil {
		err = f.j.Open()
	}
	if err != nil {
		return err
	}
	var why error
	for i := len(f.logs) - 1; i >= 0; i-- {
		if why = f.is(&f.logs[i], got); why == nil {
			f.logs = []naive{f.logs[i]}
			f.known = f.e.Committed()
			return nil
		}
	}
	if f.disk.Dead {
		return fakedisk.ErrDead
	}
	return fmt.Errorf("%w: what came back is none of %d logs: %w", errBroken, len(f.logs), why)
}

// is compares what came back with one log.
func (f *follower) is(n *naive, got [][]uint64) error {
	if err := f.holds(n); err != nil {
		return err
	}
	if f.e.Committed() != n.committed() && (n.last() > 0) {
		return fmt.Errorf("it is committed up to %d, want %d", f.e.Committed(), n.committed())
	}
	want := make(map[int][]uint64)
	var changes []Entry
	for i := max(f.e.First(), 1); i <= n.committed(); i++ {
		x := n.log[i-1]
		if x.Kind != record.Normal {
			changes = append(changes, x)
			continue
		}
		for data := x.Data; len(data) > 0; data = data[record.Len(data):] {
			if record.KindOf(data) == record.KindPut {
				w := int(record.SlotOf(data)) % 2
				want[w] = append(want[w], record.IDOf(data))
			}
		}
	}
	for w := range 2 {
		if !slices.Equal(got[w], want[w]) {
			return fmt.Errorf("worker %d was given %v, want %v", w, got[w], want[w])
		}
	}
	after := uint64(f.rng.IntN(int(n.last()) + 2))
	changes = slices.DeleteFunc(changes, func(x Entry) bool { return x.Index <= after })
	if !slices.EqualFunc(f.e.Changes(after), changes, sameEntry) {
		return fmt.Errorf("there are %d changes of members, want %d", len(f.e.Changes(after)), len(changes))
	}
	return nil
}

// sameEntry compares entries by what they hold.
func sameEntry(x, y Entry) bool {
	return x.Index == y.Index && x.Term == y.Term && x.Kind == y.Kind && bytes.Equal(x.Data, y.Data)
}

// holds compares the log as it can be read with a naive one.
func (f *follower) holds(n *naive) error {
	first, last := f.e.First(), f.e.Last()
	if last != n.last() || n.last() > 0 && (first == 0 || first > max(1, f.floor)) {
		return fmt.Errorf("it has %d to %d, want up to %d, from at most %d", first, last, n.last(), f.floor)
	}
	for i := first; i <= last && i > 0; i++ {
		if term, err := f.e.Term(i); err != nil || term != n.log[i-1].Term {
			return fmt.Errorf("entry %d has term %d (%v), want %d", i, term, err, n.log[i-1].Term)
		}
	}
	if _, err := f.e.Term(last + 1); !errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("entry %d has a term: %v", last+1, err)
	}
	if _, err := f.e.Read(last+1, last+2, 1); !errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("entry %d can be read: %v", last+1, err)
	}
	if first > 1 {
		if _, err := f.e.Term(first - 1); !errors.Is(err, ErrCompacted) {
			return fmt.Errorf("entry %d has a term: %v", first-1, err)
		}
		if _, err := f.e.Read(first-1, last, 1); !errors.Is(err, ErrCompacted) {
			return fmt.Errorf("entry %d can be read: %v", first-1, err)
		}
	}
	for lo := first; lo <= last && lo > 0; {
		hi := min(last+1, lo+1+uint64(f.rng.IntN(100)))
		most := f.rng.IntN(200_000)
		list, err := f.e.Read(lo, hi, most)
		if err != nil || len(list) == 0 || uint64(len(list)) > hi-lo {
			return fmt.Errorf("reading %d to %d gives %d entries: %w", lo, hi, len(list), err)
		}
		bytes := 0
		for k, x := range list {
			if bytes += len(x.Data); k > 0 && bytes > most {
				return fmt.Errorf("reading %d to %d gives %d bytes, want at most %d", lo, hi, bytes, most)
			}
			if want := n.log[lo-1+uint64(k)]; !sameEntry(x, want) {
				return fmt.Errorf("entry %d is %d of term %d, with %d bytes, want term %d with %d", lo+uint64(k), x.Index, x.Term, len(x.Data), want.Term, len(want.Data))
			}
		}
		lo += uint64(len(list))
	}
	return nil
}

// now is the log as it is, synced or not.
func (f *follower) now() *naive { return &f.logs[len(f.logs)-1] }

// right is up to where the log is as it is committed.
func (f *follower) right() uint64 {
	n := f.now()
	for i, x := range f.truth {
		if i >= len(n.log) || !sameEntry(n.log[i], x) {
			return uint64(i)
		}
	}
	return uint64(len(f.truth))
}

// next are some entries that a leader may send: what is committed and not there yet, or what
// follows on it, at the end or in the place of what is not committed.
func (f *follower) next() (list []Entry) {
	n, right := f.now(), f.right()
	at := n.last() + 1
	switch {
	case right < uint64(len(f.truth)):
		at = right + 1
	case f.rng.IntN(6) == 0:
		at = right + 1 + uint64(f.rng.IntN(int(n.last()-right+1)))
	}
	if at <= n.last() || f.rng.IntN(20) == 0 {
		f.term++
	}
	for range 1 + f.rng.IntN(5) {
		x := Entry{Index: at, Term: f.term}
		switch {
		case at <= uint64(len(f.truth)):
			x = f.truth[at-1]
		case f.rng.IntN(15) == 0:
			x.Kind, x.Data = record.Change, fmt.Append(nil, "members of ", at)
		case f.rng.IntN(12) == 0:
			b := record.Floor{Index: 1 + f.rng.Uint64N(uint64(len(f.truth))+1), Globals: record.Globals{HighID: f.serial}}
			x.Data = append(b.Append(nil), f.recordsOf()...)
		default:
			x.Data = f.recordsOf()
		}
		list = append(list, x)
		at++
	}
	return list
}

// step appends, syncs, commits, or gives up. Its errors are the disk's, or errBroken.
func (f *follower) step() error {
	for range f.rng.IntN(3) {
		list := f.next()
		before := f.now()
		var after []naive // what was appended, and not synced, may be there up to any entry
		for _, x := range list {
			after = append(after, before.append(x, 0))
			before = &after[len(after)-1]
		}
		f.logs = append(f.logs, after...)
		if f.rng.IntN(2) == 0 {
			f.known = max(f.known, f.right())
		}
		for i := len(f.logs) - len(after); i < len(f.logs); i++ {
			f.logs[i].commit = max(f.logs[i].commit, f.known)
		}
		if err := f.e.Append(list, f.known); err != nil {
			return err
		}
		f.agree(false)
	}
	if f.rng.IntN(4) > 0 {
		if err := f.e.Sync(); err != nil {
			return err
		}
		f.logs = f.logs[len(f.logs)-1:]
		f.agree(true)
	}
	if f.rng.IntN(10) == 0 {
		if err := f.holds(f.now()); err != nil && !f.disk.Dead {
			return fmt.Errorf("%w: %w", errBroken, err)
		}
	}
	if f.rng.IntN(3) == 0 {
		return f.j.Tend()
	}
	return nil
}

// agree commits more of the log, whichever server has synced it. It gives up what a Floor says,
// if the Floor is synced here.
func (f *follower) agree(synced bool) {
	n := f.now()
	if size := uint64(len(f.truth)); f.rng.IntN(2) == 0 && f.right() == size && n.last() > size {
		f.truth = append(f.truth, n.log[size:size+1+f.rng.Uint64N(n.last()-size)]...)
	}
	if !synced {
		return
	}
	if f.rng.IntN(2) == 0 {
		f.known = max(f.known, f.right())
	}
	for _, x := range n.log[:f.known] {
		if x.Kind != record.Normal || len(x.Data) == 0 || record.KindOf(x.Data) != record.KindFloor {
			continue
		}
		var r record.Record
		if record.Parse(&r, x.Data); r.Floor.Index > f.floor {
			f.e.GiveUp(r.Floor)
			f.floor = r.Floor.Index
		}
	}
}

// TestLogSurvives: whenever the machine stops, the log is what it was, up to somewhere behind
// what is synced, and what its entries say of each other counts: what was replaced is gone,
// what is known to be committed was replayed, once and in order, and nothing else.
func TestLogSurvives(t *testing.T) {
	seeds(t, 30, func(seed uint64) error {
		f := newFollower(seed)
		told := uint64(0)
		for life := range 12 {
			f.disk.Ops = 0
			err := f.open()
			for step := 0; err == nil && step < 60; step++ {
				err = f.step()
			}
			if err != nil && (!f.disk.Dead || errors.Is(err, errBroken)) {
				return fmt.Errorf("life %d: %w", life, err)
			}
			told = max(told, f.known)
			if f.rng.IntN(3) > 0 {
				f.disk.Cut()
			} else {
				f.disk.Kill()
			}
			f.disk.CrashAt = 1 + f.rng.IntN(1+f.disk.Ops*3/2)
			if life == 10 {
				f.disk.CrashAt = 0
			}
		}
		if len(f.truth) == 0 || told == 0 {
			return errors.New("nothing was committed")
		}
		return nil
	})
}
