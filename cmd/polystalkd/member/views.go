package member

import (
	"sync"

	"polystalk/router/cluster"
)

// A views has who leads, and who the members are, be heard in order. The node tells each change
// from a goroutine of its own, and may have begun to before there is anyone to ask for what it
// knows: whoever has read an older view must not tell that after a later one, which would stay
// until the next change.
type views struct {
	tell func(cluster.View) // of one at a time

	mu     sync.Mutex
	latest func() (cluster.View, <-chan struct{}) // nil: begin was not called
}

// begin tells what is known now, and from then on what is known whenever there are news.
func (s *views) begin(latest func() (cluster.View, <-chan struct{})) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = latest
	v, _ := latest()
	s.tell(v)
}

// hear takes in a view that is another.
func (s *views) hear(v cluster.View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest != nil {
		v, _ = s.latest()
	}
	s.tell(v)
}
