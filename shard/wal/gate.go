package wal

import (
	"sync/atomic"

	"polystalk/shard/commit"
	"polystalk/shard/wal/space"
)

// A gate says whether changes are taken, as the space is, and has those notified who wait
// for that.
type gate struct {
	ledger    *space.Ledger
	committer *commit.Committer
	notified  atomic.Uint64
	tell      func() // Options.Notify; nil: nobody waits
}

// updatePressure says whether changes are taken by now, and notifies if they are again, or
// are refused. No shard may be owned and no Log open: who is notified may go on at once.
func (g *gate) updatePressure() {
	p, tight := g.ledger.Pressure()
	if g.committer.SetPressure(p, tight) && p != commit.Wait {
		g.notify()
	}
}

// tightenPressure is updatePressure for who has a Log open: it only ever stops others.
func (g *gate) tightenPressure() {
	if p, tight := g.ledger.Pressure(); p != commit.Open {
		g.committer.SetPressure(p, tight)
	}
}

// notify tells those who wait that something may be there for them, or that there will be
// nothing.
func (g *gate) notify() {
	g.notified.Add(1)
	g.notifyAcked()
}

// notifyAcked tells those who wait that a commit was acknowledged, and does not count: who
// waits for space need not ask again.
func (g *gate) notifyAcked() {
	if g.tell != nil {
		g.tell()
	}
}

// Fits implements commit.Storage.
func (j *Journal) Fits(c *commit.Claim, n int64) commit.Pressure {
	if j.Pressure() == commit.Wait {
		return commit.Wait
	}
	if j.ledger.FullElsewhere() {
		c.Fitting = false
		return commit.Full
	}
	p, ask := j.ledger.Fits(c, n)
	if ask {
		j.keeper.wake()
	}
	return p
}

// Claim implements commit.Storage. While it says Wait the keeper makes room, whatever the
// bound of the directory is, and answers by what it finds.
func (j *Journal) Claim(c *commit.Claim, n int64) commit.Pressure {
	if j.ledger.FullElsewhere() {
		j.Release(c)
		return commit.Full
	}
	p, changed := j.ledger.Claim(c, n, j.Pressure() == commit.Open)
	if changed {
		j.keeper.wake()
	}
	return p
}

// Release implements commit.Storage. Who asks from now on sees what it gives back; who
// waits is told by the keeper.
func (j *Journal) Release(c *commit.Claim) {
	if *c == (commit.Claim{}) {
		return
	}
	j.ledger.Release(c)
	if sums := j.ledger.Sums(); j.Pressure() != commit.Open || sums.Wanted > 0 || j.ledger.Full() {
		j.keeper.wake()
	}
}
