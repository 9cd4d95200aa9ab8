package core

import "sync/atomic"

// readyLogSize is how many entries a ReadyLog keeps: what is readied while a
// reserve over several shards looks around, with plenty to spare. 12 KiB.
const readyLogSize = 512

// A ReadyLog tells which tubes of a shard have got a better ready job: whoever has
// looked at the Faces of several shards, one after the other, sees in their logs
// what he has missed meanwhile. The shard's owner adds to it, anyone reads it.
//
// An entry is added whenever the published key of a tube appears or becomes
// smaller, for whatever reason: a put, a release, a kick, the end of a delay, of a
// pause, of a time to run or of a client. The key is published first, and both
// are done before the shard is released, hence before the answer to what caused it.
// So, for a moment a and a later one b: if the key of a tube was above k, or none,
// when it was read after a, and is k at b, then there is an entry for the tube, with
// a key of k or less, that the log did not have at a and has at b.
//
// A tube whose keys nobody has asked for has no entries, which makes this free
// for servers on which no client watches tubes of several shards.
type ReadyLog struct {
	head atomic.Uint64 // entries added so far
	_    [56]byte
	ring [readyLogSize]readyEntry
}

type readyEntry struct {
	face atomic.Pointer[Face]
	id   atomic.Uint64
	pri  atomic.Uint32
}

// Head is the number of entries so far, which is also that of the next one.
func (l *ReadyLog) Head() uint64 { return l.head.Load() }

// At is entry n, of those before Head: the tube and the key of its best job then.
// It is not ok when the entry is no longer kept.
func (l *ReadyLog) At(n uint64) (f *Face, k Key, ok bool) {
	e := &l.ring[n%readyLogSize]
	f, k = e.face.Load(), Key{e.pri.Load(), JobID(e.id.Load())}
	// Its place is written again for entry n+readyLogSize, once the head is there.
	return f, k, l.head.Load()-n < readyLogSize
}

// Readied tells which tubes have got a better ready job. Anyone may read it.
func (c *Core) Readied() *ReadyLog { return c.readied }

func (l *ReadyLog) add(f *Face, k Key) {
	n := l.head.Load()
	e := &l.ring[n%readyLogSize]
	e.face.Store(f)
	e.pri.Store(k.Pri)
	e.id.Store(uint64(k.ID))
	l.head.Store(n + 1)
}
