package router

import (
	"runtime/debug"
	"time"

	"polystalk/shard"
)

// Jobs and bodies are unmapped as they go; heaps and tables of the collector's
// heap are not given back before it runs, which on a drained and idle server is
// minutes away. So it is run when jobs have become few.
const (
	reclaimEvery = 2 * time.Second
	// reclaimMin jobs need some megabytes of heaps and tables; below that
	// nothing is worth a collection.
	reclaimMin = 100_000
)

// A drainWatch notices when jobs have become few.
type drainWatch struct{ peak uint64 }

// fell reports whether the number of jobs has halved since it was highest,
// or since fell last said so.
func (w *drainWatch) fell(jobs uint64) bool {
	w.peak = max(w.peak, jobs)
	if w.peak < reclaimMin || jobs > w.peak/2 {
		return false
	}
	w.peak = jobs
	return true
}

// reclaim runs until quit is closed.
func (s *Server) reclaim(quit <-chan struct{}) {
	b := shard.Batch{Home: visitor{}}
	var w drainWatch
	tick := time.NewTicker(reclaimEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		b.Now = s.clock()
		if jobs, ok := s.jobs(&b); ok && w.fell(jobs) {
			debug.FreeOSMemory()
		}
	}
}

// jobs counts the jobs of all shards; ok is false when one of them was busy.
func (s *Server) jobs(b *shard.Batch) (n uint64, ok bool) {
	for _, sh := range s.shards {
		if !sh.Own(b) {
			return 0, false
		}
		c := sh.Counts()
		sh.Release(b)
		n += c.Ready + c.Reserved + c.Delayed + c.Buried
	}
	return n, true
}

// visitor is the Home of one who sends no messages.
type visitor struct{}

func (visitor) Post(*shard.Message) { panic("router: a message came to a visitor") }
