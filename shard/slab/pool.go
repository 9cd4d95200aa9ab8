package slab

import (
	"fmt"
	"reflect"
	"unsafe"
)

// poolKeep is the most memory, in bytes, an empty region of a Pool may have touched to stay mapped:
// some hundreds of records come and go without a call to the system, and 512 drained shards keep
// 32 MiB at the very most.
const poolKeep = 64 << 10

// Pool holds records of one pointer-free type T, named by a dense uint32 index; index 0 is never
// given out, it means none. The zero value is not usable. One goroutine at a time may use a Pool.
//
// A pointer from Alloc or At is valid until Free of its index. After that the memory may be another
// record's or not mapped at all; the collector keeps nothing alive through it.
type Pool[T any] struct {
	a arena
	n int
}

// NewPool returns an empty pool that has no memory yet. It panics if T
// contains anything the garbage collector would have to follow.
func NewPool[T any]() *Pool[T] {
	t := reflect.TypeFor[T]()
	if path := pointerIn(t, t.String()); path != "" {
		panic(fmt.Sprintf("slab: NewPool: %s is a pointer, and the collector does not look here", path))
	}
	return &Pool[T]{a: newArena(stride[T](), poolKeep)}
}

// stride is the bytes between records: a constant for each T. A free record holds a 4-byte link.
func stride[T any]() uintptr {
	var p *T
	return (max(unsafe.Sizeof(*p), 4) + 3) &^ 3
}

// Alloc returns a zeroed record and its index, or 0, nil when the kernel gives
// no more memory (or 2^32 indices are used up).
func (p *Pool[T]) Alloc() (uint32, *T) {
	i, at := p.a.alloc()
	if i == 0 {
		return 0, nil
	}
	p.n++
	t := (*T)(at)
	var zero T
	*t = zero
	return i, t
}

// At returns record i, which must be in use: the pool does not check.
func (p *Pool[T]) At(i uint32) *T {
	return (*T)(unsafe.Add(p.a.bases[i>>(p.a.shift&31)], uintptr(i&p.a.mask)*stride[T]()))
}

// Free takes record i back, and unmaps its region if it was the last one
// there. It panics if i is not in use, so also when i is freed twice.
func (p *Pool[T]) Free(i uint32) {
	p.a.free(i)
	p.n--
}

// NextUsed finds the first record in use with index i or above. It reads at most the given number
// of words of 64 slots each. If it finds none in them, at is where to continue, or zero at the end.
func (p *Pool[T]) NextUsed(i uint32, words int) (at uint32, found bool) {
	return p.a.nextUsed(i, words)
}

// Len returns the number of records in use.
func (p *Pool[T]) Len() int { return p.n }

// MappedBytes returns the size of all mapped regions in bytes. What is
// resident is less: pages not yet touched cost nothing.
func (p *Pool[T]) MappedBytes() int { return p.a.mapped * p.a.bytes }

// Close unmaps everything at once. All indices and pointers are void.
func (p *Pool[T]) Close() {
	p.a.close()
	p.n = 0
}

// pointerIn returns the path of the first pointer inside t, or "".
func pointerIn(t reflect.Type, path string) string {
	switch k := t.Kind(); {
	case k >= reflect.Bool && k <= reflect.Complex128:
		return "" // all the plain kinds, uintptr among them
	case k == reflect.Array:
		return pointerIn(t.Elem(), path+"[]")
	case k == reflect.Struct:
		for f := range t.Fields() {
			if p := pointerIn(f.Type, path+"."+f.Name); p != "" {
				return p
			}
		}
		return ""
	}
	return path
}
