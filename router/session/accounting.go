package session

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Accounting bounds the memory of connections, jobs excluded: held input, bodies in progress
// and unread replies. One account counts the allocated bytes. There are two bounds:
//
//	of a connection  heldCap of input: above it the loop stops reading from the connection.
//	                 unsentCap of replies: above it the loop runs none of its commands
//	                 (Unread, Uncommitted), so no reply is added. One reply may exceed it,
//	                 by one body or one part of a list (MayContinue).
//	of all           while more than half of Account.Bound is used, the caps of all
//	                 connections fall to their minimum, so the loops stop reading from
//	                 the largest holders. Above the bound, Host.Evict closes connections:
//	                 the slowest readers first, then the largest holders.
//
// Eviction depends on bytes and not on time, because one Gearman worker that reports can add
// a gigabyte in a second.
//
// A large body waits for a place before it is received (admission.go). The protocol bounds
// unrequested replies (MaxUnread of package gearmand). A client has ten seconds to read its
// last replies after its connection is closed (package reactor).
const (
	// HeldMax is the cap of held input, in bytes: the size of one read. With four times
	// as much, a thousand pipelining clients have half the throughput.
	HeldMax = 64 << 10
	// BehindMax is the cap of held input while the session waits for its turn: more input
	// would not make the turn come earlier.
	BehindMax = 48 << 10
	// UnsentMax is the cap of replies that wait for the socket, and of those that wait for
	// commits.
	UnsentMax = 1 << 20

	// heldLeast and unsentLeast are the caps under memory pressure. heldLeast is larger than
	// the longest incomplete command.
	heldLeast   = 32 << 10
	unsentLeast = 8 << 10
)

// An Account counts memory in bytes; memory that many readers share counts once. It changes
// only when memory is kept or released, so a client that waits for each reply never touches
// it. Any goroutine may call its methods at any time, also while it owns a shard.
type Account struct {
	bound atomic.Int64
	sum   atomic.Int64
	high  chan struct{} // see High

	parts  atomic.Int64          // len(shared), for readers without mu
	mu     sync.Mutex            // guards shared and its values
	shared map[*byte]*sharedPart // by their first byte
}

// A sharedPart is stable memory that some readers have not received yet.
type sharedPart struct {
	readers int
	counted bool // in the sum, because no job has the memory
}

// newAccount makes an empty account with a bound in bytes.
func newAccount(bound int64) *Account {
	a := &Account{high: make(chan struct{}, 1), shared: make(map[*byte]*sharedPart)}
	a.bound.Store(bound)
	return a
}

// Bound returns the bound in bytes.
func (a *Account) Bound() int64 { return a.bound.Load() }

// SetBound changes the bound.
func (a *Account) SetBound(bound int64) {
	a.bound.Store(bound)
	a.Add(0)
}

// Sum returns the bytes that are counted.
func (a *Account) Sum() int64 { return a.sum.Load() }

// Excess returns the bytes above the bound; not positive: none.
func (a *Account) Excess() int64 { return a.Sum() - a.Bound() }

// tight reports whether the caps are at their minimum.
func (a *Account) tight() bool { return a.Sum() > a.Bound()/2 }

// High returns a channel that receives when an addition, or a lower bound, leaves the sum
// above the bound. It has a buffer of one.
func (a *Account) High() <-chan struct{} { return a.high }

// Add adds n bytes, which may be negative.
func (a *Account) Add(n int) {
	if sum := a.sum.Add(int64(n)); n >= 0 && sum > a.Bound() {
		select {
		case a.high <- struct{}{}:
		default:
		}
	}
}

// Retain adds a reader of stable memory, until Release. Memory that a job has is not counted;
// alone means that no job has it.
func (a *Account) Retain(p []byte, alone bool) {
	if len(p) == 0 {
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

// Release removes one reader of p.
func (a *Account) Release(p []byte) {
	if len(p) == 0 {
		return
	}
	a.mu.Lock()
	key := unsafe.SliceData(p)
	s := a.shared[key]
	if s == nil {
		a.mu.Unlock()
		panic(fmt.Sprintf("session: %d bytes are released that nothing retains", len(p)))
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

// Orphan notes that no job has p any more.
func (a *Account) Orphan(p []byte) {
	if len(p) == 0 || a.parts.Load() == 0 {
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

// A usage is the session's part of the account: its held input, its body in progress and its
// replies that wait for a commit. The Conn counts output that its socket did not take.
type usage struct {
	bytes int
	at    int // position in Loop.holders plus one; zero: not on the list
}

// holders lists a loop's sessions with memory in the account: the candidates for eviction.
type holders struct {
	list   []*Session
	change int // bytes not yet added to the account
}

// usageStep is the change, in bytes, after which a loop updates the account. All loops share
// the account, so smaller updates would be expensive.
const usageStep = 32 << 10

// AddUsage adds n bytes, which may be negative, to the session's usage.
func (s *Session) AddUsage(n int) {
	l := s.loop
	s.usage.bytes += n
	l.holders.change += n
	if c := l.holders.change; c >= usageStep || c <= -usageStep {
		l.host.Account.Add(c)
		l.holders.change = 0
	}
	if s.usage.bytes < 0 {
		s.impossible("gives back more memory than it has in the account")
	}
	if (s.usage.at == 0) == (s.usage.bytes > 0) {
		s.listUsage()
	}
}

// listUsage adds the session to the loop's holders, or removes it.
func (s *Session) listUsage() {
	h := &s.loop.holders
	keeps := s.usage.bytes > 0 || s.conn.Unsent() > 0
	switch {
	case keeps && s.usage.at == 0:
		h.list = append(h.list, s)
		s.usage.at = len(h.list)
	case !keeps && s.usage.at > 0:
		n := len(h.list) - 1
		last := h.list[n]
		h.list[s.usage.at-1] = last
		last.usage.at = s.usage.at
		h.list[n] = nil
		h.list = h.list[:n]
		s.usage.at = 0
	}
}

// UnsentDropped notes that the Conn has dropped its unsent output. The session may be closed.
func (s *Session) UnsentDropped() { s.listUsage() }

// heldCap returns the cap of the session's held input.
func (s *Session) heldCap() int {
	if h := s.loop.host; h.Account.tight() {
		return min(h.HeldMost, heldLeast)
	}
	return s.loop.host.HeldMost
}

// unsentCap returns the cap of its unread replies.
func (s *Session) unsentCap() int {
	if s.loop.host.Account.tight() {
		return unsentLeast
	}
	return UnsentMax
}

const (
	// garbagePart divides the operator's bound: the account gets one half, and garbage that
	// is not collected yet gets the other, because the collector runs when the heap has doubled.
	garbagePart = 2
	// bodiesPart divides the account: half of it is for large bodies being received.
	bodiesPart = 2
	// lateEvery is the time between two searches for late bodies and unproven clients.
	lateEvery = 2 * time.Second
	// evictEvery is how long evicted sessions have to close before others are evicted.
	evictEvery = 10 * time.Millisecond
	// evictMargin divides the bound: an eviction frees a sixteenth of it more than necessary.
	evictMargin = 16
	// unreadLeast is the least number of unread bytes of a slow reader: one block of a
	// SendQueue.
	unreadLeast = 64 << 10
)

// BoundConnections bounds the memory of all connections together, jobs excluded, in bytes. A
// lower bound may evict connections. Any goroutine except a loop's may call it at any time.
func (h *Host) BoundConnections(bytes int64) {
	h.connectionMemory.Store(bytes)
	h.Account.SetBound(bytes / garbagePart)
	h.LimitBodies(h.Account.Bound() / bodiesPart)
}

// KeepWithin evicts connections while the account is above its bound, those with late bodies, and
// those that do not authenticate, until quit is closed.
func (h *Host) KeepWithin(quit <-chan struct{}) {
	tick := time.NewTicker(lateEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
			h.EvictLate()
			h.EvictUnproven()
		case <-h.Account.High():
			for h.Account.Excess() > 0 {
				h.Evict()
				select {
				case <-quit:
					return
				case <-time.After(evictEvery):
				}
			}
		}
	}
}

// A holder is a session that may be evicted.
type holder struct {
	s            *Session
	unsent, kept int // bytes that its socket did not take; bytes of its usage
}

// unread returns the unread bytes; zero: it is not a slow reader.
func (h holder) unread() int {
	if h.unsent <= unreadLeast {
		return 0
	}
	return h.unsent
}

// Evict closes the slowest readers and then the largest holders, until the rest is below the
// bound. It waits for the loops, so a loop must not call it.
func (h *Host) Evict() {
	excess := h.Account.Excess()
	if excess <= 0 {
		return
	}
	excess += h.Account.Bound() / evictMargin
	var all []holder
	for _, l := range h.Loops() {
		l.own.Lock()
		for _, s := range l.holders.list {
			all = append(all, holder{s, s.conn.Unsent(), s.usage.bytes})
		}
		l.own.Unlock()
	}
	slices.SortFunc(all, func(a, b holder) int {
		return cmp.Or(cmp.Compare(b.unread(), a.unread()), cmp.Compare(b.unsent+b.kept, a.unsent+a.kept))
	})
	for _, d := range all {
		if excess <= 0 {
			return
		}
		excess -= int64(max(d.unsent+d.kept, 1))
		d.s.loop.Signal(d.s, func(s *Session) { s.evict(d.unsent, d.kept) })
	}
}

// evict closes the connection because all connections together use too much memory.
func (s *Session) evict(unsent, held int) {
	if s.usage.at == 0 {
		return // it has read meanwhile, or is gone
	}
	h := s.loop.host
	h.Complain("closing a connection: all connections together use too much memory",
		"conn", s, "unsent", unsent, "held", held, "bound", h.connectionMemory.Load())
	if s.life >= closing {
		s.conn.Drop() // its last replies
		return
	}
	s.Abort()
}
