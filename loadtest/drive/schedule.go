package drive

import (
	"math"
	"math/rand/v2"
	"time"
)

// A schedule fixes when arrivals are due, before any of them happens: that is
// what keeps a stalled server from slowing the load down and hiding its own
// stall. Times are nanoseconds of Now.
type schedule struct {
	start int64
	step  float64    // nanoseconds between two commands of this lane
	sent  int64      // commands handed out (uniform)
	next  float64    // offset of the next arrival (poisson)
	rng   *rand.Rand // nil: uniform
}

// newSchedule spreads rate arrivals per second over lanes lanes. Lane i is
// shifted by its part of the step, so that lanes do not send in step. Poisson
// gaps are drawn from the lane's own seed.
func newSchedule(start int64, rate float64, lane, lanes int, poisson bool) *schedule {
	step := float64(time.Second) / rate * float64(lanes)
	s := &schedule{start: start + int64(step*float64(lane)/float64(lanes)), step: step}
	if poisson {
		s.rng = rand.New(rand.NewPCG(uint64(lane), 0x9e3779b97f4a7c15))
		s.next = s.rng.ExpFloat64() * step
	}
	return s
}

// take returns when the next n commands, sent together, are due.
func (s *schedule) take(n int) int64 {
	if s.rng == nil {
		due := s.start + int64(float64(s.sent)*s.step)
		s.sent += int64(n)
		return due
	}
	due := s.start + int64(s.next)
	for range n {
		s.next += s.rng.ExpFloat64() * s.step
	}
	return due
}

// before returns how many more arrivals are due before t; an estimate if they
// are random.
func (s *schedule) before(t int64) int64 {
	if left := t - s.peek(); left > 0 {
		return int64(math.Ceil(float64(left) / s.step))
	}
	return 0
}

// peek returns when the next command is due, without taking it.
func (s *schedule) peek() int64 {
	if s.rng == nil {
		return s.start + int64(float64(s.sent)*s.step)
	}
	return s.start + int64(s.next)
}
