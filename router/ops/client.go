package ops

import (
	"hash/maphash"
	"slices"

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

// A NamedList has entries in the order in which they were added, but the last one takes the place of
// a removed one. A long list has an index, so that adding, removing and finding an entry costs the
// same in a list of any length. The zero value is empty.
type NamedList[T interface{ Name() string }] struct {
	List   []T
	byName listindex.Index // if the list is longer than scanMax
}

// scanMax is the longest list that is searched without an index.
const scanMax = 8

// seed is random, so that no client can choose names with colliding hashes.
var seed = maphash.MakeSeed()

func (l *NamedList[T]) hash(at int) uint64 { return maphash.String(seed, l.List[at].Name()) }

// Find returns the position of an entry by name, or -1.
func (l *NamedList[T]) Find(name []byte) int {
	if l.byName.Len() == 0 {
		return slices.IndexFunc(l.List, func(e T) bool { return e.Name() == string(name) })
	}
	i := l.byName.First(maphash.Bytes(seed, name))
	for i >= 0 && l.List[i].Name() != string(name) {
		i = l.byName.Next(i)
	}
	return i
}

// Append appends an entry, which must not be in the list.
func (l *NamedList[T]) Append(e T) {
	l.List = append(l.List, e)
	if n := len(l.List); n > scanMax {
		for l.byName.Len() < n {
			l.byName.Add(l.hash)
		}
	}
}

// Delete removes and returns entry number i.
func (l *NamedList[T]) Delete(i int) T {
	var none T
	e, n := l.List[i], len(l.List)-1
	switch {
	case n == scanMax:
		l.byName = listindex.Index{}
	case n > scanMax:
		l.byName.Remove(i, l.hash)
	}
	l.List[i] = l.List[n]
	l.List[n] = none
	l.List = listindex.Shrink(l.List[:n])
	return e
}

// A WatchList has the tubes that a client watches, in the order of list-tubes-watched (source:
// beanstalkd's ms.c, ms_delete). The zero value is empty.
type WatchList struct {
	faces NamedList[*core.Face]
	asked int // number of faces that Publish has already visited

	// Spread means that the tubes publish the keys of their best jobs, because they are, or
	// were, in several shards.
	Spread  bool
	changed bool // since the Reserve's survey has last read the list
}

// Len returns the number of tubes.
func (w *WatchList) Len() int { return len(w.faces.List) }

// Face returns tube number i.
func (w *WatchList) Face(i int) *core.Face { return w.faces.List[i] }

// Find returns the position of a tube by name, or -1.
func (w *WatchList) Find(name []byte) int { return w.faces.Find(name) }

// findFace returns the position of a tube, or -1 if it is not on the list.
func (w *WatchList) findFace(f *core.Face) int {
	l := &w.faces
	if l.byName.Len() == 0 {
		return slices.Index(l.List, f)
	}
	i := l.byName.First(maphash.String(seed, f.Name()))
	for i >= 0 && l.List[i] != f {
		i = l.byName.Next(i)
	}
	return i
}

// Add appends a tube, which must not be on the list. h is the handle in the tube's shard.
func (w *WatchList) Add(f *core.Face, h *Handle) {
	h.Watching++
	w.changed = true
	w.faces.Append(f)
}

// Watch fills op for the visit that adds a tube to the list, and returns the shard. Then call Add
// with the reply, unless the shard is out of memory, and Publish.
func (w *WatchList) Watch(m *Map, h *Handles, name []byte, op *core.Op) (shard int) {
	shard = m.OfTube(name)
	op.Watch(h.Client(shard), name, nil, w.Spread || w.Len() > 0 && m.ofFace(w.faces.List[0]) != shard)
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
	if w.asked < w.Len()-1 {
		f := w.faces.List[w.asked]
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
	f := w.faces.Delete(i)
	shard = m.ofFace(f)
	k := h.In(shard)
	op.Ignore(k.Client, f.ID())
	w.changed = true
	k.Watching--
	return shard
}
