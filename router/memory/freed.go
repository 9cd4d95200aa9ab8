package memory

import (
	"sync/atomic"
	"time"
)

// Freed are large bodies that no job has any more, in bytes, since they were last
// collected. They lie on the collector's heap, which would be in no hurry: it runs when
// as much again was allocated. Safe for concurrent use.
type Freed struct {
	bytes  atomic.Int64
	enough chan struct{} // something was added, and there is enough to be collected
}

const (
	// freedMin bytes are worth a collection of their own once no more come for
	// freedQuiet, freedMost at once.
	freedMin   = 16 << 20
	freedMost  = 256 << 20
	freedQuiet = 100 * time.Millisecond
)

// NewFreed is for a server that has freed nothing yet; Reclaim collects what it will.
func NewFreed() *Freed { return &Freed{enough: make(chan struct{}, 1)} }

// Add counts n bytes more. It may be called while a shard is owned.
func (f *Freed) Add(n int) {
	if f.bytes.Add(int64(n)) < freedMin {
		return
	}
	select {
	case f.enough <- struct{}{}:
	default:
	}
}

// Bytes is how many there are.
func (f *Freed) Bytes() int64 { return f.bytes.Load() }

// due reports whether they are to be collected now; before is what it saw freedQuiet
// ago. Then they count no more.
func (f *Freed) due(before int64) bool {
	n := f.bytes.Load()
	if n < freedMin || n != before && n < freedMost {
		return false
	}
	f.bytes.Add(-n)
	return true
}
