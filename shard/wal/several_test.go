package wal_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"polystalk/shard/commit"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A busy is the consensus of a server without others. One goroutine stores what is proposed, and
// says that it is committed.
type busy struct {
	j          *commit.Journal
	last, term uint64 // of the last entry
	work       chan proposed
	ended      chan error
}

// proposed is the data of an entry, or the end of a commit.
type proposed struct {
	data []byte
	end  uint64
}

func (b *busy) Propose(data []byte, _ uint64) error { b.work <- proposed{data: data}; return nil }
func (b *busy) End(n uint64) error                  { b.work <- proposed{end: n}; return nil }
func (b *busy) Wanted() bool                        { return false }

// start begins a term, and leads.
func (b *busy) start(j *commit.Journal) error {
	b.j, b.work, b.ended = j, make(chan proposed, 64), make(chan error, 1)
	if err := j.Open(); err != nil {
		return err
	}
	e := j.Entries()
	b.last, b.term = e.Last()+1, b.term+1
	if err := e.Append([]Entry{{Index: b.last, Term: b.term}}, b.last-1); err != nil {
		return err
	}
	if err := e.Sync(); err != nil {
		return err
	}
	go func() { b.ended <- b.run() }()
	return j.Lead()
}

// end ends the goroutine; the journal must be closed.
func (b *busy) end() error {
	close(b.work)
	return <-b.ended
}

// run stores entries, several at a time, until work is closed.
func (b *busy) run() (failed error) {
	for x := range b.work {
		before, ended := b.last, uint64(0)
		var list []Entry
		for more := true; more; {
			if x.end > 0 {
				ended = x.end
			} else {
				b.last++
				list = append(list, Entry{Index: b.last, Term: b.term, Data: x.data})
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
			failed = errors.Join(failed, err)
		}
	}
	return failed
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

// TestOneOfSeveralInGoroutines: shards append, commits are made, entries are written and read, and
// segments are given up, all at a time. What was acknowledged is there after a restart.
func TestOneOfSeveralInGoroutines(t *testing.T) {
	s := &server{disk: fakedisk.New(1), size: SegmentMin, busy: new(busy)}
	must(t, s.open(3))
	stop := make(chan struct{})
	var follower sync.WaitGroup
	follower.Go(func() { s.busy.follow(t, stop) })
	list := s.customers(1, 6, 150)
	must(t, s.j.Durable())
	if st := s.j.Stats(); st.Pending != 0 || st.Oldest < 3 {
		t.Errorf("%d bytes are pending when all is committed, segments from %d on are there", st.Pending, st.Oldest)
	}
	close(stop)
	follower.Wait()
	must(t, s.restart(2))
	must(t, holds(s.bodies(), list))
	must(t, s.end())
}
