package workload

import (
	"sync"
	"sync/atomic"
)

// A Growth is how fast jobs were submitted while their queue was short and when
// it had grown: the rates over the first and over the last tenth of them, per
// second. Zero rates are not known.
type Growth struct {
	Early float64 `json:"early_per_second"`
	Late  float64 `json:"late_per_second"`
}

// EarlyRate is zero, as what is not known, if there is no g.
func (g *Growth) EarlyRate() float64 {
	if g == nil {
		return 0
	}
	return g.Early
}

// LateRate is zero, as what is not known, if there is no g.
func (g *Growth) LateRate() float64 {
	if g == nil {
		return 0
	}
	return g.Late
}

// Sustained is the part of the early rate that is left.
func (g *Growth) Sustained() float64 {
	if g.EarlyRate() == 0 {
		return 0
	}
	return g.Late / g.Early
}

// Plus adds what another process submitted at the same time.
func (g *Growth) Plus(h *Growth) *Growth {
	if g == nil || h == nil {
		if g == nil {
			return h
		}
		return g
	}
	return &Growth{Early: g.Early + h.Early, Late: g.Late + h.Late}
}

// growthStep is how many jobs lie between two times that are kept.
const growthStep = 1000

// A Milestones counts the jobs of all lanes and notes when each step of them was
// done.
type Milestones struct {
	n     atomic.Int64
	mu    sync.Mutex
	times []int64 // times[i]: job (i+1)*growthStep was done
}

// Add counts one job that was done at the time at.
func (m *Milestones) Add(at int64) {
	n := m.n.Add(1)
	if n%growthStep != 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// Two lanes may come here in the wrong order; the later time is the truth
	// for both.
	for int64(len(m.times)) < n/growthStep {
		m.times = append(m.times, at)
	}
}

// Growth returns the rates since start, or nil if there were too few jobs.
func (m *Milestones) Growth(start int64) *Growth {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := len(m.times) - 1
	tenth := len(m.times) / 10
	if tenth == 0 {
		return nil
	}
	rate := func(from, to int64) float64 { return float64(tenth*growthStep) * 1e9 / float64(max(1, to-from)) }
	return &Growth{Early: rate(start, m.times[tenth-1]), Late: rate(m.times[last-tenth], m.times[last])}
}
