package wal

import (
	"fmt"
	"slices"
	"sort"
)

const (
	// pointEvery is how many entries are in a stretch at most, so that little is read to find
	// the last of them.
	pointEvery = 64
	// stretchBytes is how many bytes are in a stretch at most before its last entry.
	stretchBytes = 128 << 10
)

// A place is where an entry begins.
type place struct {
	Segment uint64
	Offset  int64
}

// A point is an entry with a known place. The entries up to the next point follow on it in the
// same segment, one by one.
type point struct {
	index uint64
	at    place
}

// A run is of entries of one term, up to the next run.
type run struct{ index, term uint64 }

// An entryIndex holds the place and the term of each entry of a log, in a few bytes for many
// entries. It knows no files. The zero value is the index of an empty log.
//
//	files   1 2 3 4 | 5 6 7 | 6 7 8 | 9 …
//	points  1         5       6       9          and one more for many entries or bytes
//	runs    1……………………………………   6 ……………          where the term is another
//
// A log is written behind what there is, and never cut off: an entry takes the place of every
// earlier one with its index or a higher one.
//
// It has the entries from First up to Last, without gaps. Points and runs are in the order of
// their indexes. Points are in the order of their places too, since what replaces an entry always
// stands behind it. Both begin with First.
type entryIndex struct {
	points []point
	runs   []run
	last   uint64 // meaningless while there is no point

	count int   // entries since the last point, itself included
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

// Append adds an entry of size bytes, in the file with their padding. It takes the place of
// those with its index or a higher one, which are forgotten. It stands behind all others in
// the files, and may not leave a gap in the log.
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

// cut forgets the entries from index on. What follows is not at the end of what is left, so it
// gets a point.
func (x *entryIndex) cut(index uint64) {
	x.points = x.points[:sort.Search(len(x.points), func(i int) bool { return x.points[i].index >= index })]
	x.runs = x.runs[:sort.Search(len(x.runs), func(i int) bool { return x.runs[i].index >= index })]
	x.last, x.end = index-1, place{}
}

// Term is the term of an entry, and whether there is such an entry.
func (x *entryIndex) Term(index uint64) (term uint64, ok bool) {
	if x.empty() || index < x.First() || index > x.last {
		return 0, false
	}
	i := sort.Search(len(x.runs), func(i int) bool { return x.runs[i].index > index })
	return x.runs[i-1].term, true
}

// A stretch is a row of entries that follow on each other in one segment.
type stretch struct {
	place           // of the first one
	From, To uint64 // from From up to before To
}

// find gives the stretch that an entry is in, which must be there.
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

// firstIn is the first entry of the segments from one on; beyond Last if they have none.
func (x *entryIndex) firstIn(segment uint64) uint64 {
	if i := x.pointIn(segment); i < len(x.points) {
		return x.points[i].index
	}
	return x.Last() + 1
}

// pointIn is the number of the first point in the segments from one on. Each segment that has
// entries has a point at the first.
func (x *entryIndex) pointIn(segment uint64) int {
	return sort.Search(len(x.points), func(i int) bool { return x.points[i].at.Segment >= segment })
}

// Drop forgets the entries in segments before one.
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
