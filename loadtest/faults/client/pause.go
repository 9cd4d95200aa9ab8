package client

import (
	"sync"
	"time"

	"polystalk/loadtest/bench"
)

// A Pause measures how long no put was acknowledged to any client. It may be used by
// several goroutines.
type Pause struct {
	mu      sync.Mutex
	last    int64 // when a put was acknowledged
	longest int64 // since Begin
	count   int64
}

// acknowledged tells of a put whose answer came at that time.
func (p *Pause) acknowledged(at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	if at > p.last {
		p.longest = max(p.longest, at-p.last)
		p.last = at
	}
}

// Begin has measuring begin anew: the time before now does not count.
func (p *Pause) Begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.longest = bench.Now(), 0
}

// Longest is the longest since Begin, up to now.
func (p *Pause) Longest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(max(p.longest, bench.Now()-p.last))
}

// Count is how many puts were acknowledged since the Pause was made.
func (p *Pause) Count() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}
