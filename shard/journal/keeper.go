package journal

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"polystalk/shard/commit"
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
			return
		}
		timer.Reset(fullRetry)
	}
}

// Tend does what the keeper has to do now: it prepares segments and gives up
// old ones. Only the keeper calls it. An error has ended the journal when it
// returns.
func (j *Journal) Tend() error {
	err := j.tidy()
	if err != nil && !errors.Is(err, ErrStopped) {
		j.fail(err)
	}
	return err
}

func (j *Journal) tidy() error {
	for {
		if err := j.failure(); err != nil {
			return err
		}
		if j.disk.hand.short() {
			j.disk.hand.fill()
		}
		j.measureSpace()
		j.press()
		if j.wants.Load() > 0 {
			j.notify() // a promise was given back, perhaps
		}
		if err := j.trim(); err != nil {
			return err
		}
		if _, err := j.openNext(); err != nil {
			return err
		}
		wanted := j.spareWanted()
		if !wanted && j.full.Swap(false) {
			j.press() // nobody needs what there was no space for
		}
		j.tellSpace()
		urgent := wanted || j.full.Load() || j.overBound()
		compactable := j.compactable(urgent)
		// Rather too much on disk than clients who wait for ever.
		stuck := !compactable && j.Pressure() != commit.Open
		if wanted && compactable && j.mostlyGarbage() {
			// A file that is used again need not be filled, and takes nothing.
			if err := j.compact(true); err != nil && !errors.Is(err, errNoCopy) {
				return j.unlessPassing(err)
			} else if err != nil {
				j.postpone()
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
		if err := j.compact(urgent); err != nil && !errors.Is(err, errNoCopy) {
			return j.unlessPassing(err)
		} else if err != nil {
			j.postpone()
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

// told is what the log was told about the disk's space.
type told struct {
	mu     sync.Mutex
	full   bool
	at     time.Time // … when
	warned time.Time // of what passes
	reason error     // why there was no space
}

// tellEvery is how often the log is told at most. What it was told last is true, or
// will be corrected.
const tellEvery = time.Second

// tellSpace tells the log when there is no space that is wanted, and when there is again.
func (j *Journal) tellSpace() {
	t, full := &j.told, j.full.Load()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.full == full || !full && j.Pressure() != commit.Open || !t.at.IsZero() && time.Since(t.at) < tellEvery {
		return
	}
	t.full, t.at = full, time.Now()
	if t.full {
		j.opts.Log.Error("the disk is full: changes for which there is no space left are refused; deleting goes on", "err", t.reason)
	} else {
		j.opts.Log.Info("there is space again: changes are taken")
	}
}

// warnEvery is how often the log is told of what passes.
const warnEvery = 10 * time.Second

func (t *told) warn(log *slog.Logger, msg string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.warned.IsZero() || time.Since(t.warned) > warnEvery {
		t.warned = time.Now()
		log.Warn(msg, "err", err)
	}
}

// because notes why there is no space.
func (t *told) because(err error) {
	t.mu.Lock()
	t.reason = err
	t.mu.Unlock()
}
