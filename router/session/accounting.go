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

// Accounting bounds the memory that connections make the server keep besides jobs: held
// input, bodies in progress and unread replies. One account counts all of it, as it was
// allocated. There are two bounds:
//
//	of a connection  heldCap of input: above it the loop stops reading from the connection.
//	                 unsentCap of replies: above it the loop runs none of its commands
//	                 (Unread, Uncommitted), so no reply is added. One reply may pass it: by
//	                 a body, or by a part of a list (MayContinue).
//	of all           while more than half of Account.Bound is used, the caps of all
//	                 connections fall to their least values: the loops stop reading from
//	                 the largest holders. Above the bound, Host.Evict closes connections:
//	                 the slowest readers first, then the largest holders.
//
// The second step goes by bytes and not by time, since one reporting Gearman worker can add
// a gigabyte in a second.
//
// A large body waits for a place before it is received (admission.go). Replies that no
// command asked for are bounded by their protocol (MaxUnread of package gearmand). A closed
// connection has ten seconds to read its last replies (package reactor).
const (
	// HeldMax is the cap of held input, in bytes: as much as a read brings. With four
	// times as much a thousand pipelining clients get on at half the rate.
	HeldMax = 64 << 10
	// BehindMax is the cap of held input while the session waits for its turn, which
	// reading does not bring closer.
	BehindMax = 48 << 10
	// UnsentMax is the cap of replies that the socket did not take or that wait for
	// commits.
	UnsentMax = 1 << 20

	// heldLeast and unsentLeast are the caps under pressure. heldLeast is more than the
	// longest beginning of a command.
	heldLeast   = 32 << 10
	unsentLeast = 8 << 10
)

// An Account counts memory in bytes, also what many readers share, once. It is told when
// something is kept or given back, so a client that waits for its answers never touches it.
// Any goroutine may call its methods at any time, also while a shard is owned.
type Account struct {
	bound atomic.Int64
	sum   atomic.Int64
	high  chan struct{} // see High

	parts  atomic.Int64          // len(shared), for readers without mu
	mu     sync.Mutex            // guards shared and what is in it
	shared map[*byte]*sharedPart // by their first byte
}

// A sharedPart is memory that never changes and that readers have yet to take.
type sharedPart struct {
	readers int
	counted bool // no job has it
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

// tight reports whether connections may keep only the least.
func (a *Account) tight() bool { return a.Sum() > a.Bound()/2 }

// High receives when the sum is above the bound after an addition or a lower bound.
// Further ones are not told before the last word is taken.
func (a *Account) High() <-chan struct{} { return a.high }

// Add counts n bytes more, or fewer.
func (a *Account) Add(n int) {
	if sum := a.sum.Add(int64(n)); n >= 0 && sum > a.Bound() {
		select {
		case a.high <- struct{}{}:
		default:
		}
	}
}

// Retain counts memory that never changes for one more reader, until Release. While a job
// has the memory, it costs nothing; alone says that no job does.
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

// Release takes one reader of p off.
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

// Orphan tells that no job has p any more.
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

// A usage is what one session has in the account: its held input, its body in progress and
// its replies that wait for a commit. The Conn counts what its socket did not take.
type usage struct {
	bytes int
	at    int // position in Loop.holders plus one; zero: it keeps nothing
}

// holders are a loop's sessions that keep something: the candidates for eviction.
type holders struct {
	list   []*Session
	change int // bytes that the account was not told of yet
}

// usageStep is the change of a loop that is worth telling the account, which all loops
// share.
const usageStep = 32 << 10

// AddUsage counts n bytes more, or fewer, for the session.
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

// listUsage puts the session on the loop's list of holders, or takes it off.
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

// UnsentDropped is called when the Conn keeps nothing any more; the session may be closed.
func (s *Session) UnsentDropped() { s.listUsage() }

// heldCap is the cap of the session's held input.
func (s *Session) heldCap() int {
	if h := s.loop.host; h.Account.tight() {
		return min(h.HeldMost, heldLeast)
	}
	return s.loop.host.HeldMost
}

// unsentCap is the cap of its unread replies.
func (s *Session) unsentCap() int {
	if s.loop.host.Account.tight() {
		return unsentLeast
	}
	return UnsentMax
}

const (
	// garbagePart of the operator's bound is for what the garbage collector has not freed
	// yet: it runs when the heap has doubled. The account has the rest.
	garbagePart = 2
	// bodiesPart of the account is for large bodies that are received at the same time.
	bodiesPart = 2
	// lateEvery is the time between two looks for late bodies.
	lateEvery = 2 * time.Second
	// evictEvery is how long evicted sessions have to close before others are evicted.
	evictEvery = 10 * time.Millisecond
	// evictMargin is the part of the bound that an eviction frees below it.
	evictMargin = 16
	// unreadLeast bytes of unread replies do not make a slow reader: one block of what its
	// socket did not take.
	unreadLeast = 64 << 10
)

// BoundConnections sets how many bytes all connections together may make the server keep
// besides jobs. Any goroutine but a loop's may call it at any time: a lower bound has the
// same effect as reaching it.
func (h *Host) BoundConnections(bytes int64) {
	h.connectionMemory.Store(bytes)
	h.Account.SetBound(bytes / garbagePart)
	h.LimitBodies(h.Account.Bound() / bodiesPart)
}

// KeepWithin evicts while the account is above its bound, and looks for late bodies, until
// quit is closed.
func (h *Host) KeepWithin(quit <-chan struct{}) {
	tick := time.NewTicker(lateEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
			h.EvictLate()
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
	unsent, kept int // bytes that its socket did not take, and of its usage
}

// unread is what counts as unread.
func (h holder) unread() int {
	if h.unsent <= unreadLeast {
		return 0
	}
	return h.unsent
}

// Evict closes the worst holders until the rest is within the bound. It waits for the
// loops, so a loop must not call it.
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

// evict closes a connection because all together keep too much.
func (s *Session) evict(unsent, held int) {
	if s.usage.at == 0 {
		return // it has read meanwhile, or is gone
	}
	h := s.loop.host
	h.Complain("closing a connection: all together keep more than they may",
		"conn", s, "unsent", unsent, "held", held, "bound", h.connectionMemory.Load())
	if s.life >= closing {
		s.conn.Drop() // its last replies
		return
	}
	s.Abort()
}
