package sim

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"polystalk/router"
	"polystalk/shard"
	"polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// TestCrashesKeepWhatWasAcknowledged: the machine stops repeatedly, at any operation of the
// journal's disk, also while a start reads it. All acknowledged changes hold after the restart.
// Jobs that were not acknowledged belong to commands without replies.
func TestCrashesKeepWhatWasAcknowledged(t *testing.T) {
	seen := map[string]int{}
	seeds(t, 60, func(seed uint64) error { return newKeptChaos(seed, seen).run(1500) })
	wantSeen(t, seen, "stops by the disk", "stops of a start", "jobs that came back")
}

// TestShortageLosesNoJob is TestCrashesKeepWhatWasAcknowledged with a disk that is full at times, and
// little memory for connections: large bodies wait for one another, and connections that hold too
// much or cannot be paused are closed. No session hangs, all replies that arrive are right, and
// nothing is left of closed connections.
func TestShortageLosesNoJob(t *testing.T) {
	seen := map[string]int{}
	seeds(t, 150, func(seed uint64) error {
		k := newKeptChaos(seed, seen)
		k.disk.CrashAt, k.w.steady, k.w.harsh, k.tight = 0, false, true, true
		k.w.D.Close()
		k.w.cfg.ConnectionMemory = 200_000 << k.rng.IntN(4)
		if err := k.w.boot(); err != nil {
			return err
		}
		err := k.run(1500)
		seen["dropped"] += k.w.drops
		return err
	})
	wantSeen(t, seen, "full", "no room", "dropped")
}

// A keptChaos is a chaos with a journal on a disk that stops.
type keptChaos struct {
	*chaos
	disk   *fakedisk.Disk
	synced bool // acknowledged changes are on the disk, not only in the kernel
	lives  int
}

func newKeptChaos(seed uint64, seen map[string]int) *keptChaos {
	d := fakedisk.New(seed)
	k := &keptChaos{disk: d, synced: seed%4 > 0}
	cfg := &router.Journal{Disk: d, SegmentSize: wal.SegmentMin}
	if !k.synced {
		cfg.Sync = wal.SyncNever
	}
	k.chaos = newChaos(seed, router.Config{Journal: cfg}, seen)
	k.kept = true
	k.w.steady = k.rng.IntN(2) == 0
	k.arm()
	return k
}

// arm sometimes makes the disk stop the machine soon.
func (k *keptChaos) arm() {
	k.disk.Ops, k.disk.CrashAt = 0, 0
	if k.rng.IntN(4) > 0 {
		k.disk.CrashAt = 1 + k.rng.IntN(120)
	}
}

func (k *keptChaos) run(n int) error {
	defer func() { k.w.Close() }()
	for k.steps < n {
		k.steps++
		if k.w.harsh && k.rng.IntN(60) == 0 {
			k.fill()
		}
		err := k.step()
		if errors.Is(err, errDown) || err == nil && (k.w.Down() != nil || k.rng.IntN(300) == 0) {
			err = k.crash()
		}
		if err != nil {
			return fmt.Errorf("step %d of life %d, %d shards: %w", k.steps, k.lives, len(k.w.D.Shards()), err)
		}
	}
	k.disk.CrashAt, k.disk.Limit = 0, 0
	if k.w.Down() != nil {
		if err := k.crash(); err != nil {
			return err
		}
		k.disk.CrashAt = 0
	}
	return k.comesBackAsItWas()
}

// fill lets the disk have no room for a time.
func (k *keptChaos) fill() {
	if k.disk.Limit = 0; k.rng.IntN(2) == 0 {
		k.disk.Limit = k.disk.Size() + 1
		k.seen["full"]++
	}
}

// crash ends this process, and starts the next one.
func (k *keptChaos) crash() error {
	if k.w.Down() != nil {
		k.seen["stops by the disk"]++
	}
	if err := k.cutOff(); err != nil {
		return err
	}
	for {
		if k.synced && k.rng.IntN(3) > 0 {
			k.disk.Cut()
		} else {
			k.disk.Kill()
		}
		k.arm()
		err := k.w.reboot()
		if err == nil {
			break
		}
		if !errors.Is(err, errDown) || !k.disk.Dead {
			return err
		}
		k.seen["stops of a start"]++
	}
	k.lives++
	for _, sh := range k.w.D.Shards() {
		k.seen["jobs that came back"] += int(sh.Counts().Ready + sh.Counts().Delayed + sh.Counts().Buried)
	}
	return k.conserved()
}

// comesBackAsItWas checks that a restart changes nothing except connections, once everything is
// committed.
func (k *keptChaos) comesBackAsItWas() error {
	if err := k.rest(); err != nil {
		return fmt.Errorf("at rest in life %d: %w", k.lives, err)
	}
	for _, cn := range k.live {
		k.vanish(cn)
	}
	if err := k.rest(); err != nil {
		return fmt.Errorf("after all have left life %d: %w", k.lives, err)
	}
	before := k.digests()
	if err := k.crash(); err != nil {
		return err
	}
	k.disk.CrashAt = 0
	if after := k.digests(); k.w.steady && !slices.Equal(before, after) {
		return fmt.Errorf("the shards' digests are %x after a restart, were %x", after, before)
	}
	// A pause keeps a tube, and gets longer by the changes of the clock between two processes.
	if err := k.w.pass(10_000 * time.Hour); err != nil {
		return err
	}
	return empty(k.w)
}

// digests returns the digests of all shards.
func (k *keptChaos) digests() (all []uint64) {
	var b shard.Batch
	k.w.D.Stamp(&b)
	for _, sh := range k.w.D.Shards() {
		all = append(all, sh.Digest(&b))
	}
	return all
}
