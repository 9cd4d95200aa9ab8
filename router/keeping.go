package router

import (
	"cmp"
	"runtime/debug"
	"slices"
	"time"
)

// keeping is what one session has the server keep, as the account knows it: its held
// input, its unfinished body and its replies that wait for a commit, in bytes of
// memory. What a socket did not take is counted where it is, in its sendQueue.
type keeping struct {
	bytes int
	at    int  // position in loop.keepers plus one; zero: it keeps nothing
	large bool // it is in the bodyRoom, or waits for it
}

// Under pressure a connection may keep less, see memory.Account.Allow: heldLeast of input,
// which is more than the longest beginning of a command, unsentLeast of replies, and
// flushLeast of them are written at once.
const (
	heldLeast   = 32 << 10
	unsentLeast = 8 << 10
	flushLeast  = 16 << 10
)

// keepStep bytes of change on a loop are worth telling the account, which all loops
// share.
const keepStep = 32 << 10

// keep counts n bytes more, or fewer, for the session.
func (s *session) keep(n int) {
	l := s.loop
	s.kept.bytes += n
	l.keepChange += n
	if l.keepChange >= keepStep || l.keepChange <= -keepStep {
		l.srv.acct.Add(l.keepChange)
		l.keepChange = 0
	}
	if (s.kept.at == 0) == (s.kept.bytes > 0) {
		s.listKeeper()
	}
}

// listKeeper has the session on the loop's list of those that keep something, or not.
func (s *session) listKeeper() {
	l := s.loop
	keeps := s.kept.bytes > 0 || s.conn.Unsent() > 0
	switch {
	case keeps && s.kept.at == 0:
		l.keepers = append(l.keepers, s)
		s.kept.at = len(l.keepers)
	case !keeps && s.kept.at > 0:
		n := len(l.keepers) - 1
		last := l.keepers[n]
		l.keepers[s.kept.at-1] = last
		last.kept.at = s.kept.at
		l.keepers[n] = nil
		l.keepers = l.keepers[:n]
		s.kept.at = 0
	}
}

// heldMax, unsentMax and flushAt are what the session may keep now of each.
func (s *session) heldMax() int {
	srv := s.loop.srv
	return srv.acct.Allow(srv.heldMax, min(srv.heldMax, heldLeast))
}

func (s *session) unsentMax() int { return s.loop.srv.acct.Allow(unsentMax, unsentLeast) }

// A keeper is a session that may have to go.
type keeper struct {
	s            *session
	unsent, held int
}

// worse puts those first that leave the most unread, then those that keep the most.
func (k keeper) worse(o keeper) int {
	if k.reads() != o.reads() {
		if o.reads() {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(o.unsent+o.held, k.unsent+k.held), cmp.Compare(k.s.kept.at, o.s.kept.at))
}

// reads: what it leaves unread does not amount to anything.
func (k keeper) reads() bool { return k.unsent <= blockMax }

// keepWithin sheds while the sum is above the bound, and has the collector run more
// often while it is high, until quit is closed: what is counted is in use, and with what
// the collector leaves lying it would be twice as much.
func (s *Server) keepWithin(high <-chan struct{}, quit <-chan struct{}) {
	usual := 0 // of GOGC, while another is set
	tick := time.NewTicker(calmEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
			s.hurry()
			if usual != 0 && s.acct.Sum() < s.acct.Bound/4 {
				debug.SetGCPercent(usual)
				usual = 0
			}
			continue
		case <-high:
		}
		if usual == 0 {
			if usual = debug.SetGCPercent(tightPercent); usual >= 0 && usual < tightPercent {
				debug.SetGCPercent(usual)
			}
		}
		for s.acct.Excess() > 0 {
			s.shed()
			select {
			case <-quit:
				return
			case <-time.After(shedEvery): // those who were told have their turns
			}
		}
	}
}

const (
	// garbagePart of the bound is for what the collector leaves lying, and for what
	// a connection takes by itself; the account has the rest.
	garbagePart = 4
	// tightPercent is GOGC while the sum is high.
	tightPercent = 20
	// calmEvery is how often it is looked whether it still is.
	calmEvery = 2 * time.Second
)

// shedEvery is how long those who are cut off have for it before others are.
const shedEvery = 10 * time.Millisecond

// shed cuts off the worst of all connections, until what is left is within the bound
// if all of them go. It waits for the loops, and must not be called by one.
func (s *Server) shed() {
	excess := s.acct.Excess()
	if excess <= 0 {
		return
	}
	excess += s.acct.Bound / shedMargin
	var all []keeper
	s.mu.Lock()
	loops := slices.Clone(s.loops)
	s.mu.Unlock()
	for _, l := range loops {
		l.own.Lock()
		for _, k := range l.keepers {
			all = append(all, keeper{k, k.conn.Unsent(), k.kept.bytes})
		}
		l.own.Unlock()
	}
	slices.SortFunc(all, keeper.worse)
	for _, k := range all {
		if excess <= 0 {
			return
		}
		excess -= int64(max(k.unsent+k.held, 1))
		k.s.loop.signal(k.s, func(s *session) { s.cutOff(k.unsent, k.held) })
	}
}

// shedMargin is the part of the bound that is made free at once.
const shedMargin = 16

// cutOff closes a connection since all together keep too much.
func (s *session) cutOff(unsent, held int) {
	if s.kept.at == 0 {
		return // it has read meanwhile, or is gone
	}
	s.loop.srv.complain("closing a connection: all together keep more than they may",
		"conn", s, "unsent", unsent, "held", held, "bound", s.loop.srv.cfg.ConnectionMemory)
	if s.phase >= phaseClosing {
		s.conn.Drop() // of its last replies
		return
	}
	s.abort()
}
