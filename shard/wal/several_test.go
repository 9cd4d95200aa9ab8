package wal_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/record"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A busy is the consensus of a server without others. One goroutine stores what is proposed, and
// says that it is committed.
type busy struct {
	j    *commit.Journal
	last uint64 // entry
	work chan proposed
}

// proposed is the data of an entry, or the end of a commit.
type proposed struct {
	data []byte
	end  uint64
}

func (b *busy) Propose(data []byte, _ uint64) error { b.work <- proposed{data: data}; return nil }
func (b *busy) End(n uint64) error                  { b.work <- proposed{end: n}; return nil }
func (b *busy) Wanted() bool                        { return false }

// run stores entries, several at a time, until work is closed.
func (b *busy) run(t *testing.T) {
	for x := range b.work {
		before, ended := b.last, uint64(0)
		var list []Entry
		for more := true; more; {
			if x.end > 0 {
				ended = x.end
			} else {
				b.last++
				list = append(list, Entry{Index: b.last, Term: 1, Data: x.data})
			}
			select {
			case x, more = <-b.work:
			default:
				more = false
			}
		}
		e := b.j.Entries()
		err := e.Append(list, before)
		if err == nil {
			err = e.Sync()
		}
		if err == nil && ended > 0 {
			err = b.j.Committed(ended)
		}
		if err != nil && !errors.Is(err, ErrStopped) {
			t.Error(err)
		}
	}
}

// follow reads entries as a follower is sent them, until stop is closed.
func (b *busy) follow(t *testing.T, stop chan struct{}) {
	e := b.j.Entries()
	for at := uint64(1); ; {
		select {
		case <-stop:
			return
		default:
		}
		at = max(at, e.First())
		list, err := e.Read(at, min(e.Last()+1, at+20), 100_000)
		switch {
		case err == ErrCompacted || err == ErrUnavailable || len(list) == 0:
			time.Sleep(time.Millisecond)
		case err != nil:
			t.Error(err)
			return
		}
		for _, x := range list {
			if x.Index != at {
				t.Errorf("entry %d is read as %d", at, x.Index)
			}
			at++
		}
	}
}

// TestOneOfSeveralInGoroutines: shards append, commits are made, entries are written and read,
// and segments are given up, all at a time. Every commit is acknowledged, and in the end every
// record is there once, or was given up.
func TestOneOfSeveralInGoroutines(t *testing.T) {
	const shards, each = 3, 2000
	b := &busy{work: make(chan proposed, 64)}
	o := commit.Options{
		Options: Options{
			Disk: fakedisk.New(1), SegmentSize: SegmentMin, Now: time.Now,
			Copy: func(uint16, []uint64, uint64) {}, CopyPause: func(uint16, []byte) {},
		},
		Shards: shards, Proposer: b, Node: 1, Fail: func(f *commit.Failure) { panic(f) },
	}
	seen, high := map[uint64]int{}, uint64(0)
	note := func(r *record.Record) {
		switch r.Kind {
		case record.KindPut:
			seen[r.ID]++
			high = max(high, r.ID)
		case record.KindFloor:
			high = max(high, r.Floor.HighID)
		}
	}
	open := func() {
		b.j = commit.New(o)
		must(t, second(b.j.Recover(Replayer{
			Workers: 1, Worker: func(uint16) int { return 0 },
			Apply: func(_ int, r *record.Record) error { note(r); return nil },
		})))
		must(t, b.j.Open())
	}
	open()
	b.last = 1
	must(t, b.j.Entries().Append([]Entry{{Index: 1, Term: 1}}, 0))
	must(t, b.j.Entries().Sync())
	stop := make(chan struct{})
	var others, writers sync.WaitGroup
	others.Go(func() { b.run(t) })
	others.Go(func() { b.follow(t, stop) })
	must(t, b.j.Lead())
	body := make([]byte, 300)
	for i := range shards {
		writers.Go(func() {
			l := b.j.Log(i)
			for n := range each {
				l.Begin()
				id := uint64(n*shards + i + 1)
				l.Buffer.Put(&record.Job{ID: id, Tube: []byte("t"), State: record.Ready, Body: body}, 0, nil)
				l.Buffer.HighID = id
				commit := l.Buffer.Commit
				if l.End() {
					l.Request()
				}
				for n%100 == 99 && b.j.Acked() < commit {
					time.Sleep(100 * time.Microsecond)
				}
			}
		})
	}
	writers.Wait()
	must(t, b.j.Durable())
	for b.j.Stats().Oldest < 3 { // nothing lives, so most is given up
		time.Sleep(time.Millisecond)
	}
	if s := b.j.Stats(); s.Pending != 0 {
		t.Errorf("%d bytes are pending when all is committed", s.Pending)
	}
	close(stop)
	must(t, b.j.Close())
	close(b.work)
	others.Wait()

	open()
	defer b.j.Close()
	e := b.j.Entries()
	high = max(high, b.j.HighID())
	for i := e.Committed() + 1; i <= e.Last(); i++ {
		list, err := e.Read(i, i+1, 0)
		must(t, err)
		for data := list[0].Data; len(data) > 0; data = data[record.Len(data):] {
			var r record.Record
			must(t, second(record.Parse(&r, data)))
			note(&r)
		}
	}
	if len(seen) == 0 || high != shards*each {
		t.Errorf("%d records are there, the highest id is %d", len(seen), high)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("record %d is there %d times", id, n)
		}
	}
}
