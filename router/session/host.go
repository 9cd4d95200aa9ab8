package session

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"polystalk/router/memory"
	"polystalk/router/ops"
	"polystalk/shard/commit"
)

// A Host is what the loops of a server and the sessions on them share. Its exported fields
// are set before there is a loop, and not changed after that.
type Host struct {
	Map     *ops.Map
	Clock   *ops.Clock
	Journal commit.Storage // nil: nothing has to be durable
	Log     *slog.Logger
	// Least is the commit on which whatever is said depends at least; nil: there is none. A
	// server that is one of several has it while it leads: zero as long as no other can, and
	// once one might, a commit that has not begun, which only who leads still gets. It is
	// called on the loops, before each write, and sees to it that the commit comes.
	Least func() uint64

	// Account counts what all connections keep; see BoundConnections.
	Account *memory.Account

	// HeldMost bytes of commands are kept of a session that cannot go on (its reserve
	// waits, its replies are not read, its shard is busy). Then its connection is
	// paused until a quarter of that is left.
	HeldMost int
	// LookMost is how many tubes of a long watch list are looked at at a time.
	LookMost int

	// Draining says that no jobs are taken.
	Draining atomic.Bool

	connectionMemory atomic.Int64 // the bound, in bytes, as the operator has said it
	bodies           *bodyRoom
	kinds            int // of commands, of all fronts
	errors           int // that all fronts may answer with

	mu     sync.Mutex
	loops  atomic.Pointer[[]*Loop]
	fronts atomic.Pointer[[]Front] // in the order in which their first connections came

	numbers  atomic.Uint64 // of the newest connection; see numberFor
	rejected [NumRejections]atomic.Uint64

	quietUntil atomic.Int64 // Complain: a time of Clock.Awake
	suppressed atomic.Uint64
}

const (
	// LoopsMax is the most loops that a Host may have.
	LoopsMax = 1024
	// HeldMax is what Host.HeldMost should be. It is one read of the loop's: to touch a
	// page that is new costs more than the commands in it, so four times as much had a
	// thousand clients that pipeline get on at half the rate.
	HeldMax = 64 << 10
	// BehindMax bytes of commands are kept while a session that could go on waits for
	// its turn: there may be many, and what is read now is not served sooner.
	BehindMax = 48 << 10
)

// NewHost makes a Host whose fields are to be set. Its sessions keep no more than acct
// allows; large bodies, as they are received, have half of that.
func NewHost(acct *memory.Account) *Host {
	h := &Host{Account: acct, bodies: newBodyRoom(acct.Bound() / 2)}
	h.connectionMemory.Store(acct.Bound())
	h.loops.Store(new([]*Loop))
	h.fronts.Store(new([]Front))
	return h
}

// BoundConnections says how many bytes all connections together may make the server keep
// besides jobs. A part of it is left to the collector (GarbagePart); the account has the
// rest, and large bodies have half of that. It may be called at any time, by anyone but a
// loop: who keeps more than a lower bound allows is cut off as if it had come to that by
// itself.
func (h *Host) BoundConnections(bytes int64) {
	h.connectionMemory.Store(bytes)
	bound := bytes - bytes/GarbagePart
	h.Account.SetBound(bound)
	for _, s := range h.bodies.setMost(bound/2, h.Clock.Awake()) {
		s.loop.Signal(s, (*Session).letIn)
	}
}

// Base is from where a front with so many kinds of commands counts them. It is to be
// called once for each front, before there is a loop.
func (h *Host) Base(kinds int) (base int) {
	base = h.kinds
	h.kinds += kinds
	return base
}

// ErrorBase is from where a front that answers with so many errors counts them. It is to be
// called once for each front, in the order of Base, before there is a loop.
func (h *Host) ErrorBase(errors int) (base int) {
	base = h.errors
	h.errors += errors
	return base
}

// add puts a new loop on the list, and returns its index.
func (h *Host) add(l *Loop) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := append(slices.Clone(*h.loops.Load()), l)
	h.loops.Store(&all)
	return len(all) - 1
}

// Loops are all loops that there are by now. They are not to be changed.
func (h *Host) Loops() []*Loop { return *h.loops.Load() }

// Wake has the loops look at what their sessions wait for: a commit was acknowledged, or
// there is room again. It may be called by anyone.
func (h *Host) Wake() {
	for _, l := range h.Loops() {
		l.lookAtGate()
	}
}

// complainEvery bounds what clients can make the server log.
const complainEvery = time.Second

// Complain logs a warning about clients or limits, once a second at most.
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
