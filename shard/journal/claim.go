package journal

import "polystalk/shard/commit"

// Fits implements commit.Storage.
func (j *Journal) Fits(c *commit.Claim, n int64) commit.Pressure {
	if j.Pressure() == commit.Wait {
		return commit.Wait
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
