package commit

import (
	"sync/atomic"

	"polystalk/shard/wal/space"
)

// A gate decides from the Ledger whether changes are accepted, and notifies the sessions that wait
// for that.
type gate struct {
	ledger    *space.Ledger
	committer *committer
	notified  atomic.Uint64
	tell      func() // Options.Notify; nil: nothing waits
}

// UpdatePressure sets the pressure, and notifies if changes are now accepted or refused. The
// caller must own no shard and have no Log open, since a notified session may continue at once.
func (g *gate) UpdatePressure() {
	p, tight := g.ledger.Pressure()
	if g.committer.setPressure(p, tight) && p != Wait {
		g.Notify()
	}
}

// tightenPressure is UpdatePressure for a caller with an open Log: it never notifies.
func (g *gate) tightenPressure() {
	if p, tight := g.ledger.Pressure(); p != Open {
		g.committer.setPressure(p, tight)
	}
}

// Notify wakes sessions that wait for space: there may be some, or they will be refused.
func (g *gate) Notify() {
	g.notified.Add(1)
	g.notifyAcked()
}

// notifyAcked wakes sessions that wait for a commit. It does not increase notified, since sessions
// that wait for space need not ask again.
func (g *gate) notifyAcked() {
	if g.tell != nil {
		g.tell()
	}
}

// Fits implements Storage.
func (j *Journal) Fits(c *Claim, n int64) Pressure {
	if j.Pressure() == Wait {
		return Wait
	}
	if j.ledger.FullElsewhere() {
		c.Fitting = false
		return Full
	}
	p, ask := j.ledger.Fits(c, n)
	if ask {
		j.WakeKeeper()
	}
	return p
}

// Claim implements Storage. After Wait the keeper makes room, even beyond the bound of the
// directory. If it finds none, the claim is refused.
func (j *Journal) Claim(c *Claim, n int64) Pressure {
	if j.ledger.FullElsewhere() {
		j.Release(c)
		return Full
	}
	p, changed := j.ledger.Claim(c, n, j.Pressure() == Open)
	if changed {
		j.WakeKeeper()
	}
	return p
}

// Release implements Storage. The next claim can use the released bytes; the keeper notifies
// waiting claims.
func (j *Journal) Release(c *Claim) {
	if *c == (Claim{}) {
		return
	}
	j.ledger.Release(c)
	if sums := j.ledger.Sums(); j.Pressure() != Open || sums.Wanted > 0 || j.ledger.Full() {
		j.WakeKeeper()
	}
}

// FullWith reports whether changes would be refused if only room bytes could be written: at
// another server that stores the same journal.
func (j *Journal) FullWith(room int64) bool { return j.ledger.FullWith(room) }

// FullHere reports whether changes are refused because of this server's own disk. It does not
// access the disk: it uses the last attempt to prepare a segment.
func (j *Journal) FullHere() bool { return j.ledger.FullHere() }

// SetRoomElsewhere tells a leader how many bytes of room a majority of the other servers had at
// some moment since the call before the last. Changes are refused when that room is used up, as if
// this disk were full. Deletes are still accepted, so no majority runs out of space for deletes.
// math.MaxInt64 means no limit. It reports whether changes are refused for this reason.
func (j *Journal) SetRoomElsewhere(n int64) (full bool) {
	before := j.ledger.FullElsewhere()
	j.ledger.SetElsewhere(n)
	j.UpdatePressure()
	if full = j.ledger.FullElsewhere(); before != full {
		j.Notify() // sessions that wait are refused, or let in
		j.WakeKeeper()
	}
	return full
}
