package journal

import (
	"errors"
	"time"
)

// poke has the keeper look.
func (j *Journal) poke() {
	select {
	case j.tend <- struct{}{}:
	default:
	}
}

// fullRetry is how often a full disk is looked at again.
const fullRetry = 200 * time.Millisecond

func (j *Journal) runKeeper() {
	defer j.running.Done()
	defer func() {
		j.mu.Lock()
		j.alone = true
		j.changed.Broadcast()
		j.mu.Unlock()
	}()
	timer := time.NewTimer(fullRetry)
	defer timer.Stop()
	for {
		select {
		case <-j.quit:
			return
		case <-j.tend:
		case <-timer.C:
			if j.awake.Load() {
				j.rouse() // nobody waits for what was recorded, but it is to last
			}
		}
		if err := j.Tend(); err != nil {
			if !errors.Is(err, ErrStopped) {
				j.fail(err)
			}
			return
		}
		timer.Reset(fullRetry)
	}
}

// Tend does what the keeper has to do now: it prepares segments and gives up
// old ones. Only the keeper calls it.
func (j *Journal) Tend() error {
	for {
		j.press()
		if j.roomForWanted() {
			j.notify() // a promise was given back, perhaps
		}
		if err := j.trim(); err != nil {
			return err
		}
		wanted := j.spareWanted()
		urgent := wanted || j.full.Load() || j.overBound()
		compactable := j.compactable(urgent)
		// Rather too much on disk than clients who wait for ever.
		stuck := !compactable && j.Pressure() != Open
		if wanted && compactable && j.mostlyGarbage() {
			// A file that is used again need not be filled, and takes nothing.
			if err := j.compact(true); err != nil {
				return j.unlessPassing(err)
			}
			continue
		}
		if wanted && (stuck || j.spareAllowed()) {
			if j.addSpare() {
				continue
			}
			if err := j.failure(); err != nil {
				return err
			}
		}
		if !compactable {
			j.round.left = 0
			return nil
		}
		if err := j.compact(urgent); err != nil {
			return j.unlessPassing(err)
		}
	}
}

func (j *Journal) unlessPassing(err error) error {
	if passing(err) {
		j.opts.Log.Warn("an old segment cannot be given up now; trying again", "err", err)
		return nil
	}
	return err
}
