package ops

import (
	"fmt"

	"polystalk/shard"
	"polystalk/shard/core"
)

// A Map finds shards. The number of its shards is a power of two and never changes.
type Map struct {
	shards  []*shard.Shard
	mask    uint64 // the bits of a slot that choose the shard
	ids     *iDs
	tubes   *Tubes
	numbers []numbers // by shard
	freed   func(core.Large)
	classOf func(tube string) uint16
}

// MapOptions configures a Map. All fields but ClassOf must be set.
type MapOptions struct {
	Shards int // a power of two up to core.Slots
	Naming Naming
	// BodyFreed gets each large body that no job has any more. A shard's owner calls it; see
	// core.BodyHearer.
	BodyFreed func(core.Large)
	// ClassOf returns the class of a tube, for quotas; 0: it belongs to none. A shard's owner calls
	// it. nil: there are no classes.
	ClassOf func(tube string) uint16
}

// NewMap makes a Map without shards. Before they are added, only OfTube and OfSlot may be used.
func NewMap(o MapOptions) *Map {
	m := &Map{mask: uint64(o.Shards - 1), ids: newIDs(), tubes: newTubes(o.Naming), freed: o.BodyFreed, classOf: o.ClassOf}
	m.numbers = make([]numbers, o.Shards)
	for i := range m.numbers {
		m.numbers[i] = numbers{m.ids, i}
	}
	return m
}

// Directory returns a directory for the core of one shard, which reports new and removed tubes,
// finished jobs and freed bodies to it.
func (m *Map) Directory() core.Directory {
	return &directory{Tubes: m.tubes, ended: m.Finisher(), freed: m.freed, classOf: m.classOf}
}

// A directory implements core.Directory, by its Tubes, and the interfaces for finished jobs, freed
// bodies and classes.
// The shard's owner calls it. It does not wait for a shard.
type directory struct {
	*Tubes
	ended Finisher
	freed func(core.Large)

	classOf func(tube string) uint16
}

// ClassOf implements core's interface for classes.
func (d *directory) ClassOf(tube string) uint16 {
	if d.classOf == nil {
		return 0
	}
	return d.classOf(tube)
}

func (d *directory) JobFinished(id core.JobID) { d.ended.Finish(id) }
func (d *directory) BodyFreed(body core.Large) { d.freed(body) }

// Used returns the jobs of a class of tubes, and the bytes of their bodies. Any goroutine may call it.
func (m *Map) Used(class uint16) (jobs, bytes int64) {
	for _, sh := range m.shards {
		j, b := sh.Used(class)
		jobs, bytes = jobs+j, bytes+b
	}
	return jobs, bytes
}

// Add adds the next shard: first index 0, then 1, up to MapOptions.Shards.
func (m *Map) Add(sh *shard.Shard) {
	if sh.Index != len(m.shards) || sh.Index >= len(m.numbers) {
		panic(fmt.Sprintf("ops: shard %d is added as number %d of %d", sh.Index, len(m.shards), len(m.numbers)))
	}
	m.shards = append(m.shards, sh)
}

// Shards returns all shards by index. The caller must not change the slice.
func (m *Map) Shards() []*shard.Shard { return m.shards }

// Shard returns the shard with an index.
func (m *Map) Shard(i int) *shard.Shard { return m.shards[i] }

// OfSlot returns the index of the shard with a slot.
func (m *Map) OfSlot(slot uint16) int { return int(uint64(slot) & m.mask) }

// OfTube returns the index of the shard for a tube, which need not exist. A tube's slot never
// changes; its shard depends on the number of shards.
func (m *Map) OfTube(name []byte) int { return m.OfSlot(core.SlotOf(name)) }

// ofFace is OfTube for an existing tube.
func (m *Map) ofFace(f *core.Face) int { return m.OfSlot(f.Slot()) }

// OfJob returns the index of the shard in which a job lives; ok is false if there is no such
// job.
func (m *Map) OfJob(id core.JobID) (i int, ok bool) { return m.ids.find(id) }

// IDs returns the ids of jobs.
func (m *Map) IDs() *iDs { return m.ids }

// numbers returns the source of ids for jobs of a shard.
func (m *Map) Numbers(i int) *numbers { return &m.numbers[i] }

// Finisher returns a Finisher for one owner. Each loop and each shard has one.
func (m *Map) Finisher() Finisher { return Finisher{ids: m.ids} }

// Tubes returns the names of the tubes of all shards.
func (m *Map) Tubes() *Tubes { return m.tubes }

// A Tube is the place of a tube. It is valid while a client uses or watches the tube.
type Tube struct {
	Name  string
	Shard int         // its index
	ID    core.TubeID // in that shard
}

// TubeOf returns the tube of a face.
func (m *Map) TubeOf(f *core.Face) Tube { return Tube{f.Name(), m.ofFace(f), f.ID()} }

// numbers allocates ids for jobs of one shard. It implements core.Numbers; the shard's owner may
// call it.
type numbers struct {
	ids   *iDs
	shard int
}

// NextID allocates an id and notes its shard.
func (n *numbers) NextID() core.JobID {
	id := n.ids.Take(1)
	n.ids.Note(id, n.shard)
	return id
}
