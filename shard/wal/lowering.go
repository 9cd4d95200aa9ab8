package wal

import "polystalk/shard/wal/space"

// A lowering is the way on which the oldest segment is given up by all servers that keep a log,
// each of its own files, which may hold more or less than the leader's. All waiting is for
// commits, and nothing is blocked by it:
//
//  1. The leader has copied what lives in its oldest segment. They are waited for: only an entry
//     behind all copies may say that what they were copied from is not needed.
//  2. A Floor is proposed, and waited for: the first entry that counts behind that segment.
//  3. Whoever has applied a Floor, and has it on its disk, gives up its own segments whose
//     entries are all below it; see keeper.giveUpBelow. Files that are missing below a Floor
//     are no damage for a recovery, so no batch has to say before that they may be.
//
// The zero value is that nothing is on its way. It is the keeper's.
type lowering struct {
	stage  loweringStage
	commit uint64 // which is waited for
	behind uint64 // the number of the segment
	floor  uint64 // what was proposed
}

// A loweringStage says what is waited for.
type loweringStage uint8

// The stages.
const (
	idle     loweringStage = iota
	copied                 // the copies
	proposed               // the Floor
	settled                // this server's own disk
)

// byHand reports whether nobody may be waited for: whoever tends is who has others go on.
func (k *keeper) byHand() bool { return k.opts.Manual && k.entries != nil }

// stepLog is step for who leads several servers. What it cannot finish now goes on when a commit
// is, while segments are prepared as they are wanted.
func (k *keeper) stepLog() (again bool, err error) {
	if err := k.tidy(); err != nil {
		return false, err
	}
	k.lower()
	if again, err := k.giveUpBelow(); again || err != nil {
		return again, err
	}
	wanted, urgent := k.look()
	compactable := k.lowering.stage == idle && k.compactable(urgent)
	if wanted && (k.stuck(compactable) || k.segments.anotherAllowed()) {
		if k.preparer.add() == nil {
			return true, nil
		}
		if err := k.committer.Err(); err != nil {
			return false, err
		}
	}
	if !compactable {
		if k.lowering.stage == idle {
			k.round.End()
		}
		return false, nil
	}
	return k.tryCompact(urgent)
}

// stuck reports whether clients wait for space, and nothing will be given up: rather too much on
// disk than clients who wait for ever. What is on its way to others is no want of space.
func (k *keeper) stuck(compactable bool) bool {
	sums := k.ledger.Sums()
	return !compactable && k.lowering.stage == idle && k.committer.Pressure() != space.Open && sums.Available() < sums.Segment/16
}

// beginLowering copies what lives in the oldest segment.
func (k *keeper) beginLowering(urgent bool) error {
	old, err := k.copyOldest(urgent)
	if err != nil {
		return err
	}
	k.lowering = lowering{stage: copied, commit: k.watermark.want(), behind: old.number}
	return nil
}

// lower goes on with what is on its way, as far as commits are.
func (k *keeper) lower() {
	switch l := &k.lowering; {
	case l.stage == idle || !k.watermark.reached(l.commit):
	case l.stage == copied:
		l.floor = k.entries.firstIn(l.behind + 1)
		k.committer.ProposeFloor(l.floor)
		l.stage, l.commit = proposed, k.watermark.want()
	case l.stage == proposed:
		l.stage = settled
		k.entries.giveUp(l.floor)
	}
}

// giveUpBelow gives up the oldest segment if all that counts in it is below a Floor.
func (k *keeper) giveUpBelow() (again bool, err error) {
	s := k.segments
	if k.entries == nil {
		return false, nil
	}
	needed := k.entries.needed()
	s.mu.Lock()
	if len(s.closed) == 0 || s.closed[0].number >= needed {
		s.mu.Unlock()
		return false, nil
	}
	old := s.closed[0]
	s.mu.Unlock()
	closed, ok := s.dropOldest()
	if !ok {
		return false, nil // it is being read
	}
	s.mu.Lock()
	s.oldest = old.number + 1
	s.mu.Unlock()
	k.entries.drop(old.number + 1) // before its file is gone
	if l := &k.lowering; l.stage != idle && old.number >= l.behind {
		*l = lowering{}
		k.round.GivenUp(closed, k.ledger.Sums().Live)
	}
	return true, k.giveUp(old)
}
