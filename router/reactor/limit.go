package reactor

import (
	"net"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"polystalk/router/session"
)

// A connectionLimit is the largest number of connections, and its source.
type connectionLimit struct {
	n     int
	from  string
	asked bool // the operator has set it
}

// ConnectionLimit returns the largest number of connections and, for people, its source.
func (r *Reactor) ConnectionLimit() (n int, from string) {
	l := r.limit.Load()
	return l.n, l.from
}

// ConnectionLimitOf returns the largest number of connections if each needs that many descriptors.
// It is at most the limit of ConnectionLimit.
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

// reject counts and logs a client above the limit.
func (r *Reactor) reject(client net.Addr) {
	limit := r.limit.Load()
	r.host.CountRejection(session.RejectedLimit)
	r.host.Complain(complaintRefused, "conn", session.Remote{Addr: client}, "limit", limit.n, "from", limit.from)
}

func (r *Reactor) setLimit(l connectionLimit) { r.limit.Store(&l) }

// warnIfFewer logs a warning if there are too few descriptors for want connections.
func (r *Reactor) warnIfFewer(want int) {
	if limit := r.limit.Load(); want > limit.n {
		r.host.Log.Warn("the limit of descriptors allows fewer connections than --max-connections; raise it (ulimit -n, LimitNOFILE)",
			"max-connections", want, "served", limit.n)
	}
}

// limitOf returns MaxConnections, or the limit by descriptors if it is smaller or MaxConnections
// is 0.
func (o *Options) limitOf(descriptors int) connectionLimit {
	want := o.MaxConnections
	if n := o.connectionsFor(descriptors); want == 0 || want > n {
		return connectionLimit{n: n, from: "the limit of " + strconv.Itoa(descriptors) + " descriptors"}
	}
	return connectionLimit{want, "--max-connections", true}
}

// descriptors returns the process's limit of descriptors.
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
	// A loop has its poller, the poller's bell and two of its waker; and, for a short time,
	// one of a connection that is rejected or detached.
	descriptorsLoop     = 5
	descriptorsAcceptor = 1 // for each loop and listener
	// listenersMost is the number of listeners for which descriptors are reserved.
	listenersMost = 4
)

// connectionsFor returns how many connections the descriptors allow. It reserves descriptors for
// everything else, because clients must not prevent the server from writing its journal.
func (o *Options) connectionsFor(descriptors int) int {
	other := descriptorsBase + descriptorsNotifier + listenersMost*descriptorsListener +
		o.Loops*(descriptorsLoop+listenersMost*descriptorsAcceptor) + o.OtherDescriptors
	return max(1, descriptors-other)
}

// seats counts the connections, including those being accepted.
type seats struct {
	taken atomic.Int64
	full  atomic.Bool // accepting has stopped until a seat is released
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

// giveUpSeat releases a seat, and makes the loops accept again if they have stopped.
func (r *Reactor) giveUpSeat() {
	s := &r.seats
	s.taken.Add(-1)
	if s.full.Load() && s.full.CompareAndSwap(true, false) {
		r.openAcceptors()
	}
}
