package memory

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"polystalk/shard/core"
)

// An Account counts the memory, in bytes, that all connections together make the
// server keep besides jobs: input that cannot be used yet, bodies that are not all
// there, and output that was not taken. Memory is counted as it was allocated, and
// what many readers share once. It is told when something is kept or given back,
// which a client that waits for its answers never causes.
//
// The bound is kept in two steps, which are up to who keeps something: from half of it on
// each connection may keep less (Allow), and above it the worst readers are cut off
// (Excess).
//
// A nil Account counts nothing. All methods may be called by anyone at any time, also
// while a shard is owned.
type Account struct {
	bound atomic.Int64 // see Bound

	high chan struct{} // see High
	sum  atomic.Int64

	parts  atomic.Int64          // len(shared), to be read without mu
	mu     sync.Mutex            // guards shared and what is in it
	shared map[*byte]*sharedPart // by their first byte
}

// A sharedPart is memory that never changes and that readers have yet to take.
type sharedPart struct {
	readers int
	counted bool // nobody else keeps it: no job has it, or none any more
}

// NewAccount is an account of nothing yet.
func NewAccount(bound int64) *Account {
	a := &Account{high: make(chan struct{}, 1), shared: make(map[*byte]*sharedPart)}
	a.bound.Store(bound)
	return a
}

// Bound is the number of bytes within which all of it should stay.
func (a *Account) Bound() int64 { return a.bound.Load() }

// SetBound changes it. What is kept above a lower one is told by High.
func (a *Account) SetBound(bound int64) {
	a.bound.Store(bound)
	a.tellIfHigh(a.sum.Load(), bound)
}

// Sum is the number of bytes that are counted.
func (a *Account) Sum() int64 { return a.sum.Load() }

// Low reports whether the sum is far below the bound.
func (a *Account) Low() bool { return a.sum.Load() < a.Bound()/4 }

// High tells when something was added and the sum is above half of the bound. What comes
// while nobody has taken the last word is not told again.
func (a *Account) High() <-chan struct{} { return a.high }

// Add counts n bytes more, or fewer.
func (a *Account) Add(n int) {
	if a == nil || n == 0 {
		return
	}
	if sum := a.sum.Add(int64(n)); n > 0 {
		a.tellIfHigh(sum, a.Bound())
	}
}

func (a *Account) tellIfHigh(sum, bound int64) {
	if sum <= bound/2 {
		return
	}
	select {
	case a.high <- struct{}{}:
	default:
	}
}

// Allow is what one connection may keep instead of full bytes: those while at most
// half of the bound is used, then ever less, and least bytes from three quarters on, so
// that a quarter is left for those that come then.
func (a *Account) Allow(full, least int) int {
	if a == nil {
		return full
	}
	quarter := a.Bound() / 4
	left := 3*quarter - a.sum.Load()
	if left >= quarter {
		return full
	}
	return max(least, int(float64(full)*float64(left)/float64(quarter)))
}

// Excess is the number of bytes above the bound; not positive: none.
func (a *Account) Excess() int64 {
	if a == nil {
		return math.MinInt64
	}
	return a.sum.Load() - a.Bound()
}

// Retain counts memory that never changes for one more reader, until Release. As long as a
// job has it, it costs nothing more; alone says that none does.
func (a *Account) Retain(p []byte, alone bool) {
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
		a.Add(cap(p))
	}
}

// RetainRelay is Retain for the body of a report, which no job has.
func (a *Account) RetainRelay(r *core.Relay) {
	a.Retain(r.Body, true)
	for _, p := range r.Large {
		a.Retain(p, true)
	}
}

// ReleaseRelay is Release for what RetainRelay has counted.
func (a *Account) ReleaseRelay(r *core.Relay) {
	a.Release(r.Body)
	for _, p := range r.Large {
		a.Release(p)
	}
}

// Release takes one reader of p off.
func (a *Account) Release(p []byte) {
	if a == nil || len(p) == 0 {
		return
	}
	a.mu.Lock()
	key := unsafe.SliceData(p)
	s := a.shared[key]
	if s == nil {
		a.mu.Unlock()
		panic(fmt.Sprintf("memory: %d bytes are released that nobody has retained", len(p)))
	}
	s.readers--
	last := s.readers == 0
	if last {
		delete(a.shared, key)
		a.parts.Add(-1)
	}
	a.mu.Unlock()
	if last && s.counted {
		a.Add(-cap(p))
	}
}

// Orphan tells that no job has p any more.
func (a *Account) Orphan(p []byte) {
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
		a.Add(cap(p))
	}
}

// Parts is how many pieces of memory are retained.
func (a *Account) Parts() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.shared)
}
