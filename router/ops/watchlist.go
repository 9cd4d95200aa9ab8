package ops

import (
	"fmt"
	"hash/maphash"

	"polystalk/shard/core"
	"polystalk/shard/listindex"
)

// A WatchList is the tubes that a client watches, in the order that list-tubes-watched
// shows: as they came, except that the last one takes the place of one that goes (source:
// the reference's ms.c, ms_delete). The zero value is empty.
type WatchList struct {
	faces  []*core.Face
	byName listindex.Index // of faces, once that is long
	asked  int             // faces before it were asked for their keys; see Publish

	// Spread says that the faces publish their best keys: they are, or were, in
	// several shards.
	Spread bool
	// changed says that the list is another than the Reserve's survey has last seen.
	changed bool
}

// watchScan is the length of a list up to which comparing names beats an index.
const watchScan = 8

// Seed is of the hashes of names that clients choose, so that none finds names that
// collide.
var Seed = maphash.MakeSeed()

// Len is the number of tubes.
func (w *WatchList) Len() int { return len(w.faces) }

// Face is tube number i.
func (w *WatchList) Face(i int) *core.Face { return w.faces[i] }

// Find is the position of the tube of that name, or -1.
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

// findFace is the position of a tube that may have been on the list, or -1.
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

// Add puts a tube at the end that is not on the list, in the shard of that handle.
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

// Watch fills op for the visit that adds a tube to the list, and returns the shard. The
// reply goes to Add unless it says that there is no memory, and then Publish goes on.
func (w *WatchList) Watch(m *Map, h *Handles, name []byte, op *core.Op) (shard int) {
	shard = m.OfTube(name)
	op.Watch(h.Client(shard), name, nil, w.Spread || len(w.faces) > 0 && m.OfFace(w.faces[0]) != shard)
	w.asked = 0
	return shard
}

// Publish fills op for the next visit that the tube which was added last makes necessary,
// mirror being what the reply about it or the last of these visits has brought: once a
// list reaches over several shards all of its tubes publish their keys. It returns None
// when they do.
func (w *WatchList) Publish(m *Map, mirror *core.Mirror, op *core.Op) (shard int) {
	if w.Spread || mirror == nil {
		return None
	}
	if w.asked < len(w.faces)-1 {
		f := w.faces[w.asked]
		w.asked++
		op.AskMirror(f.ID())
		return m.OfFace(f)
	}
	w.Spread = true
	return None
}

// Remove takes tube number i off the list, and fills op for the visit that tells its
// shard, which is returned.
func (w *WatchList) Remove(m *Map, h *Handles, i int, op *core.Op) (shard int) {
	f := w.faces[i]
	shard = m.OfFace(f)
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

// Check looks for contradictions in the list.
func (w *WatchList) Check(m *Map) error {
	for i, f := range w.faces {
		if at := w.Find([]byte(f.Name())); at != i {
			return fmt.Errorf("%q is entry %d of a watch list, and is found at %d", f.Name(), i, at)
		}
		if !w.Spread && m.OfFace(f) != m.OfFace(w.faces[0]) {
			return fmt.Errorf("a watch list is in several shards, and has no published key of %q", f.Name())
		}
	}
	return nil
}

// Check looks for contradictions in the handles.
func (h *Handles) Check() error {
	for i := range h.list {
		if k := &h.list[i]; h.In(k.Shard()) != k {
			return fmt.Errorf("handle %d is not the one in shard %d", i, k.Shard())
		}
	}
	return nil
}
