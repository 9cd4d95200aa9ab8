package member

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// lookEvery is the interval of the health loop.
const lookEvery = time.Second

// watch is the health loop, a goroutine that ends with Close. It passes each change of the leader or
// the members to the other parts at once. Every second it checks the certificate, the leader, this
// server's place in the cluster, the disks, and the learners. These checks may wait for a busy node,
// so they run on another goroutine.
func (m *Member) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var h health
	var known cluster.View
	var looking task
	started := m.started
	for {
		var v cluster.View
		var changed <-chan struct{}
		if n := m.node.Load(); n != nil {
			v, changed = n.View()
		}
		if v != known {
			known = v
			m.links.setView(&v)
			m.clients.setLeader(&v)
			h.leadership.note(&v, m.id.Node, time.Now(), m.log)
		}
		select {
		case <-m.ctx.Done():
			return
		case <-started:
			started = nil
		case <-changed:
		case now := <-tick.C:
			h.leadership.look(now, max(leaderlessMin, leaderlessTimeouts*m.o.Config.Cluster.Timeout), m.log)
			looking.start(func() { m.look(&h, now) })
		}
	}
}

// health is the state of the loop. leadership belongs to the loop, the other fields to its looks.
type health struct {
	leadership leadership
	expiry     expiryWatch
	space      spaceWatch
	learners   learners
	place      place
	rules      rulesWatch
}

// look makes the checks of one second.
func (m *Member) look(h *health, now time.Time) {
	if s := m.links.security; s != nil {
		e := s.Expiry()
		if msg := h.expiry.look(e, now); msg != "" {
			m.log.Warn(msg, "from", m.o.Config.Origin(e.Flag), "file", e.File, "until", e.At.UTC(), "remedy", expiryRemedy(e.Flag))
		}
	}
	n, v := m.view()
	if n == nil {
		return
	}
	ctx, cancel := context.WithTimeout(m.ctx, statusWithin)
	defer cancel()
	s, err := n.Status(ctx)
	if err != nil {
		return // the node is busy, or has ended
	}
	q := m.newQuorum(&s, m.links.transport.Status())
	h.rules.look(m, &v, now)
	h.place.look(m, n, &v, v.Leader == m.id.Node || isHeard(v.Leader, q.links, &s, q.within), now)
	if ready := h.learners.look(&s); len(ready) > 0 {
		h.learners.promoting.start(func() { m.promote(n, ready) })
	}
	if !s.Leads {
		q = nil
	}
	h.space.look(m, n, q)
}

// A task runs concurrently with the health loop, one run at a time.
type task struct{ running atomic.Bool }

// start runs f on a goroutine, unless the previous run has not ended.
func (t *task) start(f func()) {
	if t.running.CompareAndSwap(false, true) {
		go func() {
			defer t.running.Store(false)
			f()
		}()
	}
}

const (
	placeFirst = time.Second     // without a leader, before the others are asked
	placeMost  = 8 * time.Second // between questions, which become rarer
)

// A place asks the others where this server belongs, while it hears no leader or has another address
// than the members know. It ends the Member once this server was removed, or once another process
// has its place.
type place struct {
	asking task
	wait   time.Duration
	next   time.Time // when the others are asked again
}

func (p *place) look(m *Member, n *cluster.Node, v *cluster.View, hearsLeader bool, now time.Time) {
	one := v.Members.Find(m.id.Node)
	moved := one != nil && one.Addr != m.o.Config.Cluster.Advertise
	switch {
	case !moved && hearsLeader:
		p.wait, p.next = placeFirst, now.Add(placeFirst)
		return
	case now.Before(p.next):
		return
	}
	if p.wait = max(placeFirst, min(2*p.wait, placeMost)); moved {
		p.wait = placeFirst
	}
	p.next = now.Add(p.wait)
	members, leads := v.Members, v.Leads
	p.asking.start(func() {
		ctx, cancel := context.WithTimeout(m.ctx, moveWithin)
		defer cancel()
		var err error
		if leads {
			err = n.Change(ctx, cluster.Change{Kind: cluster.Move, Member: cluster.Member{ID: m.id.Node, Addr: m.o.Config.Cluster.Advertise}})
		} else {
			err = m.settle(ctx, members)
		}
		if isFinal(err) {
			m.over(err)
		} else if err != nil {
			m.log.Debug("this server is not where it belongs yet; trying again", "err", err)
		}
	})
}

// The time without a leader after which a warning is logged. An election takes one to two timeouts,
// and must sometimes be repeated.
const (
	leaderlessMin      = 10 * time.Second
	leaderlessTimeouts = 4
)

// leadership logs changes of the leader.
type leadership struct {
	leader, term uint64    // as logged last
	lost         time.Time // since when no server leads; zero: one does
	warned       bool      // the warning was logged
}

// note logs each new leader and each election, and records when the leader is lost. This server logs
// its own lead once it serves.
func (l *leadership) note(v *cluster.View, self uint64, now time.Time, log *slog.Logger) {
	if v.Leader == 0 {
		if l.lost.IsZero() {
			l.lost = now
		}
		return
	}
	l.lost, l.warned = time.Time{}, false
	if v.Leader == l.leader && v.Term == l.term {
		return
	}
	l.leader, l.term = v.Leader, v.Term
	if v.Leader == self {
		return
	}
	name := hex(v.Leader)
	if one := v.Members.Find(v.Leader); one != nil {
		name = one.Name
	}
	log.Info("another server leads: clients are forwarded to it", "node", name, "term", v.Term)
}

// look warns once when no server has led for wait.
func (l *leadership) look(now time.Time, wait time.Duration, log *slog.Logger) {
	if !l.lost.IsZero() && !l.warned && now.Sub(l.lost) >= wait {
		l.warned = true
		log.Warn("no server of the cluster leads: clients wait until a majority of the voters is connected", "for", wait)
	}
}

// learners finds the learners that have caught up. A voter that has not could prevent a majority.
type learners struct {
	promoting task
	seen      map[uint64]int // looks in a row at which a learner had the commit index of the previous look
	commit    uint64         // at the previous look
	term      uint64
}

// caughtUpLooks is the number of looks in a row at which a learner must have caught up.
const caughtUpLooks = 2

// look returns the learners that have caught up.
func (l *learners) look(s *cluster.Status) (ready []cluster.Member) {
	if !s.Leads || s.Term != l.term || l.seen == nil {
		l.seen, l.commit, l.term = map[uint64]int{}, s.Commit, s.Term
		return nil
	}
	seen := map[uint64]int{}
	for _, one := range s.Members.List {
		p := s.Peer(one.ID)
		if one.Voter || one.Standby || p == nil || !p.Active || p.Match == 0 || p.Match < l.commit {
			continue
		}
		if seen[one.ID] = l.seen[one.ID] + 1; seen[one.ID] >= caughtUpLooks {
			ready = append(ready, one)
		}
	}
	l.seen, l.commit = seen, s.Commit
	return ready
}

// promote makes learners voters.
func (m *Member) promote(n *cluster.Node, ready []cluster.Member) {
	for _, one := range ready {
		ctx, cancel := context.WithTimeout(m.ctx, moveWithin)
		err := n.Change(ctx, cluster.Change{Kind: cluster.Promote, Member: one})
		cancel()
		if err == nil {
			m.log.Info("the server has caught up, and votes from now on", "node", one.Name)
		} else {
			m.limited.WarnContext(transport.WithSubject(m.ctx, one.Name+" "+err.Error()), "a server that has caught up cannot be made a voter; trying again", "node", one.Name, "err", err)
		}
	}
}

const (
	expirySoon  = 21 * 24 * time.Hour // how long before the expiry operators are warned
	expiryAgain = 24 * time.Hour      // between two warnings
)

// Log messages about the certificate.
const (
	logExpires = "the certificate of the cluster expires soon: after that other servers refuse new connections with this one"
	logExpired = "the certificate of the cluster has expired: other servers refuse new connections with this one"
)

// An expiryWatch warns before the certificate ends, and when it does. The zero value has not warned.
type expiryWatch struct {
	of   transport.Expiry
	next time.Time // of the next warning at the earliest
	over bool      // the warning that the certificate has ended was logged
}

// look returns the message to log now, or "". It starts over with another certificate.
func (w *expiryWatch) look(of transport.Expiry, now time.Time) string {
	if of != w.of {
		*w = expiryWatch{of: of}
	}
	switch {
	case w.over, now.Before(w.next), of.At.Sub(now) > expirySoon:
		return ""
	case now.Before(of.At):
		w.next = now.Add(expiryAgain)
		if w.next.After(of.At) {
			w.next = of.At
		}
		return logExpires
	}
	w.over = true
	return logExpired
}

// expiryRemedy returns what an operator must do about an expiring file.
func expiryRemedy(flag string) string {
	if flag == "cluster-ca" {
		return "give all servers another certificate of the authority, then send each SIGHUP"
	}
	return "have the authority sign it again, then send SIGHUP"
}

// Disbelieved implements admin.Cluster.
func (m *Member) Disbelieved() string {
	if m.links.security == nil {
		return ""
	}
	return expiredProblem(m.links.security.Expiry(), time.Now())
}

// expiredProblem says that the certificate has ended; "": it has not.
func expiredProblem(of transport.Expiry, now time.Time) string {
	if now.Before(of.At) {
		return ""
	}
	return fmt.Sprintf("--%s %q was valid until %s, and other servers no longer trust this one: %s",
		of.Flag, of.File, of.At.UTC().Format("2006-01-02 15:04:05 UTC"), expiryRemedy(of.Flag))
}
