package session

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"polystalk/router/access"
	"polystalk/router/ops"
	"polystalk/shard/commit"
)

// A Host holds what the loops of a server share. Its exported fields must be set before the
// first loop, and not change after that.
type Host struct {
	Map     *ops.Map
	Clock   *ops.Clock
	Journal commit.Storage // nil: jobs are in memory only
	Log     *slog.Logger
	// LeaseFence returns the commit that every reply must wait for; nil: none. A server
	// of a cluster has one while it leads. It returns zero while no other server can be
	// leader, else it requests a new commit, which only the leader can make, and returns
	// its number. The loops call it before each write.
	LeaseFence func() uint64

	// Account counts the memory of all connections; see BoundConnections.
	Account *Account

	// HeldMost is the cap of held input, in bytes: HeldMax, except in tests. A connection
	// above it is paused until a quarter of it is left.
	HeldMost int
	// LookMost is how many tubes of a long watch list a survey reads at a time.
	LookMost int

	// Access has the identities of the access file; nil: there is none, and every client may do
	// everything.
	Access *access.Identities

	// After calls f after that time, unless it is stopped: time.AfterFunc, except in tests.
	After func(d time.Duration, f func()) (stop func() bool)

	// Draining means that new jobs are refused.
	Draining atomic.Bool

	Handshakes Handshakes // of clients with TLS

	connectionMemory atomic.Int64 // the operator's bound, in bytes; see BoundConnections
	bodies           bodyPlaces
	kinds            int // of commands, of all fronts
	errors           int // of replies, of all fronts

	mu     sync.Mutex // held to write loops and fronts
	loops  atomic.Pointer[[]*Loop]
	fronts atomic.Pointer[[]Front] // in the order of their first connections

	numbers  atomic.Uint64 // the newest session's number; see numberFor
	rejected [NumRejections]atomic.Uint64

	quietUntil atomic.Int64 // Complain logs nothing before this time of Clock.Awake
	suppressed atomic.Uint64
}

const (
	// LoopsMax is the most loops that a Host may have.
	LoopsMax = 1024
	// frontsMax is how many protocols a Host may have.
	frontsMax = 8
)

// NewHost makes a Host with an Account that has a bound in bytes. The caller must set the other
// exported fields.
func NewHost(bound int64) *Host {
	h := &Host{After: func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }, Account: newAccount(bound), bodies: bodyPlaces{most: bound / bodiesPart, inside: make(map[*Session]bodyStay)}}
	h.connectionMemory.Store(bound)
	h.loops.Store(new([]*Loop))
	h.fronts.Store(new([]Front))
	return h
}

// Base reserves counters for the commands and errors of a front, and returns the first index of
// each. It is called once for each front, before there is a loop.
func (h *Host) Base(kinds, errors int) (base, errorBase int) {
	base, errorBase = h.kinds, h.errors
	h.kinds += kinds
	h.errors += errors
	return base, errorBase
}

// add appends a new loop to the list, and returns its index.
func (h *Host) add(l *Loop) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := append(slices.Clone(*h.loops.Load()), l)
	h.loops.Store(&all)
	return len(all) - 1
}

// Loops returns all loops. The caller must not change the list.
func (h *Host) Loops() []*Loop { return *h.loops.Load() }

// indexOf returns the index of a front in Host.fronts, and adds it if it is new.
func (h *Host) indexOf(f Front) uint8 {
	if i := slices.Index(*h.fronts.Load(), f); i >= 0 {
		return uint8(i)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all := *h.fronts.Load()
	i := slices.Index(all, f)
	if i < 0 {
		i = len(all)
		if i == frontsMax {
			panic(fmt.Sprintf("session: %q is one protocol more than %d", f.Name(), frontsMax))
		}
		all = append(slices.Clone(all), f)
		h.fronts.Store(&all)
	}
	return uint8(i)
}

// numberFor returns the number of a new session on a loop: the next number from which LoopOf
// finds the loop. So numbers rise in the order of connections.
func (h *Host) numberFor(loop int) uint64 {
	loops := uint64(len(h.Loops()))
	for {
		last := h.numbers.Load()
		next := last + 1 + (uint64(loop)+loops-(last+1)%loops)%loops
		if h.numbers.CompareAndSwap(last, next) {
			return next
		}
	}
}

// LoopOf returns the loop that has the session with a number, if any has; nil: there are no
// loops. All loops must exist before the first connection.
func (h *Host) LoopOf(number uint64) *Loop {
	loops := h.Loops()
	if len(loops) == 0 {
		return nil
	}
	return loops[number%uint64(len(loops))]
}

// Wake makes the loops check their waiting sessions, after a commit was acknowledged or the log
// has room again. Any goroutine may call it.
func (h *Host) Wake() {
	for _, l := range h.Loops() {
		l.lookAtGate()
	}
}

// complainEvery limits how often clients can make the server log.
const complainEvery = time.Second

// Complain logs a warning about clients or limits, at most once a second.
func (h *Host) Complain(msg string, args ...any) {
	now := int64(h.Clock.Awake())
	until := h.quietUntil.Load()
	if now < until || !h.quietUntil.CompareAndSwap(until, now+int64(complainEvery)) {
		h.suppressed.Add(1)
		return
	}
	if n := h.suppressed.Swap(0); n > 0 {
		args = append(args, "suppressed", n)
	}
	h.Log.Warn(msg, args...)
}
