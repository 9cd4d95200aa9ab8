package core

import "sync/atomic"

// Mirror is a tube's best ready key, published for routers that choose among
// shards without visiting them. Written only by the tube's owner, read by anyone. A
// paused tube publishes none.
//
// The key is in two words, of which each has the low half of the id: words that were
// not written together do not fit. It takes two stores, where a counter around
// them would take four.
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

func (m *Mirror) store(k Key) {
	if was := m.id.Load(); uint32(was) == uint32(k.ID) && was != uint64(k.ID) {
		// The halves cannot tell the two ids apart. Who has read the old word and
		// the new id reads another word then, or one with which the id is right.
		m.word.Store(uint64(uint32(k.ID) ^ 1))
	}
	m.id.Store(uint64(k.ID))
	m.word.Store(uint64(k.Pri)<<32 | uint64(uint32(k.ID)))
}
