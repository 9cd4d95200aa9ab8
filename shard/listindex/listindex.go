// Package listindex finds the entries of long lists by hash: of watch lists, which may
// have a million entries and change one by one.
package listindex

import "math/bits"

// An Index finds the entries of a long list by hash. It knows positions only:
// the list belongs to its owner, which appends at the end and fills the place of a
// removed entry with the last one. It is a linear hash table: it splits one bucket per Add
// and merges one per Remove, so it never stops to rehash, and it shrinks. It
// takes 8 bytes an entry and a quarter more at most. The zero value is empty.
type Index struct {
	heads []uint32 // by bucket, as many as entries: positions plus one
	next  []uint32 // by position: the next in its bucket
}

// Len is the number of entries.
func (x *Index) Len() int { return len(x.next) }

// bucket returns the bucket of entries with that hash.
func (x *Index) bucket(hash uint64) uint64 {
	n := uint64(len(x.heads))
	mask := uint64(1)<<bits.Len64(n-1) - 1
	b := hash & mask
	if b >= n {
		b &= mask >> 1
	}
	return b
}

// splitFrom returns the bucket that bucket b was split from: its number without the highest bit.
func splitFrom(b uint64) uint64 { return b &^ (1 << (bits.Len64(b) - 1)) }

// First is the first entry that may have that hash, -1 when there is none. The others
// come by Next; entries with other hashes are among them.
func (x *Index) First(hash uint64) int {
	if len(x.heads) == 0 {
		return -1
	}
	return int(x.heads[x.bucket(hash)]) - 1
}

// Next is the entry to be looked at after the one at a position, -1 when there is none.
func (x *Index) Next(at int) int { return int(x.next[at]) - 1 }

// Add adds an entry behind the last one. hashOf returns the hashes of entries, also of this one.
func (x *Index) Add(hashOf func(at int) uint64) {
	x.heads = append(x.heads, 0)
	n := uint64(len(x.heads))
	if n > 1 {
		// Distribute the entries of the bucket that is split.
		from := splitFrom(n - 1)
		i := x.heads[from]
		x.heads[from] = 0
		for i != 0 {
			next := x.next[i-1]
			x.push(i, hashOf(int(i-1)))
			i = next
		}
	}
	x.next = append(x.next, 0)
	x.push(uint32(n), hashOf(int(n-1)))
}

// push puts entry i, counted from one, in its bucket.
func (x *Index) push(i uint32, hash uint64) {
	b := x.bucket(hash)
	x.next[i-1] = x.heads[b]
	x.heads[b] = i
}

// Remove forgets the entry at a position; the last one is at that position then.
// hashOf must still use the old list.
func (x *Index) Remove(at int, hashOf func(at int) uint64) {
	n := len(x.next)
	*x.link(at, hashOf(at)) = x.next[at]
	if last := n - 1; last != at {
		*x.link(last, hashOf(last)) = uint32(at + 1)
		x.next[at] = x.next[last]
	}
	x.next = Shrink(x.next[:n-1])
	// The last bucket goes into the one that it was split from.
	b := uint64(n - 1)
	i := x.heads[b]
	x.heads = Shrink(x.heads[:b])
	if b == 0 {
		return
	}
	into := &x.heads[splitFrom(b)]
	for *into != 0 {
		into = &x.next[*into-1]
	}
	*into = i
}

// link is the place that holds the position at of an entry with that hash.
func (x *Index) link(at int, hash uint64) *uint32 {
	p := &x.heads[x.bucket(hash)]
	for *p != uint32(at+1) {
		p = &x.next[*p-1]
	}
	return p
}

// Shrink is list in memory of its size when it has much too much.
func Shrink[T any](list []T) []T {
	if cap(list) < 64 || len(list) > cap(list)/4 {
		return list
	}
	return append(make([]T, 0, 2*len(list)), list...)
}
