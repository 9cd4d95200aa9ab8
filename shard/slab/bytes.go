package slab

import (
	"fmt"
	"math/bits"
	"unsafe"
)

// MaxSize is the longest string Bytes holds, in bytes.
const MaxSize = 65536

const (
	grain     = 16  // bytes; sizes up to linearMax are multiples of it
	linearMax = 128 // above, 8 classes for each doubling: steps of 6 to 12.5 %
	classMax  = linearMax/grain + 8*9

	// Most bytes a class's empty region may have touched to stay: some slots,
	// or a few strings that come and go would map, fault in and unmap a
	// region each time, which for 60 KiB costs more than the network does.
	classKeep = 16 << 10
	largeKeep = 256 << 10
	spareMax  = 512 << 10 // most bytes all empty regions of one Bytes keep
)

var (
	classSize [classMax]uint32         // bytes of a slot
	classOf   [MaxSize/grain + 1]uint8 // by (n+grain-1)/grain
)

// init fills the tables of classes: steps of 16 bytes at first, then of an eighth.
func init() {
	size, class := 0, 0
	for unit := range classOf {
		if n := unit * grain; n > size {
			if size > 0 {
				class++
			}
			// Steps are an eighth of the power of two at or below size.
			step := max(grain, 1<<bits.Len(uint(size))/16)
			size += step
			classSize[class] = uint32(size)
		}
		classOf[unit] = uint8(class)
	}
}

// Bytes stores byte strings of up to MaxSize bytes in 80 size classes, each with regions of its
// own. A string is named by a reference and its length; the same reference means different strings
// in different classes, so the length must always be the one given to Put. One goroutine at a time
// may use a Bytes; the zero value is not usable.
type Bytes struct {
	classes [classMax]*arena // nil until first used

	// Classes that may keep an empty region, oldest first, and the sum of
	// their keep. A class joins when a region of it becomes empty and pushes
	// out the oldest: memory stays where the traffic is.
	keepers   []*arena
	keepBytes int
}

// NewBytes returns an empty store that has no memory yet.
func NewBytes() *Bytes { return &Bytes{} }

// Put copies data and returns its reference; ref 0 stands for the empty string alone. ok is false
// when the kernel gives no more memory. It panics if data is longer than MaxSize.
func (b *Bytes) Put(data []byte) (ref uint32, ok bool) {
	if len(data) == 0 {
		return 0, true
	}
	if len(data) > MaxSize {
		panic(fmt.Sprintf("slab: Put of %d bytes, more than %d", len(data), MaxSize))
	}
	class := classOf[(len(data)+grain-1)/grain]
	a := b.classes[class]
	if a == nil {
		a = new(arena)
		*a = newArena(uintptr(classSize[class]), max(classKeep, min(8*int(classSize[class]), largeKeep)))
		b.classes[class] = a
	}
	ref, p := a.alloc()
	if ref == 0 {
		return 0, false
	}
	copy(unsafe.Slice((*byte)(p), len(data)), data)
	return ref, true
}

// Get returns the string that Put named ref; n is its length. The slice is the
// store's own memory with no capacity beyond n, and valid until Free.
func (b *Bytes) Get(ref uint32, n int) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(b.classes[classOf[(n+grain-1)/grain]].at(ref)), n)
}

// Free drops string ref of length n, and unmaps its region if it was the last
// one there. It panics if the class of n has no such string in use.
func (b *Bytes) Free(ref uint32, n int) {
	if n == 0 && ref == 0 {
		return
	}
	if n <= 0 || n > MaxSize || b.classes[classOf[(n+grain-1)/grain]] == nil {
		panic(fmt.Sprintf("slab: free of string %d of %d bytes: none of that size is in use", ref, n))
	}
	a := b.classes[classOf[(n+grain-1)/grain]]
	if a.free(ref) && !a.keeper {
		b.keep(a)
	}
}

// keep lets a keep its empty region, at the cost of those that have had the right for longest.
func (b *Bytes) keep(a *arena) {
	a.keeper = true
	b.keepers = append(b.keepers, a)
	b.keepBytes += a.keep
	for b.keepBytes > spareMax {
		old := b.keepers[0]
		b.keepers = append(b.keepers[:0], b.keepers[1:]...)
		b.keepBytes -= old.keep
		old.keeper = false
		old.dropSpare()
	}
}

// Len returns the number of strings in use, empty ones not counted.
func (b *Bytes) Len() int {
	n := 0
	for _, a := range b.classes {
		if a == nil {
			continue
		}
		for i := range a.regions {
			n += int(a.regions[i].used)
		}
	}
	return n
}

// MappedBytes returns the size of all mapped regions in bytes. What is
// resident is less: pages not yet touched cost nothing.
func (b *Bytes) MappedBytes() int {
	sum := 0
	for _, a := range b.classes {
		if a != nil {
			sum += a.mapped * a.bytes
		}
	}
	return sum
}

// Close unmaps everything at once. All references and slices are void.
func (b *Bytes) Close() {
	for _, a := range b.classes {
		if a != nil {
			a.close()
		}
	}
	*b = Bytes{}
}
