package wal_test

import (
	"sync"
	"testing"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/record"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A busy is the consensus of a server that has no others, in goroutines: entries are written and
// synced by one, and what is committed is told by another, while more are proposed.
type busy struct {
	j        *commit.Journal
	term     uint64
	proposed chan Entry
	written  chan uint64 // indexes
	window   chan struct{}

	mu   sync.Mutex
	next uint64
	ends []ending
}

// An ending is a commit whose entries are all below an index, or at it.
type ending struct{ commit, index uint64 }

func (b *busy) Propose(data []byte, _ uint64) error {
	b.window <- struct{}{}
	b.mu.Lock()
	b.next++
	x := Entry{Index: b.next, Term: b.term, Data: data}
	b.mu.Unlock()
	b.proposed <- x
	return nil
}

func (b *busy) End(n uint64) error {
	b.mu.Lock()
	b.ends = append(b.ends, ending{n, b.next})
	b.mu.Unlock()
	select {
	case b.written <- 0: // perhaps nothing is under way
	default:
	}
	return nil
}

func (b *busy) Wanted() bool { return false }

// disk writes what was proposed, several at a time.
func (b *busy) disk() {
	defer close(b.written)
	for x := range b.proposed {
		list := []Entry{x}
		for more := true; more; {
			select {
			case x, ok := <-b.proposed:
				if more = ok; ok {
					list = append(list, x)
				}
			default:
				more = false
			}
		}
		e := b.j.Entries()
		if e.Append(list, list[0].Index-1) != nil || e.Sync() != nil {
			return
		}
		for range list {
			<-b.window
		}
		b.written <- list[len(list)-1].Index
	}
}

// tell says what is committed.
func (b *busy) tell(t *testing.T) {
	durable := uint64(0)
	for i := range b.written {
		durable = max(durable, i)
		n := uint64(0)
		b.mu.Lock()
		for len(b.ends) > 0 && b.ends[0].index <= max(durable, 1) {
			n = b.ends[0].commit
			b.ends = b.ends[1:]
		}
		b.mu.Unlock()
		if n == 0 {
			continue
		}
		if err := b.j.Committed(n); err != nil {
			t.Error(err)
		}
	}
}

// TestOneOfSeveralInGoroutines: shards append, commits are made, entries written, floors lowered
// and entries read, all at a time; whoever waits for a commit hears of it, and in the end all is
// there.
func TestOneOfSeveralInGoroutines(t *testing.T) {
	const shards, each = 3, 3000
	disk := fakedisk.New(1)
	b := &busy{term: 1, proposed: make(chan Entry, 64), written: make(chan uint64, 64), window: make(chan struct{}, 16)}
	wake := make(chan struct{}, 1)
	body := make([]byte, 300)
	o := commit.Options{
		Options: Options{
			Disk: disk, SegmentSize: SegmentMin, Now: time.Now,
			Copy: func(uint16, []uint64, uint64) {}, CopyPause: func(uint16, []byte) {},
		},
		Shards:   shards,
		Proposer: b,
		Node:     1,
		Notify: func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		},
	}
	recovered := func() (seen map[uint64]int) {
		seen = make(map[uint64]int)
		b.j = commit.New(o)
		_, err := b.j.Recover(Replayer{Workers: 1, Worker: func(uint16) int { return 0 }, Apply: func(_ int, r *record.Record) error {
			seen[r.ID]++
			return nil
		}})
		must(t, err)
		must(t, b.j.Open())
		return seen
	}
	recovered()
	e := b.j.Entries()
	must(t, e.Append([]Entry{{Index: 1, Term: 1}}, 0))
	must(t, e.Sync())
	b.next = 1
	var others, writers sync.WaitGroup
	others.Go(b.disk)
	others.Go(func() { b.tell(t) })
	must(t, b.j.Lead())
	stop := make(chan struct{})
	others.Go(func() { // somebody is behind
		for at := uint64(1); ; {
			select {
			case <-stop:
				return
			default:
			}
			at = max(at, e.First())
			list, err := e.Read(at, min(e.Last()+1, at+20), 100_000)
			switch {
			case err == ErrCompacted || err == ErrUnavailable || at > e.Last():
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
	})
	for i := range shards {
		writers.Go(func() {
			l := b.j.Log(i)
			for n := range each {
				l.Begin()
				id := uint64(n*shards + i + 1)
				l.Buffer.Put(&record.Job{ID: id, Tube: []byte("t"), State: record.Ready, Body: body}, 0, nil)
				l.Buffer.HighID = id
				commit := l.Buffer.Commit
				request := l.End()
				if request {
					l.Request()
				}
				for n%100 == 99 && b.j.Acked() < commit {
					select {
					case <-wake:
					case <-time.After(time.Millisecond):
					}
				}
			}
		})
	}
	writers.Wait()
	must(t, b.j.Durable())
	for b.j.Stats().Oldest < 5 { // nothing lives, so most is given up
		time.Sleep(time.Millisecond)
	}
	if s := b.j.Stats(); s.Pending != 0 {
		t.Errorf("%d bytes are pending when all is committed", s.Pending)
	}
	close(stop)
	must(t, b.j.Close())
	close(b.proposed)
	others.Wait()

	seen := recovered()
	defer b.j.Close()
	for i := b.j.Entries().Committed() + 1; i <= b.j.Entries().Last(); i++ {
		list, err := b.j.Entries().Read(i, i+1, 0)
		must(t, err)
		for data := list[0].Data; len(data) > 0; data = data[record.Len(data):] {
			switch record.KindOf(data) {
			case record.KindPut:
				seen[record.IDOf(data)]++
			case record.KindFloor:
				var r record.Record
				_, err := record.Parse(&r, data)
				must(t, err)
				b.j.Entries().GiveUp(r.Floor)
			}
		}
	}
	high := b.j.HighID() // by what was replayed, and Floors
	for id := range seen {
		high = max(high, id)
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
