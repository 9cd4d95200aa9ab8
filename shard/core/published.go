package core

import "sync/atomic"

// Mirror is a tube's best ready key, published for routers that choose among shards without
// visiting them. Only the tube's owner writes it; any goroutine may read it. A paused tube
// publishes no key.
//
// The key is in two words. Both have the low half of the id, so two words that were not written
// together do not match. That takes two stores; a counter around them would take four.
type Mirror struct {
	word atomic.Uint64 // priority << 32 | low half of the id
	id   atomic.Uint64
}

// Load returns the published key; ok is false when nothing can be reserved.
func (m *Mirror) Load() (k Key, ok bool) {
	for {
		w := m.word.Load()
		id := m.id.Load()
		if uint32(w) == uint32(id) && m.word.Load() == w {
			return Key{uint32(w >> 32), JobID(id)}, id != 0
		}
	}
}

// stored is Load for the tube's owner; no ID: nothing can be reserved.
func (m *Mirror) stored() Key { return Key{uint32(m.word.Load() >> 32), JobID(m.id.Load())} }

// store publishes k; the tube's owner calls it.
func (m *Mirror) store(k Key) {
	if was := m.id.Load(); uint32(was) == uint32(k.ID) && was != uint64(k.ID) {
		// The halves cannot distinguish the two ids. A reader of the old word and the new id
		// reads the word again, or a word that matches the id.
		m.word.Store(uint64(uint32(k.ID) ^ 1))
	}
	m.id.Store(uint64(k.ID))
	m.word.Store(uint64(k.Pri)<<32 | uint64(uint32(k.ID)))
}

// A Face is the part of a tube that a client may read without owning the shard, while it uses
// or watches the tube: the name and handles, which never change, and the best ready key. An
// entry of a router's watch list is a pointer to a Face.
type Face struct {
	name   string
	id     TubeID
	slot   uint16
	class  uint16 // of quotas; 0: none. Only the shard's owner reads it
	mirror Mirror // it is kept up to date once a router has asked for it
}

// Name is the tube's name.
func (f *Face) Name() string { return f.name }

// ID is the tube's handle in its core.
func (f *Face) ID() TubeID { return f.id }

// Slot is the tube's slot, which determines its shard.
func (f *Face) Slot() uint16 { return f.slot }

// Load loads the tube's Mirror, which must have been asked for.
func (f *Face) Load() (k Key, ok bool) { return f.mirror.Load() }

// readyLogSize is how many entries a ReadyLog keeps, in 12 KiB. A shard adds far fewer entries
// while a reserve over several shards reads their keys.
const readyLogSize = 512

// A ReadyLog lists the tubes of a shard that got a better ready job. A reader that reads the
// Faces of several shards one after the other finds later changes in their logs. The shard's
// owner appends to it, and any goroutine may read it.
//
// An entry is added whenever the published key of a tube appears or becomes smaller, for any
// reason: a put, a release, a kick, the end of a delay, of a pause, of a time to run or of a
// client. The key is published before the entry is added, and both happen before the shard is
// released, hence before the reply to the operation that caused them. So take a moment a and a
// later moment b. If a tube's key, read after a, was above k or absent, and is k at b, then the
// log has at b an entry for the tube, with a key of k or less, that it did not have at a.
//
// A tube without a Mirror has no entries, so the log costs nothing on servers where no client
// watches tubes of several shards.
type ReadyLog struct {
	head atomic.Uint64 // entries added so far
	_    [56]byte
	ring [readyLogSize]readyEntry
}

// A readyEntry is one entry; ReadyLog.At can read it while the owner overwrites it.
type readyEntry struct {
	face atomic.Pointer[Face]
	id   atomic.Uint64
	pri  atomic.Uint32
}

// Head returns the number of entries so far, which is the index of the next entry.
func (l *ReadyLog) Head() uint64 { return l.head.Load() }

// At returns entry n, which must be below Head: a tube, and its best key when the entry was
// added. It is not ok if the entry is overwritten.
func (l *ReadyLog) At(n uint64) (f *Face, k Key, ok bool) {
	e := &l.ring[n%readyLogSize]
	f, k = e.face.Load(), Key{e.pri.Load(), JobID(e.id.Load())}
	// The owner overwrites it with entry n+readyLogSize, once head has reached that index.
	return f, k, l.head.Load()-n < readyLogSize
}

// add adds the entry that k is the best key of f; the shard's owner calls it.
func (l *ReadyLog) add(f *Face, k Key) {
	n := l.head.Load()
	e := &l.ring[n%readyLogSize]
	e.face.Store(f)
	e.pri.Store(k.Pri)
	e.id.Store(uint64(k.ID))
	l.head.Store(n + 1)
}

// Readied returns the log of tubes that got a better ready job. Any goroutine may read it.
func (c *Core) Readied() *ReadyLog { return c.readied }

// publish updates the mirror, and adds to the ReadyLog if t has a better job than before.
func (c *Core) publish(t *tube) {
	if !t.mirrored {
		return
	}
	k := Key{}
	if t.readyPos != 0 {
		k = t.best()
	}
	was := t.mirror.stored()
	if k == was {
		return
	}
	t.mirror.store(k)
	if k.ID != 0 && (was.ID == 0 || k.Less(was)) {
		c.readied.add(t.Face, k)
	}
}

// mirrorOf returns t's mirror, which is kept up to date from now on.
func (c *Core) mirrorOf(t *tube) *Mirror {
	if !t.mirrored {
		t.mirrored = true
		c.publish(t)
	}
	return &t.mirror
}

// best is the key of the first ready job; there must be one.
func (t *tube) best() Key {
	e := t.ready.top()
	return Key{e.B, JobID(e.A)}
}

// Key orders ready jobs: the smaller priority first, then the older job.
type Key struct {
	Pri uint32
	ID  JobID
}

// MaxKey is not before any job's key.
var MaxKey = Key{1<<32 - 1, 1<<64 - 1}

// Less reports whether a job with key k must be reserved before a job with key l.
func (k Key) Less(l Key) bool {
	return k.Pri < l.Pri || k.Pri == l.Pri && k.ID < l.ID
}
