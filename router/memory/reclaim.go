package memory

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Jobs and bodies are unmapped as they go; what heaps and tables leave on the
// collector's heap is not given back before it runs, which on an emptied and
// idle server is minutes away, and then only slowly. So it is run when the
// heap is much too large, or once when it has come to rest.
const (
	reclaimEvery = 2 * time.Second
	// reclaimMin bytes of heap are not worth a collection.
	reclaimMin = 12 << 20
	// reclaimRest is the change between two looks that counts as none.
	reclaimRest = 1 << 20
)

// A heapWatch decides when the heap should be collected and given back.
type heapWatch struct {
	last    uint64 // bytes of objects at the last look
	resting uint64 // the same when it was last collected at rest
}

// due takes the bytes of objects, dead ones included, and of free memory that
// the process still has.
func (w *heapWatch) due(objects, free uint64) bool {
	rest := near(objects, w.last)
	w.last = objects
	if objects+free < reclaimMin {
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

func near(a, b uint64) bool { return max(a, b)-min(a, b) < reclaimRest }

// Reclaim has the collector run when that gives back much: after large bodies were freed,
// and when the heap is much too large, or has come to rest. It returns when quit is closed;
// one goroutine may run it.
func Reclaim(freed *Freed, quit <-chan struct{}) {
	heap := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	var w heapWatch
	tick := time.NewTicker(reclaimEvery)
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
