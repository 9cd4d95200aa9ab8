package slab

import (
	"fmt"
	"math/bits"
	"unsafe"
)

const (
	regionTarget = 1 << 20 // bytes of slots in a region, within [0.75, 1.5) where slotsMin allows
	slotsMin     = 8       // slots in a region, however large they are
	headerAlign  = 64      // slots start on a cache line
)

// An arena hands out slots of one size, numbered region<<shift + slot. Every
// slot of a mapped region is in exactly one of three places:
//
//	in use        its bit in the region's header is set
//	free list     freed before; its first 4 bytes hold the next free slot
//	fresh         number >= region.fresh; never handed out since the region
//	              was last empty, so its page may never have been touched
//
// A region is one mapping:
//
//	0                        header                               bytes
//	+------------------------+--------+--------+---- … --+--------+
//	| in-use bits, a u64 per | slot 0 | slot 1 |         |  pad   |
//	| 64 slots, little first |        |        |         | to page|
//	+------------------------+--------+--------+---- … --+--------+
//
// The bits stand beside the first slots, so that a region with one slot in use
// has one page resident (two if it has more than 16,384 slots).
//
// Slot 0 of region 0 is never handed out, so that index 0 means none.
type arena struct {
	// bases[r] is the address of slot 0 of region r, nil while r is unmapped.
	// Apart from regions because At reads nothing else.
	bases []unsafe.Pointer
	shift uint8
	mask  uint32 // slots per region - 1

	cur     int32 // least region with a free slot, -1 if none
	spare   int32 // region left mapped when it became empty; a hint, see empty
	stride  uintptr
	regions []region

	open   set // regions with a free slot
	holes  set // unmapped region numbers below len(regions)
	header int // bytes
	bytes  int // of a region, a multiple of the page size
	keep   int // most bytes an empty region may have touched to stay as spare
	mapped int // regions

	_ [40]byte // 248 bytes, and with a Pool's n 256: see regionsMin

	keeper bool // Bytes lets this class keep its spare
}

type region struct {
	used  uint32 // slots in use
	fresh uint32 // first fresh slot
	free  uint32 // head of the free list as slot + 1, 0 if empty
}

// regionsMin is the number of regions for which there is room at once: 384 bytes, so that the words
// that every alloc and free writes share no cache line with the words of another core's arena.
const regionsMin = 32

// newArena returns an arena of slots of stride bytes, a multiple of 4.
func newArena(stride uintptr, keep int) arena {
	// The greatest power of two with at most 1.5 times the target.
	slots := 1 << (bits.Len(uint(regionTarget*3/2/stride)|1) - 1)
	slots = max(slots, slotsMin)
	header := (max(slots/64, 1)*8 + headerAlign - 1) &^ (headerAlign - 1)
	size := header + slots*int(stride)
	return arena{
		shift:  uint8(bits.TrailingZeros(uint(slots))),
		mask:   uint32(slots - 1),
		cur:    -1,
		spare:  -1,
		stride: stride,
		header: header,
		bytes:  (size + pageSize - 1) &^ (pageSize - 1),
		keep:   max(keep, header+int(stride)),
	}
}

// alloc returns a slot with whatever bytes it had before, or 0, nil when no
// memory can be had. It takes from the lowest region with a free slot, so
// that what lives long gathers there and high regions become empty.
func (a *arena) alloc() (uint32, unsafe.Pointer) {
	if a.cur < 0 && !a.addRegion() {
		return 0, nil
	}
	n := a.cur
	r, base := &a.regions[n], a.bases[n]
	var slot uint32
	var p unsafe.Pointer
	if r.free != 0 {
		slot = r.free - 1
		p = unsafe.Add(base, uintptr(slot)*a.stride)
		r.free = *(*uint32)(p)
	} else {
		slot = r.fresh
		p = unsafe.Add(base, uintptr(slot)*a.stride)
		r.fresh++
	}
	r.used++
	word, bit := a.bit(base, slot)
	*word |= bit
	if r.free == 0 && r.fresh > a.mask {
		a.open.remove(int(n))
		a.cur = int32(a.open.min())
	}
	return uint32(n)<<a.shift | slot, p
}

// free takes slot i back. It reports whether i's region became empty and was
// kept as the spare. It panics if i is not in use.
func (a *arena) free(i uint32) (kept bool) {
	n, slot := int32(i>>a.shift), i&a.mask
	if int(n) >= len(a.bases) || a.bases[n] == nil {
		panic(fmt.Sprintf("slab: free of slot %d (%d bytes): region %d is not mapped", i, a.stride, n))
	}
	r, base := &a.regions[n], a.bases[n]
	word, bit := a.bit(base, slot)
	if *word&bit == 0 {
		panic(fmt.Sprintf("slab: free of slot %d (%d bytes), which is not in use", i, a.stride))
	}
	*word &^= bit
	if r.free == 0 && r.fresh > a.mask { // was full
		a.open.add(int(n))
		if a.cur < 0 || n < a.cur {
			a.cur = n
		}
	}
	*(*uint32)(unsafe.Add(base, uintptr(slot)*a.stride)) = r.free
	r.free = slot + 1
	r.used--
	if r.used == 0 {
		return a.empty(n)
	}
	return false
}

// at returns the address of slot i, which must be in use.
func (a *arena) at(i uint32) unsafe.Pointer {
	return unsafe.Add(a.bases[i>>(a.shift&31)], uintptr(i&a.mask)*a.stride)
}

// bit returns where the header of the region at base says slot is in use.
func (a *arena) bit(base unsafe.Pointer, slot uint32) (word *uint64, bit uint64) {
	word = (*uint64)(unsafe.Add(base, int(slot/64)*8-a.header))
	return word, 1 << (slot % 64)
}

// nextUsed is Pool.NextUsed.
func (a *arena) nextUsed(i uint32, words int) (at uint32, found bool) {
	n, slot := int(i>>a.shift), i&a.mask
	for ; n < len(a.bases); n, slot = n+1, 0 {
		r := &a.regions[n]
		if a.bases[n] == nil || r.used == 0 {
			slot = r.fresh
		}
		// What is not below fresh was never handed out.
		for ; slot < r.fresh; slot = (slot/64 + 1) * 64 {
			if words--; words < 0 {
				return uint32(n)<<a.shift | slot, false
			}
			word, _ := a.bit(a.bases[n], slot)
			if left := *word >> (slot % 64); left != 0 {
				return uint32(n)<<a.shift | slot + uint32(bits.TrailingZeros64(left)), true
			}
		}
		if words--; words < 0 && n+1 < len(a.bases) {
			return uint32(n+1) << a.shift, false
		}
	}
	return 0, false
}

// empty keeps or unmaps region n after its last slot was freed.
//
// It stays mapped, as the spare, if it touched at most keep bytes: then a
// queue that swings between nothing and little costs no system call. If it
// touched more, its memory goes back: mapping anew and the page faults are
// paid for by the work that filled those bytes. Two empty regions never stay.
func (a *arena) empty(n int32) (kept bool) {
	slots := a.regions[n].fresh
	if n == 0 {
		slots-- // slot 0 stays untouched
	}
	touched := a.header + int(slots)*int(a.stride)
	a.rewind(n)
	if touched > a.keep {
		a.unmap(n)
		return false
	}
	if s := a.spare; s != n && a.isEmpty(s) {
		a.unmap(max(s, n))
		n = min(s, n)
	}
	a.spare = n
	return true
}

// isEmpty reports whether region n is mapped and has no slot in use. The spare
// hint may name a region that is in use again, or gone.
func (a *arena) isEmpty(n int32) bool {
	return n >= 0 && int(n) < len(a.bases) && a.bases[n] != nil && a.regions[n].used == 0
}

// dropSpare unmaps the empty region, if there is one.
func (a *arena) dropSpare() {
	if a.isEmpty(a.spare) {
		a.unmap(a.spare)
	}
	a.spare = -1
}

// rewind makes all slots of region n, which has none in use, fresh.
func (a *arena) rewind(n int32) {
	a.regions[n] = region{}
	if n == 0 {
		a.regions[n].fresh = 1
	}
}

// addRegion maps a region under the lowest number not mapped and makes it
// current. It reports false when memory or 32-bit indices have run out.
func (a *arena) addRegion() bool {
	n := a.holes.min()
	if n < 0 {
		n = len(a.regions)
	}
	if uint64(n+1)<<a.shift > 1<<32 {
		return false
	}
	p := mapMemory(a.bytes)
	if p == nil {
		return false
	}
	if n == len(a.regions) {
		if cap(a.regions) == 0 {
			a.regions = make([]region, 0, regionsMin)
		}
		a.regions = append(a.regions, region{})
		a.bases = append(a.bases, nil)
	}
	a.holes.remove(n)
	a.bases[n] = unsafe.Add(p, a.header)
	a.rewind(int32(n))
	a.mapped++
	a.open.add(n)
	a.cur = int32(n)
	return true
}

// unmap gives region n's memory back; nothing in it may be in use. When the
// kernel refuses, the region stays, empty and usable.
func (a *arena) unmap(n int32) bool {
	if !unmapMemory(unsafe.Add(a.bases[n], -a.header), a.bytes) {
		return false
	}
	a.bases[n] = nil
	a.mapped--
	a.open.remove(int(n))
	a.holes.add(int(n))
	for last := len(a.bases) - 1; last >= 0 && a.bases[last] == nil; last-- {
		a.bases = a.bases[:last]
		a.regions = a.regions[:last]
		a.holes.remove(last)
	}
	if a.cur == n {
		a.cur = int32(a.open.min())
	}
	return true
}

// close unmaps everything, in use or not. The arena is as new afterwards.
func (a *arena) close() {
	for _, base := range a.bases {
		if base != nil {
			unmapMemory(unsafe.Add(base, -a.header), a.bytes)
		}
	}
	a.bases, a.regions, a.mapped = nil, nil, 0
	a.open, a.holes = set{}, set{}
	a.cur, a.spare = -1, -1
}
