package ops

import (
	"fmt"

	"polystalk/shard"
	"polystalk/shard/core"
)

// A Map is what a router must know to find a shard. The number of its shards is a power
// of two and never changes.
type Map struct {
	shards  []*shard.Shard
	mask    uint64 // the bits of a slot that choose the shard
	ids     *IDs
	tubes   *Tubes
	numbers []Numbers // by shard
	freed   func(core.Large)
}

// MapOptions say how a Map is made. All of them must be given.
type MapOptions struct {
	// Shards is how many there are to be, a power of two up to core.Slots.
	Shards int
	Naming Naming
	// BodyFreed is called, by a shard's owner, with each large body that no job has any
	// more; see core.BodyHearer.
	BodyFreed func(core.Large)
}

// NewMap makes a Map without its shards: Add them before it is used for anything but
// OfTube and OfSlot.
func NewMap(o MapOptions) *Map {
	m := &Map{mask: uint64(o.Shards - 1), ids: newIDs(), tubes: newTubes(o.Naming), freed: o.BodyFreed}
	m.numbers = make([]Numbers, o.Shards)
	for i := range m.numbers {
		m.numbers[i] = Numbers{m.ids, i}
	}
	return m
}

// Directory is what the core of a shard is to report to: which tubes come and go, which
// jobs have ended, which large bodies are free. Each shard has one of its own.
func (m *Map) Directory() core.Directory {
	return &directory{Tubes: m.tubes, ended: m.Finisher(), freed: m.freed}
}

// Add adds the next shard: that with the index 0, then 1, up to MapOptions.Shards.
func (m *Map) Add(sh *shard.Shard) {
	if sh.Index != len(m.shards) || sh.Index >= len(m.numbers) {
		panic(fmt.Sprintf("placement: shard %d is added as number %d of %d", sh.Index, len(m.shards), len(m.numbers)))
	}
	m.shards = append(m.shards, sh)
}

// Shards are all shards, by their index. They are not to be changed.
func (m *Map) Shards() []*shard.Shard { return m.shards }

// Shard is the shard of that index.
func (m *Map) Shard(i int) *shard.Shard { return m.shards[i] }

// OfSlot is the index of the shard that has a slot.
func (m *Map) OfSlot(slot uint16) int { return int(uint64(slot) & m.mask) }

// OfTube is the index of the shard in which a tube lives, or would. Its slot is fixed for
// ever; the shard depends on how many there are.
func (m *Map) OfTube(name []byte) int { return m.OfSlot(core.SlotOf(name)) }

// OfFace is OfTube for a tube that is there.
func (m *Map) OfFace(f *core.Face) int { return m.OfSlot(f.Slot()) }

// OfJob is the index of the shard in which a job lives; ok is false if there is none of
// that id.
func (m *Map) OfJob(id core.JobID) (i int, ok bool) { return m.ids.Find(id) }

// IDs gives out the ids of jobs, and ends them.
func (m *Map) IDs() *IDs { return m.ids }

// Numbers gives out ids for jobs of a shard.
func (m *Map) Numbers(i int) *Numbers { return &m.numbers[i] }

// Finisher ends ids for an owner of its own: one per loop and one per shard.
func (m *Map) Finisher() Finisher { return Finisher{ids: m.ids} }

// Tubes are the tubes of all shards by their names.
func (m *Map) Tubes() *Tubes { return m.tubes }

// A Tube says where a tube lives that is used or watched, and so cannot go.
type Tube struct {
	Name  string
	Shard int         // its index
	ID    core.TubeID // in that shard
}

// TubeOf is the tube of that face.
func (m *Map) TubeOf(f *core.Face) Tube { return Tube{f.Name(), m.OfFace(f), f.ID()} }
