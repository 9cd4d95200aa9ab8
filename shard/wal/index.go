package wal

import (
	"fmt"
	"slices"
	"sort"
)

const (
	// pointEvery is the maximum number of entries in a stretch, so that little is read to find
	// the last of them.
	pointEvery = 64
	// stretchBytes is the maximum number of bytes in a stretch before its last entry.
	stretchBytes = 128 << 10
)

// A place is where an entry begins.
type place struct {
	Segment uint64
	Offset  int64
}

// A point is an entry with a known place. The entries up to the next point follow it in the same
// segment without gaps.
type point struct {
	index uint64
	at    place
}

// A run is the first of several entries of one term, up to the next run.
type run struct{ index, term uint64 }

// An entryIndex has the place and the term of each entry of a log, in a few bytes for many
// entries. It does no I/O. The zero value is the index of an empty log.
//
//	files   1 2 3 4 | 5 6 7 | 6 7 8 | 9 …
//	points  1         5       6       9          and more after many entries or bytes
//	runs    1……………………………………   6 ……………          where the term changes
//
// A log is only appended to, and never truncated: an entry replaces every earlier entry with its
// index or a higher one.
//
// It has the entries from First up to Last, without gaps. Points and runs are in the order of
// their indexes. Points are in the order of their places too, since an entry is always behind the
// entries that it replaces. Both begin with First.
type entryIndex struct {
	points []point
	runs   []run
	last   uint64 // meaningless while there is no point

	count int   // entries since the last point, including it
	end   place // where the last entry ends
}

// empty reports whether the log has no entry.
func (x *entryIndex) empty() bool { return len(x.points) == 0 }

// First is the index of the first entry, or zero.
func (x *entryIndex) First() uint64 {
	if x.empty() {
		return 0
	}
	return x.points[0].index
}

// Last is the index of the last entry, or zero.
func (x *entryIndex) Last() uint64 {
	if x.empty() {
		return 0
	}
	return x.last
}

// Append adds an entry that has size bytes in the file, with padding. It replaces the entries
// with its index or a higher one. It must be behind all others in the files, and must not leave
// a gap in the log.
func (x *entryIndex) Append(index, term uint64, at place, size int64) {
	if index == 0 || !x.empty() && index > x.last+1 {
		panic(fmt.Sprintf("entry %d is to follow on entry %d", index, x.Last()))
	}
	if !x.empty() && index <= x.last {
		x.cut(index)
	}
	if len(x.runs) == 0 || x.runs[len(x.runs)-1].term != term {
		x.runs = append(x.runs, run{index, term})
	}
	if x.empty() || at != x.end || x.count >= pointEvery || at.Offset-x.points[len(x.points)-1].at.Offset >= stretchBytes {
		x.points = append(x.points, point{index, at})
		x.count = 0
	}
	x.count++
	x.last = index
	x.end = place{at.Segment, at.Offset + size}
}

// cut forgets the entries from index on. The next entry is not directly behind the remaining
// ones in the file, so it gets a point.
func (x *entryIndex) cut(index uint64) {
	x.points = x.points[:sort.Search(len(x.points), func(i int) bool { return x.points[i].index >= index })]
	x.runs = x.runs[:sort.Search(len(x.runs), func(i int) bool { return x.runs[i].index >= index })]
	x.last, x.end = index-1, place{}
}

// Term returns the term of an entry, and whether there is such an entry.
func (x *entryIndex) Term(index uint64) (term uint64, ok bool) {
	if x.empty() || index < x.First() || index > x.last {
		return 0, false
	}
	i := sort.Search(len(x.runs), func(i int) bool { return x.runs[i].index > index })
	return x.runs[i-1].term, true
}

// A stretch is a series of entries without gaps in one segment.
type stretch struct {
	place           // of the first entry
	From, To uint64 // indexes; To is not included
}

// find returns the stretch of an entry, which must exist.
func (x *entryIndex) find(index uint64) stretch {
	if x.empty() || index < x.First() || index > x.last {
		panic(fmt.Sprintf("entry %d is not there: the log has %d to %d", index, x.First(), x.Last()))
	}
	i := sort.Search(len(x.points), func(i int) bool { return x.points[i].index > index })
	s := stretch{x.points[i-1].at, x.points[i-1].index, x.last + 1}
	if i < len(x.points) {
		s.To = x.points[i].index
	}
	return s
}

// firstIn returns the first entry from a segment on; Last+1 if there is none.
func (x *entryIndex) firstIn(segment uint64) uint64 {
	if i := x.pointIn(segment); i < len(x.points) {
		return x.points[i].index
	}
	return x.Last() + 1
}

// pointIn returns the position in points of the first point from a segment on. Each segment with
// entries has a point at its first entry.
func (x *entryIndex) pointIn(segment uint64) int {
	return sort.Search(len(x.points), func(i int) bool { return x.points[i].at.Segment >= segment })
}

// Drop forgets the entries in segments before the given one.
func (x *entryIndex) Drop(segment uint64) {
	i := x.pointIn(segment)
	if i == len(x.points) {
		*x = entryIndex{}
		return
	}
	x.points = slices.Delete(x.points, 0, i)
	first := x.First()
	k := sort.Search(len(x.runs), func(k int) bool { return x.runs[k].index > first })
	x.runs = slices.Delete(x.runs, 0, k-1)
	x.runs[0].index = first
}
