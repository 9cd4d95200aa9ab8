package wal

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"polystalk/shard/wal/space"
)

// A keeper prepares segments before they are needed, gives up old ones, and asks the disk how
// much is free. It is one goroutine; with Options.Manual the caller of Tend runs it. Before Lead
// it prepares segments, and gives up only segments below a Floor of the leader.
type keeper struct {
	*parts
	tending sync.Mutex // held by tend and lead
	leading bool       // guarded by tending

	round    space.Round   // of compaction
	migrated atomic.Uint64 // jobs that compaction has copied, or found ended
	lowering lowering      // the progress of giving up a segment of a replicated log
}

// fullRetry is the maximum time between two tends, and so how often a full disk is checked again.
const fullRetry = space.Retry

// run tends until the journal is closed or fails: it is the keeper's goroutine.
func (k *keeper) run() {
	defer func() {
		s := k.segments
		s.mu.Lock()
		s.alone = true
		s.changed.Broadcast()
		s.mu.Unlock()
	}()
	timer := time.NewTimer(fullRetry)
	defer timer.Stop()
	for {
		select {
		case <-k.quit:
			return
		case <-k.wakeKeeper:
		case <-timer.C:
			if k.committer.Requested() {
				k.committer.Wake() // no session waits for these records, but they must become durable
			}
		}
		if err := k.tend(); err != nil {
			return
		}
		timer.Reset(fullRetry)
	}
}

// lead makes the keeper do all its work from now on. When it returns, the segments that are
// needed at once are prepared, as far as there is space.
func (k *keeper) lead() error {
	k.tending.Lock()
	defer k.tending.Unlock()
	k.measure()
	k.committer.UpdatePressure()
	for k.segments.anotherWanted() {
		if k.preparer.add() != nil {
			break
		}
	}
	if err := k.committer.Err(); err != nil {
		return err
	}
	_, err := k.preparer.openNext()
	k.leading = err == nil
	return err
}

// tend does all pending work. Only the keeper calls it. An error has already ended the journal.
func (k *keeper) tend() error {
	k.tending.Lock()
	defer k.tending.Unlock()
	step := k.step
	switch {
	case !k.leading:
		step = k.stepAside
	case k.entries != nil:
		step = k.stepLog
	}
	for {
		again, err := step()
		if err != nil && !errors.Is(err, ErrStopped) {
			k.committer.Fail(err)
		}
		if err != nil || !again {
			return err
		}
	}
}

// stepAside is step before the journal leads.
func (k *keeper) stepAside() (again bool, err error) {
	if err := k.committer.Err(); err != nil {
		return false, err
	}
	if again, err := k.giveUpBelow(); again || err != nil {
		return again, err
	}
	wanted, _ := k.look()
	bound := k.entries != nil && k.entries.learned.Load()
	if added, err := k.addIf(wanted && (!bound || k.segments.anotherAllowed())); added || err != nil {
		return added, err
	}
	_, err = k.preparer.openNext()
	return false, err
}

// step checks everything once, and adds or gives up at most one segment. It reports whether there
// may be more to do.
func (k *keeper) step() (again bool, err error) {
	if err := k.tidy(); err != nil {
		return false, err
	}
	wanted, urgent := k.look()
	compactable := k.compactable(urgent)
	if wanted && compactable && k.mostlyGarbage() {
		// A file that is used again need not be filled, and needs no space.
		return k.tryCompact(true)
	}
	// Exceeding the bound is better than clients that wait for ever.
	stuck := !compactable && k.committer.Pressure() != space.Open
	if added, err := k.addIf(wanted && (stuck || k.segments.anotherAllowed())); added || err != nil {
		return added, err
	}
	if !compactable {
		k.round.End()
		return false, nil
	}
	return k.tryCompact(urgent)
}

// addIf prepares a segment if wanted. Its error has ended the journal.
func (k *keeper) addIf(wanted bool) (added bool, err error) {
	if !wanted {
		return false, nil
	}
	return k.preparer.add() == nil, k.committer.Err()
}

// look reports whether another segment is wanted, and whether giving up an old one is urgent. It
// updates the pressure and the report.
func (k *keeper) look() (wanted, urgent bool) {
	wanted = k.segments.anotherWanted()
	if !wanted && k.ledger.SetFull(false) {
		k.committer.UpdatePressure() // the segment without space is not needed any more
	}
	k.report.tellSpace()
	sums := k.ledger.Sums()
	return wanted, wanted || k.ledger.Full() || k.ledger.FullElsewhere() || sums.OverBound()
}

// tidy does the cheap work: it measures the disk if Fits has asked, notifies sessions that may
// continue, removes surplus spares, and opens the next segment.
func (k *keeper) tidy() error {
	if err := k.committer.Err(); err != nil {
		return err
	}
	if k.ledger.Asked() {
		k.measure()
		k.committer.Notify()
	}
	k.committer.UpdatePressure()
	if sums := k.ledger.Sums(); sums.Wanted > 0 {
		k.committer.Notify() // perhaps a promise was given back
	}
	if err := k.preparer.trim(); err != nil {
		return err
	}
	_, err := k.preparer.openNext()
	return err
}

// measure asks the disk for its free space, limited so that sums do not overflow.
func (k *keeper) measure() { k.ledger.Measured(min(k.disk.Free(), 1<<60)) }

// tryCompact gives up the oldest segment, or postpones that if it is impossible now. It reports
// whether to continue.
func (k *keeper) tryCompact(urgent bool) (again bool, err error) {
	compact := k.compact
	if k.entries != nil {
		compact = k.beginLowering
	}
	switch err := compact(urgent); {
	case err == nil:
		return true, nil
	case errors.Is(err, errPinned):
		k.round.End()
		return true, nil
	case errors.Is(err, errNoCopy):
		k.postpone()
		return true, nil
	case passing(err):
		k.report.warn("an old segment cannot be removed now; trying again", err)
		return false, nil
	default:
		return false, err
	}
}

// feedCommitter prepares a segment for a committer that waits for one. The keeper calls it while
// it waits for a commit.
func (k *keeper) feedCommitter() {
	if k.segments.noSpare() && k.preparer.add() != nil {
		k.pause(fullRetry)
		return
	}
	switch ready, err := k.preparer.openNext(); {
	case err != nil:
		k.committer.Fail(err)
	case !ready:
		k.pause(fullRetry)
	}
}

// pause waits for d. It reports false if the journal is being closed.
func (k *keeper) pause(d time.Duration) bool {
	select {
	case <-k.quit:
		return false
	case <-time.After(d):
		return true
	}
}

// A waker wakes the one goroutine that receives from it. Two wake-ups before it receives count as
// one.
type waker chan struct{}

func newWaker() waker { return make(waker, 1) }

// wake never blocks. Any goroutine may call it.
func (w waker) wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// clear removes a pending wake-up.
func (w waker) clear() {
	select {
	case <-w:
	default:
	}
}
