package shard

import (
	"fmt"
	"sync/atomic"
)

// line is the distance between words that different sides write: two 64-byte cache lines, because
// x86 prefetches them in pairs and some arm64 CPUs have lines of 128 bytes.
const line = 128

// A ring is a bounded lock-free queue with many producers and one consumer: the inbox of a shard.
//
// It is Vyukov's bounded queue with the consumer's side simplified. Every
// slot has a sequence word with the position that it is ready for, so producers and consumer
// synchronize in the slot and not by each other's index:
//
//	seq == 2*pos      free for the producer that claims position pos
//	seq == 2*pos+1    holds the value pushed at position pos
//
// Which store publishes what:
//
//	tail  CAS in Push     claims a position: from here on Empty is false
//	seq   store in Push   publishes the value to the consumer
//	seq   store in Pop    publishes the cleared slot to the producer one lap on
//	head  store in Pop    tells Len and Empty that the position is consumed
//
// All of them are Go atomics, which behave as sequentially consistent. So
// "push, then try to own" on one side and "release, then ask Empty" on the
// other cannot both miss: one of the two sees the other's store.
//
// Positions only increase and may wrap around; only differences are used.
//
// A ring holds at most a fixed number of values, first in first out in the order in which producers
// claimed their positions, hence in order for each producer. The zero value is not usable; a ring
// must not be copied.
//
// Source: D. Vyukov, "Bounded MPMC queue", 1024cores.net.
type ring[T any] struct {
	slots []slot[T]
	mask  uint64
	_     [line]byte
	tail  atomic.Uint64 // next position to claim; moved by producers
	_     [line]byte
	head  atomic.Uint64 // next position to take; moved by the consumer only
	_     [line]byte
}

type slot[T any] struct {
	seq   atomic.Uint64
	value T // owned by the side that seq names
}

// newRing returns an empty ring for capacity values. It panics unless capacity is
// a power of two (1 is one).
func newRing[T any](capacity int) *ring[T] {
	return newRingAt[T](capacity, 0)
}

// newRingAt is newRing with the first position given, so that a test can start close
// to the wrap-around.
func newRingAt[T any](capacity int, start uint64) *ring[T] {
	if capacity <= 0 || capacity&(capacity-1) != 0 {
		panic(fmt.Sprintf("ring: capacity %d is not a power of two", capacity))
	}
	r := &ring[T]{slots: make([]slot[T], capacity), mask: uint64(capacity) - 1}
	for i := range uint64(capacity) {
		pos := start + i
		r.slots[pos&r.mask].seq.Store(pos << 1)
	}
	r.tail.Store(start)
	r.head.Store(start)
	return r
}

// Push appends v, or reports false when the ring is full; it never waits for
// the consumer. Any number of goroutines may push at once.
//
// Once Push has returned true, Empty is false until v has been popped, and a
// consumer that synchronised after the return sees v: Pop gives it, unless a
// producer with an earlier position has not finished its own Push (see Pop).
func (r *ring[T]) Push(v T) bool {
	pos := r.tail.Load()
	for {
		s := &r.slots[pos&r.mask]
		switch d := int64(s.seq.Load() - pos<<1); {
		case d == 0:
			if r.tail.CompareAndSwap(pos, pos+1) {
				s.value = v
				s.seq.Store(pos<<1 | 1)
				return true
			}
		case d < 0:
			// The slot is still one lap behind. So no producer has claimed position pos: pos is
			// the tail, and the ring is full.
			return false
		}
		pos = r.tail.Load() // another producer took pos
	}
}

// Pop takes the oldest value. Only one goroutine at a time may call it; the
// consumer may change if the hand-over is a happens-before edge. The slot is
// cleared: the ring keeps nothing that was popped.
//
// ok is false when the ring is empty, and also when the producer of the oldest
// position has claimed it but not yet stored its value, even if later pushes
// are complete. Empty distinguishes the two: a consumer that gets !ok while Empty is false must
// call Pop again later, since nothing will wake it.
func (r *ring[T]) Pop() (v T, ok bool) {
	pos := r.head.Load()
	s := &r.slots[pos&r.mask]
	if s.seq.Load() != pos<<1|1 {
		return v, false
	}
	v = s.value
	var zero T
	s.value = zero
	s.seq.Store((pos + r.mask + 1) << 1)
	r.head.Store(pos + 1)
	return v, true
}

// Empty reports whether no position is claimed and unconsumed. If it is true, everything that a
// returned Push has added was consumed. For the consumer the answer is exact. For any other
// goroutine it was right at one moment of the call.
func (r *ring[T]) Empty() bool {
	// Head first: head never passes tail, so equality means that head had
	// still not moved, and nothing was left, when tail was read.
	head := r.head.Load()
	return r.tail.Load() == head
}

// Len returns the number of claimed positions not yet consumed, between 0 and
// the capacity. Any goroutine may ask; it is a hint in the sense of Empty.
func (r *ring[T]) Len() int {
	head := r.head.Load()
	return int(min(r.tail.Load()-head, r.mask+1))
}
