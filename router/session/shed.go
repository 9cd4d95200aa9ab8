package session

import (
	"cmp"
	"runtime/debug"
	"slices"
	"time"
)

// A debtor is a session that may have to go.
type debtor struct {
	s            *Session
	unsent, held int
}

// worse puts those first that leave the most unread, then those that keep the most.
func (d debtor) worse(o debtor) int {
	if d.reads() != o.reads() {
		if o.reads() {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(o.unsent+o.held, d.unsent+d.held), cmp.Compare(d.s.charge.at, o.s.charge.at))
}

// reads: what it leaves unread does not amount to anything.
func (d debtor) reads() bool { return d.unsent <= unreadLeast }

// unreadLeast bytes of unread replies are what a connection that reads may leave at any
// time: one block of what its socket did not take.
const unreadLeast = 64 << 10

const (
	// GarbagePart of the bound is for what the collector leaves lying, and for what a
	// connection takes by itself; the account has the rest.
	GarbagePart = 4
	// tightPercent is GOGC while the sum is high.
	tightPercent = 20
	// calmEvery is how often it is looked whether it still is.
	calmEvery = 2 * time.Second
	// shedEvery is how long those who are cut off have for it before others are.
	shedEvery = 10 * time.Millisecond
	// shedMargin is the part of the bound that is made free at once.
	shedMargin = 16
)

// KeepWithin sheds while the sum is above the bound, and has the collector run more often
// while it is high, until quit is closed: what is counted is in use, and with what the
// collector leaves lying it would be twice as much.
func (h *Host) KeepWithin(quit <-chan struct{}) {
	usual := 0 // of GOGC, while another is set
	tick := time.NewTicker(calmEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
			h.Hurry()
			if usual != 0 && h.Account.Low() {
				debug.SetGCPercent(usual)
				usual = 0
			}
			continue
		case <-h.Account.High():
		}
		if usual == 0 {
			if usual = debug.SetGCPercent(tightPercent); usual >= 0 && usual < tightPercent {
				debug.SetGCPercent(usual)
			}
		}
		for h.Account.Excess() > 0 {
			h.Shed()
			select {
			case <-quit:
				return
			case <-time.After(shedEvery): // those who were told have their turns
			}
		}
	}
}

// Shed cuts off the worst of all connections, until what is left is within the bound if
// all of them go. It waits for the loops, and must not be called by one.
func (h *Host) Shed() {
	excess := h.Account.Excess()
	if excess <= 0 {
		return
	}
	excess += h.Account.Bound() / shedMargin
	var all []debtor
	for _, l := range h.Loops() {
		l.own.Lock()
		for _, s := range l.charged.list {
			all = append(all, debtor{s, s.conn.Unsent(), s.charge.bytes})
		}
		l.own.Unlock()
	}
	slices.SortFunc(all, debtor.worse)
	for _, d := range all {
		if excess <= 0 {
			return
		}
		excess -= int64(max(d.unsent+d.held, 1))
		d.s.loop.Signal(d.s, func(s *Session) { s.cutOff(d.unsent, d.held) })
	}
}
