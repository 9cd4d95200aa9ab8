package router

import (
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// The memory of small jobs is in slabs, which are unmapped with the jobs. Large bodies and old
// tables are on the Go heap, which shrinks only after minutes on an idle server. So the server
// collects the heap and returns its memory to the system: after large bodies were freed, when
// more than half of the heap is free, and once when the heap has stopped changing.
const (
	// freedMin bytes of freed large bodies cause a collection, once no more were freed for
	// freedQuiet. freedMost bytes cause one at once.
	freedMin   = 16 << 20
	freedMost  = 256 << 20
	freedQuiet = 100 * time.Millisecond

	collectEvery = 2 * time.Second
	// collectMin is the smallest heap, in bytes, that is collected.
	collectMin = 12 << 20
	// heapRest bounds the change, in bytes, of a resting heap in collectEvery.
	heapRest = 1 << 20
)

// freedBodies counts the bytes of large bodies that no job has any more, since the last
// collection. Safe for concurrent use.
type freedBodies struct {
	bytes  atomic.Int64
	enough chan struct{} // receives when an addition leaves at least freedMin
}

func newFreedBodies() *freedBodies { return &freedBodies{enough: make(chan struct{}, 1)} }

// add adds n bytes. The caller may own a shard.
func (f *freedBodies) add(n int) {
	if f.bytes.Add(int64(n)) < freedMin {
		return
	}
	select {
	case f.enough <- struct{}{}:
	default:
	}
}

// settle waits until no more bodies were freed for freedQuiet, or freedMost bytes were, and resets
// the count.
func (f *freedBodies) settle() {
	for before := int64(0); ; time.Sleep(freedQuiet) {
		n := f.bytes.Load()
		if n == before || n >= freedMost {
			f.bytes.Add(-n)
			return
		}
		before = n
	}
}

// A heapWatch decides when the heap should be collected and returned.
type heapWatch struct {
	last    uint64 // bytes of objects at the last call of due
	resting uint64 // bytes of objects at the last collection of a resting heap
}

// due reports whether the heap should be collected now. objects is the bytes of objects, including
// dead ones; free is the bytes of free memory that was not returned to the system.
func (w *heapWatch) due(objects, free uint64) bool {
	rest := near(objects, w.last)
	w.last = objects
	if objects+free < collectMin {
		return false
	}
	if free > objects {
		return rest
	}
	if !rest || near(objects, w.resting) {
		return false
	}
	w.resting = objects
	return true
}

// collected notes the bytes of objects after a collection.
func (w *heapWatch) collected(objects uint64) { w.last, w.resting = objects, objects }

func near(a, b uint64) bool { return max(a, b)-min(a, b) < heapRest }

// collectHeap collects the heap when that frees much memory. It runs until quit is closed.
func collectHeap(freed *freedBodies, quit <-chan struct{}) {
	heap := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	var w heapWatch
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-freed.enough:
			if freed.bytes.Load() < freedMin {
				continue // the last collection included them
			}
			freed.settle()
		case <-tick.C:
			metrics.Read(heap)
			if !w.due(heap[0].Value.Uint64(), heap[1].Value.Uint64()) {
				continue
			}
		}
		debug.FreeOSMemory()
		metrics.Read(heap)
		w.collected(heap[0].Value.Uint64())
	}
}
