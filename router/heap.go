package router

import (
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// Jobs in slabs are unmapped when they go. Large bodies, and what tables and heaps leave
// behind, are on the Go heap, which shrinks minutes later on an idle server. So a server
// collects the heap and returns it to the system itself: after large bodies were freed,
// when the heap is much too large, and once when it has come to rest.
const (
	// freedMin bytes of large bodies are worth a collection after freedQuiet without more
	// of them, freedMost at once.
	freedMin   = 16 << 20
	freedMost  = 256 << 20
	freedQuiet = 100 * time.Millisecond

	collectEvery = 2 * time.Second
	// collectMin bytes of heap are not worth a collection.
	collectMin = 12 << 20
	// heapRest is the largest change between two looks at a resting heap.
	heapRest = 1 << 20
)

// freedBodies counts the bytes of large bodies that no job has any more, since they were
// last collected. Safe for concurrent use.
type freedBodies struct {
	bytes  atomic.Int64
	enough chan struct{} // receives when an addition leaves at least freedMin
}

func newFreedBodies() *freedBodies { return &freedBodies{enough: make(chan struct{}, 1)} }

// add counts n bytes more. It may be called while a shard is owned.
func (f *freedBodies) add(n int) {
	if f.bytes.Add(int64(n)) < freedMin {
		return
	}
	select {
	case f.enough <- struct{}{}:
	default:
	}
}

// due reports whether the bodies are to be collected now, and then counts them no more.
// before is the number of bytes freedQuiet ago.
func (f *freedBodies) due(before int64) bool {
	n := f.bytes.Load()
	if n < freedMin || n != before && n < freedMost {
		return false
	}
	f.bytes.Add(-n)
	return true
}

// A heapWatch decides when the heap should be collected and returned.
type heapWatch struct {
	last    uint64 // bytes of objects at the last look
	resting uint64 // the same when it was last collected at rest
}

// due takes the bytes of objects, dead ones included, and of free memory that the process
// still has.
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

// collected notes what is left after a collection.
func (w *heapWatch) collected(objects uint64) { w.last, w.resting = objects, objects }

func near(a, b uint64) bool { return max(a, b)-min(a, b) < heapRest }

// collectHeap collects the heap when that returns much. It runs until quit is closed.
func collectHeap(freed *freedBodies, quit <-chan struct{}) {
	heap := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	var w heapWatch
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	quiet := time.NewTimer(freedQuiet)
	defer quiet.Stop()
	before, armed := int64(0), true
	for {
		now := false
		select {
		case <-quit:
			return
		case <-freed.enough:
			if armed {
				continue
			}
		case <-quiet.C:
			armed = false
			now = freed.due(before)
		case <-tick.C:
			metrics.Read(heap)
			now = w.due(heap[0].Value.Uint64(), heap[1].Value.Uint64())
		}
		if now {
			debug.FreeOSMemory()
			metrics.Read(heap)
			w.collected(heap[0].Value.Uint64())
		}
		if before = freed.bytes.Load(); before >= freedMin && !armed {
			armed = true
			quiet.Reset(freedQuiet)
		}
	}
}
