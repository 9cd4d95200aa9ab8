package wal

import "polystalk/shard/wal/space"

// A lowering gives up the oldest segment on all servers of a replicated log. Each server gives
// up its own files; their segments may end at other entries than the leader's. The keeper does
// other work while it waits for the commits of a lowering:
//
//  1. The leader copies the live jobs of its oldest segment, and waits until the copies are
//     committed: only an entry behind all copies may say that the originals are not needed.
//  2. It proposes a Floor, the first entry after that segment, and waits until it is committed.
//  3. A server that has applied a Floor, and has it on its disk, gives up its segments with only
//     entries below the Floor; see keeper.giveUpBelow. To a recovery, missing files below a Floor
//     are no damage, so no batch must say before that they may be missing.
//
// The zero value means that no lowering is in progress. It belongs to the keeper.
type lowering struct {
	stage  loweringStage
	commit uint64 // the commit that it waits for
	behind uint64 // the number of the segment to give up
	floor  uint64 // the index of the proposed Floor
}

// A loweringStage is what the lowering waits for.
type loweringStage uint8

// The stages.
const (
	idle     loweringStage = iota
	copied                 // the commit of the copies
	proposed               // the commit of the Floor
	settled                // the Floor on this server's own disk
)

// byHand reports whether the keeper must not wait, since the caller of Tend makes the commits.
func (k *keeper) byHand() bool { return k.opts.Manual && k.entries != nil }

// stepLog is step for the leader of several servers. A lowering that waits for a commit continues
// in a later call; segments are prepared meanwhile.
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
	if added, err := k.addIf(wanted && (k.stuck(compactable) || k.segments.anotherAllowed())); added || err != nil {
		return added, err
	}
	if !compactable {
		if k.lowering.stage == idle {
			k.round.End()
		}
		return false, nil
	}
	return k.tryCompact(urgent)
}

// stuck reports whether clients wait for space that no compaction will free: then exceeding the
// bound is better than clients that wait for ever. Clients that wait only because many bytes are
// being replicated do not count.
func (k *keeper) stuck(compactable bool) bool {
	sums := k.ledger.Sums()
	return !compactable && k.lowering.stage == idle && k.committer.Pressure() != space.Open && sums.Available() < sums.Segment/16
}

// beginLowering copies the live jobs of the oldest segment.
func (k *keeper) beginLowering(urgent bool) error {
	old, err := k.copyOldest(urgent)
	if err != nil {
		return err
	}
	k.lowering = lowering{stage: copied, commit: k.watermark.want(), behind: old.number}
	return nil
}

// lower continues the lowering, as far as commits allow.
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

// giveUpBelow gives up the oldest segment if all its entries are below a Floor, or replaced.
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
		return false, nil // a pin keeps it
	}
	s.mu.Lock()
	s.oldest = old.number + 1
	s.mu.Unlock()
	k.entries.drop(old.number + 1) // before its file is removed
	if l := &k.lowering; l.stage != idle && old.number >= l.behind {
		*l = lowering{}
		k.round.GivenUp(closed, k.ledger.Sums().Live)
	}
	return true, k.giveUp(old)
}
