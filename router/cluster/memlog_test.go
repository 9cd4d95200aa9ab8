package cluster

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"polystalk/shard/record"
	"polystalk/shard/wal/fakedisk"
)

// A memLog is a Log in memory that works like a journal: entries are appended, and an entry replaces
// all earlier entries from its index on. A stop loses some unsynced entries. The methods of Log are
// safe for concurrent use.
type memLog struct {
	mu      sync.Mutex
	hang    chan struct{} // Sync waits until it is closed, if there is one
	full    chan struct{} // Append waits until it is closed, if there is one
	batches []batch       // as on the disk
	synced  int           // batches that are durable

	first     uint64 // the entry that is used only for its term
	firstTerm uint64
	entries   []Entry // the log that the batches make, after first
	committed uint64  // when it was opened
	lazy      bool    // Sync does nothing
	broken    bool    // Sync fails
}

// A batch is an appended entry, with the commit index at that time.
type batch struct {
	Entry
	commit uint64
}

func (l *memLog) last() uint64      { return l.first + uint64(len(l.entries)) }
func (l *memLog) Last() uint64      { l.mu.Lock(); defer l.mu.Unlock(); return l.last() }
func (l *memLog) Committed() uint64 { return l.committed }

func (l *memLog) First() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == 0 && len(l.entries) > 0 {
		return 1
	}
	return l.first
}

func (l *memLog) Term(i uint64) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case i < l.first || i > l.last():
		return 0, fmt.Errorf("entry %d of %d…%d", i, l.first, l.last())
	case i == l.first:
		return l.firstTerm, nil
	}
	return l.entries[i-l.first-1].Term, nil
}

func (l *memLog) Read(lo, hi uint64, size int) (list []Entry, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lo <= l.first || hi > l.last()+1 {
		return nil, fmt.Errorf("entries %d…%d of %d…%d", lo, hi, l.first, l.last())
	}
	for _, e := range l.entries[lo-l.first-1 : hi-l.first-1] {
		if size -= len(e.Data); size < 0 && len(list) > 0 {
			break
		}
		list = append(list, e)
	}
	return list, nil
}

func (l *memLog) Changes(after uint64) (list []Entry) {
	for _, e := range l.entries {
		if e.Index > after && e.Index <= l.committed && e.Kind != record.Normal {
			list = append(list, e)
		}
	}
	return list
}

// stuck waits for a channel, if there is one.
func (l *memLog) stuck(c *chan struct{}) {
	l.mu.Lock()
	wait := *c
	l.mu.Unlock()
	if wait != nil {
		<-wait
	}
}

// set changes hang or full, and returns the channel.
func (l *memLog) set(c *chan struct{}) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	*c = make(chan struct{})
	return *c
}

func (l *memLog) Append(list []Entry, commit uint64) error {
	l.stuck(&l.full)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range list {
		l.batches = append(l.batches, batch{e, min(commit, e.Index)})
		l.take(e)
	}
	return nil
}

// take replaces all entries from an entry's index on by the entry.
func (l *memLog) take(e Entry) {
	if e.Index <= l.first || e.Index > l.last()+1 {
		panic(fmt.Sprintf("entry %d does not follow %d…%d", e.Index, l.first, l.last()))
	}
	l.entries = append(l.entries[:e.Index-l.first-1:e.Index-l.first-1], e)
}

func (l *memLog) Sync() error {
	l.stuck(&l.hang)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return fakedisk.ErrDead
	}
	if !l.lazy {
		l.synced = len(l.batches)
	}
	return nil
}

func (l *memLog) GiveUp(b *record.Floor) { l.compact(b.Index) }

// compact drops all entries before an index, except the term of the last one.
func (l *memLog) compact(first uint64) {
	if first <= max(l.first, 1) || first > l.Last() {
		return
	}
	term, _ := l.Term(first)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.firstTerm, l.entries, l.first = term, l.entries[first-l.first:], first
}

// stop is a power cut: some unsynced entries are lost. The rest is opened again.
func (l *memLog) stop(rng *rand.Rand) *memLog {
	return l.open(l.synced + rng.IntN(len(l.batches)-l.synced+1))
}

// copyOf returns the synced part of another node's log, as a fetch of its journal does.
func (l *memLog) copyOf() *memLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open(l.synced)
}

// open returns a log of the first n batches.
func (l *memLog) open(n int) *memLog {
	m := &memLog{batches: l.batches[:n:n], synced: n}
	for _, b := range m.batches {
		m.take(b.Entry)
		m.committed = max(m.committed, b.commit)
	}
	m.compact(min(l.first, m.committed)) // dropped segments do not return
	return m
}
