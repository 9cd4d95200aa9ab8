package router

import (
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"polystalk/shard/core"
)

// An account counts the memory, in bytes, that all connections together make the
// server keep besides jobs: input that cannot be used yet, bodies that are not all
// there, and output that was not taken. Memory is counted as it was allocated, and
// what many readers share once. It is told when something is kept or given back,
// which a client that waits for its answers never causes.
//
// The bound is kept in two steps (keeping.go): from half of it on each connection may
// keep less, and above it the worst readers are cut off.
//
// A nil account counts nothing. All methods may be called by anyone at any time.
type account struct {
	most int64  // the bound
	high func() // called when the sum rises above half of it, often; must not block; nil: nobody is told

	sum atomic.Int64

	parts  atomic.Int64 // in shared
	mu     sync.Mutex
	shared map[*byte]*sharedPart // by its first byte
}

// A sharedPart is memory that never changes and that readers have yet to take.
type sharedPart struct {
	readers int
	counted bool // nobody else keeps it: no job has it, or none any more
}

func newAccount(most int64) *account {
	return &account{most: most, shared: make(map[*byte]*sharedPart)}
}

// add counts n bytes more, or fewer.
func (a *account) add(n int) {
	if a == nil || n == 0 {
		return
	}
	if sum := a.sum.Add(int64(n)); n > 0 && sum > a.most/2 && a.high != nil {
		a.high()
	}
}

// allow is what one connection may keep instead of full bytes: those while at most
// half of the bound is used, then ever less, and least bytes from three quarters on, so
// that a quarter is left for those that come then.
func (a *account) allow(full, least int) int {
	if a == nil {
		return full
	}
	quarter := a.most / 4
	left := 3*quarter - a.sum.Load()
	if left >= quarter {
		return full
	}
	return max(least, int(float64(full)*float64(left)/float64(quarter)))
}

// excess is the number of bytes above the bound; not positive: none.
func (a *account) excess() int64 {
	if a == nil {
		return math.MinInt64
	}
	return a.sum.Load() - a.most
}

// hold counts memory that never changes for one more reader. As long as a job has it
// it costs nothing more; alone says that none does.
func (a *account) hold(p []byte, alone bool) {
	if a == nil || len(p) == 0 {
		return
	}
	a.mu.Lock()
	key := unsafe.SliceData(p)
	s := a.shared[key]
	if s == nil {
		s = new(sharedPart)
		a.shared[key] = s
		a.parts.Add(1)
	}
	s.readers++
	count := alone && !s.counted
	s.counted = s.counted || alone
	a.mu.Unlock()
	if count {
		a.add(cap(p))
	}
}

// holdRelay and releaseRelay are for the body of a report, which no job has.
func (a *account) holdRelay(r *core.Relay) {
	a.hold(r.Body, true)
	for _, p := range r.Large {
		a.hold(p, true)
	}
}

func (a *account) releaseRelay(r *core.Relay) {
	a.release(r.Body)
	for _, p := range r.Large {
		a.release(p)
	}
}

// release takes one reader of p off.
func (a *account) release(p []byte) {
	if a == nil || len(p) == 0 {
		return
	}
	a.mu.Lock()
	key := unsafe.SliceData(p)
	s := a.shared[key]
	s.readers--
	last := s.readers == 0
	if last {
		delete(a.shared, key)
		a.parts.Add(-1)
	}
	a.mu.Unlock()
	if last && s.counted {
		a.add(-cap(p))
	}
}

// orphan tells that no job has p any more. It may be called while a shard is owned.
func (a *account) orphan(p []byte) {
	if a == nil || len(p) == 0 || a.parts.Load() == 0 {
		return
	}
	a.mu.Lock()
	s := a.shared[unsafe.SliceData(p)]
	count := s != nil && !s.counted
	if count {
		s.counted = true
	}
	a.mu.Unlock()
	if count {
		a.add(cap(p))
	}
}
