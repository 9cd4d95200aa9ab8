package router

import (
	"sync/atomic"
	"time"
)

// freedBodies are large bodies that no job has any more, in bytes, since they were last
// collected. They lie on the collector's heap, which would be in no hurry: it runs when
// as much again was allocated.
type freedBodies struct {
	bytes atomic.Int64
	told  chan struct{} // something was added
}

const (
	// freedMin bytes are worth a collection of their own once no more come for
	// freedPause, freedMost at once.
	freedMin   = 16 << 20
	freedMost  = 256 << 20
	freedPause = 100 * time.Millisecond
)

func newFreedBodies() *freedBodies { return &freedBodies{told: make(chan struct{}, 1)} }

// add counts n bytes more. It may be called while a shard is owned.
func (f *freedBodies) add(n int) {
	if f.bytes.Add(int64(n)) < freedMin {
		return
	}
	select {
	case f.told <- struct{}{}:
	default:
	}
}

// due reports whether they are to be collected now; before is what it saw freedPause
// ago. Then they count no more.
func (f *freedBodies) due(before int64) bool {
	n := f.bytes.Load()
	if n < freedMin || n != before && n < freedMost {
		return false
	}
	f.bytes.Add(-n)
	return true
}
