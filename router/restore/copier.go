package restore

import (
	"polystalk/router/ops"
	"polystalk/shard"
	"polystalk/shard/core"
)

// A copier visits shards to have them record again what is there: for the journal, which
// is about to free old segments, and for jobs that were taken over. It waits for a shard
// as long as that takes, so it is a goroutine's, one's at a time.
type copier struct {
	places *ops.Map
	clock  *ops.Clock
	batch  shard.Batch
}

func (t *Target) newCopier() *copier {
	return &copier{places: t.Places, clock: t.Clock, batch: shard.Batch{Home: nobody{}}}
}

// nobody is the Home of who never has messages.
type nobody struct{}

func (nobody) Post(*core.Message) {}

// at gives the shard of a slot, with the present moment in the batch.
func (c *copier) at(slot uint16) *shard.Shard {
	c.clock.Stamp(&c.batch)
	return c.places.Shard(c.places.OfSlot(slot))
}

// jobs is Copy of journal.Options.
func (c *copier) jobs(slot uint16, ids []uint64, after uint64) {
	c.at(slot).Recopy(&c.batch, ids, after, nil)
}

// tubePause is CopyPause of journal.Options.
func (c *copier) tubePause(slot uint16, tube []byte) {
	c.at(slot).Recopy(&c.batch, nil, 0, tube)
}

// lives is Lives of journal.Options.
func (c *copier) lives(slot uint16, id, after uint64) bool {
	return c.at(slot).NeedsCopy(&c.batch, id, after)
}
