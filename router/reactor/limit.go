package reactor

import (
	"net"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"polystalk/router/session"
)

// A connectionLimit is how many clients are served at a time, and where that comes from.
type connectionLimit struct {
	n     int
	from  string
	asked bool // the operator has set it
}

// ConnectionLimit returns how many clients are served at a time, and, for people, where that
// comes from.
func (r *Reactor) ConnectionLimit() (n int, from string) {
	l := r.limit.Load()
	return l.n, l.from
}

// ConnectionLimitOf returns how many clients there may be at a time if each takes that many
// descriptors: as many as are served, unless there are too few descriptors.
func (r *Reactor) ConnectionLimitOf(each int) int {
	return min(r.limit.Load().n, max(1, r.opts.connectionsFor(descriptors())/each))
}

// SetMaxConnections changes Options.MaxConnections. Connected clients stay; with a higher
// limit, clients in the backlog are accepted.
func (r *Reactor) SetMaxConnections(n int) {
	o := r.opts
	o.MaxConnections = n
	r.setLimit(o.limitOf(descriptors()))
	r.warnIfFewer(n)
	r.openAcceptors()
}

// reject counts a client above the limit, and tells the operator.
func (r *Reactor) reject(client net.Addr) {
	limit := r.limit.Load()
	r.host.CountRejection(session.RejectedLimit)
	r.host.Complain(complaintRefused, "conn", session.Remote{Addr: client}, "limit", limit.n, "from", limit.from)
}

func (r *Reactor) setLimit(l connectionLimit) { r.limit.Store(&l) }

// warnIfFewer tells the operator that there are too few descriptors.
func (r *Reactor) warnIfFewer(want int) {
	if limit := r.limit.Load(); want > limit.n {
		r.host.Log.Warn("the limit of descriptors allows fewer connections than --max-connections; raise it (ulimit -n, LimitNOFILE)",
			"max-connections", want, "served", limit.n)
	}
}

// limitOf returns MaxConnections, unless that is 0 or more than the descriptors allow.
func (o *Options) limitOf(descriptors int) connectionLimit {
	want := o.MaxConnections
	if n := o.connectionsFor(descriptors); want == 0 || want > n {
		return connectionLimit{n: n, from: "the limit of " + strconv.Itoa(descriptors) + " descriptors"}
	}
	return connectionLimit{want, "--max-connections", true}
}

// descriptors returns the process's limit.
func descriptors() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 1024
	}
	return int(min(r.Cur, 1<<30))
}

// Descriptors that the server needs besides the connections.
const (
	// descriptorsBase are for standard streams, the log, the runtime's poller, profiles and
	// the directories of unix sockets.
	descriptorsBase     = 16
	descriptorsNotifier = 2
	descriptorsListener = 1
	// A loop has its poller, the poller's bell and a waker of two; and for a moment one
	// connection that is turned away, or that goes on without gnet.
	descriptorsLoop     = 5
	descriptorsAcceptor = 1 // for each loop and listener
	// listenersMost are counted with.
	listenersMost = 4
)

// connectionsFor leaves descriptors for all else, the journal included: clients must not keep
// the server from writing.
func (o *Options) connectionsFor(descriptors int) int {
	other := descriptorsBase + descriptorsNotifier + listenersMost*descriptorsListener +
		o.Loops*(descriptorsLoop+listenersMost*descriptorsAcceptor) + o.OtherDescriptors
	return max(1, descriptors-other)
}

// seats count the connections, open or about to be.
type seats struct {
	taken atomic.Int64
	full  atomic.Bool // clients wait until a seat is given up
}

// take takes a seat, unless the limit is reached.
func (s *seats) take(limit int64) bool {
	for {
		taken := s.taken.Load()
		if taken >= limit {
			return false
		}
		if s.taken.CompareAndSwap(taken, taken+1) {
			return true
		}
	}
}

// giveUpSeat takes a connection off the count, and has one accepted for it.
func (r *Reactor) giveUpSeat() {
	s := &r.seats
	s.taken.Add(-1)
	if s.full.Load() && s.full.CompareAndSwap(true, false) {
		r.openAcceptors()
	}
}
