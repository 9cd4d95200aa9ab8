package ops

import (
	"hash/maphash"

	"polystalk/shard/core"
	"polystalk/shard/listindex"
)

// A Handle is the client's identity in one shard.
type Handle struct {
	Client   core.ClientID
	Watching int32  // tubes that it watches there, or functions that it works for
	Held     uint32 // reserved jobs there, by the last reply: too high after a timeout
	shard    int16
	Waiting  bool // the current Reserve has queued the client there
}

// Shard returns the index of the shard.
func (k *Handle) Shard() int { return int(k.shard) }

// Handles has the handles of one client, in the order of its first visits to shards. The zero value
// has none.
type Handles struct {
	list    []Handle
	byShard []int32 // positions in list plus one, if it is long
}

// handlesScan is the longest list that is searched without byShard.
const handlesScan = 8

// Len returns the number of shards that know the client.
func (h *Handles) Len() int { return len(h.list) }

// At returns handle number i, which is valid until the next Learn.
func (h *Handles) At(i int) *Handle { return &h.list[i] }

// Hold reports whether the client has reserved jobs, by the last replies.
func (h *Handles) Hold() bool {
	for i := range h.list {
		if h.list[i].Held > 0 {
			return true
		}
	}
	return false
}

// In returns the client's handle in a shard, valid until the next Learn; nil if it has none.
func (h *Handles) In(shard int) *Handle {
	if h.byShard != nil {
		if i := h.byShard[shard]; i > 0 {
			return &h.list[i-1]
		}
		return nil
	}
	for i := range h.list {
		if int(h.list[i].shard) == shard {
			return &h.list[i]
		}
	}
	return nil
}

// Client returns the client's id in a shard, zero if it has none.
func (h *Handles) Client(shard int) core.ClientID {
	if k := h.In(shard); k != nil {
		return k.Client
	}
	return 0
}

// Learn updates the handle in a shard from the shard's reply. shards is the number of shards. It
// returns the handle, or nil if the reply has no client.
func (h *Handles) Learn(shard, shards int, r *core.Reply) *Handle {
	if r.Client == 0 {
		return nil
	}
	k := h.In(shard)
	if k == nil {
		h.list = append(h.list, Handle{shard: int16(shard), Client: r.Client})
		n := len(h.list)
		k = &h.list[n-1]
		if h.byShard != nil {
			h.byShard[shard] = int32(n)
		} else if n > handlesScan {
			h.byShard = make([]int32, shards)
			for i := range h.list {
				h.byShard[h.list[i].shard] = int32(i + 1)
			}
		}
	}
	k.Held = r.Held
	return k
}

// drop forgets the last handle, after its shard has forgotten the client.
func (h *Handles) drop() {
	n := len(h.list) - 1
	if h.byShard != nil {
		h.byShard[h.list[n].shard] = 0
	}
	h.list = h.list[:n]
}

// A WatchList has the tubes that a client watches, in the order of list-tubes-watched: as added,
// but the last tube takes the place of a removed one (source: beanstalkd's ms.c, ms_delete). The
// zero value is empty.
type WatchList struct {
	faces  []*core.Face
	byName listindex.Index // if the list is long
	asked  int             // number of faces that Publish has already visited

	// Spread means that the tubes publish the keys of their best jobs, because they are, or
	// were, in several shards.
	Spread  bool
	changed bool // since the Reserve's survey has last read the list
}

// watchScan is the longest list that is searched without an index.
const watchScan = 8

// Seed is random, so that no client can choose names with colliding hashes.
var Seed = maphash.MakeSeed()

// Len returns the number of tubes.
func (w *WatchList) Len() int { return len(w.faces) }

// Face returns tube number i.
func (w *WatchList) Face(i int) *core.Face { return w.faces[i] }

// Find returns the position of a tube by name, or -1.
func (w *WatchList) Find(name []byte) int {
	if w.byName.Len() == 0 {
		for i, f := range w.faces {
			if f.Name() == string(name) {
				return i
			}
		}
		return -1
	}
	i := w.byName.First(maphash.Bytes(Seed, name))
	for i >= 0 && w.faces[i].Name() != string(name) {
		i = w.byName.Next(i)
	}
	return i
}

// findFace returns the position of a tube, or -1 if it is not on the list.
func (w *WatchList) findFace(f *core.Face) int {
	if w.byName.Len() == 0 {
		for i, g := range w.faces {
			if g == f {
				return i
			}
		}
		return -1
	}
	i := w.byName.First(maphash.String(Seed, f.Name()))
	for i >= 0 && w.faces[i] != f {
		i = w.byName.Next(i)
	}
	return i
}

func (w *WatchList) hash(at int) uint64 { return maphash.String(Seed, w.faces[at].Name()) }

// Add appends a tube, which must not be on the list. h is the handle in the tube's shard.
func (w *WatchList) Add(f *core.Face, h *Handle) {
	h.Watching++
	w.changed = true
	w.faces = append(w.faces, f)
	if n := len(w.faces); n > watchScan {
		for w.byName.Len() < n {
			w.byName.Add(w.hash)
		}
	}
}

// Watch fills op for the visit that adds a tube to the list, and returns the shard. Then call Add
// with the reply, unless the shard is out of memory, and Publish.
func (w *WatchList) Watch(m *Map, h *Handles, name []byte, op *core.Op) (shard int) {
	shard = m.OfTube(name)
	op.Watch(h.Client(shard), name, nil, w.Spread || len(w.faces) > 0 && m.ofFace(w.faces[0]) != shard)
	w.asked = 0
	return shard
}

// Publish fills op for the next visit after Add: once a list has tubes in several shards, all its
// tubes must publish the keys of their best jobs. mirror is from the last reply, to Watch or to
// Publish's visit. Publish returns None when it is done.
func (w *WatchList) Publish(m *Map, mirror *core.Mirror, op *core.Op) (shard int) {
	if w.Spread || mirror == nil {
		return None
	}
	if w.asked < len(w.faces)-1 {
		f := w.faces[w.asked]
		w.asked++
		op.AskMirror(f.ID())
		return m.ofFace(f)
	}
	w.Spread = true
	return None
}

// Remove removes tube number i from the list, fills op for the visit to its shard, and returns
// the shard.
func (w *WatchList) Remove(m *Map, h *Handles, i int, op *core.Op) (shard int) {
	f := w.faces[i]
	shard = m.ofFace(f)
	k := h.In(shard)
	op.Ignore(k.Client, f.ID())
	w.changed = true
	n := len(w.faces) - 1
	switch {
	case n == watchScan:
		w.byName = listindex.Index{}
	case n > watchScan:
		w.byName.Remove(i, w.hash)
	}
	w.faces[i] = w.faces[n]
	w.faces[n] = nil
	w.faces = listindex.Shrink(w.faces[:n])
	k.Watching--
	return shard
}
