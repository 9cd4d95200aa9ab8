package bench

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Memory is what a workload about memory found, in bytes of the server's resident memory.
type Memory struct {
	Jobs       int64 `json:"jobs"`
	BodyBytes  int   `json:"body_bytes"`
	RSSEmpty   int64 `json:"rss_empty"`
	RSSFull    int64 `json:"rss_full"`
	RSSDrained int64 `json:"rss_drained"` // after the settling time
}

// bytesPerJob returns the resident memory per ready job, body included.
func (m *Memory) bytesPerJob() float64 {
	if m.Jobs == 0 {
		return 0
	}
	return float64(m.RSSFull-m.RSSEmpty) / float64(m.Jobs)
}

// kept returns the part of that memory that is resident after the drain.
func (m *Memory) kept() float64 {
	if m.RSSFull <= m.RSSEmpty {
		return 0
	}
	return max(0, float64(m.RSSDrained-m.RSSEmpty)/float64(m.RSSFull-m.RSSEmpty))
}

// memory reads the server's resident memory before fill, which returns how many jobs it
// left there, a second after it, and when drain has taken them out and the settling time
// has passed.
type memory struct {
	workload
	fill  func(ph *phase) (int64, error)
	drain func(ph *phase) error
}

func (w *memory) run(ph *phase) error {
	if ph.ServerPID == 0 {
		return errNoPID
	}
	m := &ph.memory
	m.BodyBytes, ph.count = ph.Load.Body, 0
	for _, step := range []func() error{
		func() (err error) { m.RSSEmpty, err = RSS(ph.ServerPID); return err },
		func() (err error) { m.Jobs, err = w.fill(ph); return err },
		func() error { return ph.rest(time.Second) },
		func() (err error) { m.RSSFull, err = RSS(ph.ServerPID); return err },
		func() error { return w.drain(ph) },
		func() error { return ph.rest(ph.Load.Settle) },
		func() (err error) { m.RSSDrained, err = RSS(ph.ServerPID); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// A growth is how fast jobs were submitted while their queue was short and when it had
// grown: the rates over the first and over the last tenth of them, per second.
type growth struct {
	Early float64 `json:"early_per_second"`
	Late  float64 `json:"late_per_second"`
}

// milestones notes when each thousandth job of all lanes was done.
type milestones struct {
	n     atomic.Int64
	mu    sync.Mutex
	times []int64 // times[i]: job (i+1)*growthStep was done
}

const growthStep = 1000

// add counts one job that was done at at.
func (m *milestones) add(at int64) {
	n := m.n.Add(1)
	if n%growthStep != 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for int64(len(m.times)) < n/growthStep { // two lanes may arrive in the wrong order
		m.times = append(m.times, at)
	}
}

// growth returns the rates since start, or zeros if there were too few jobs.
func (m *milestones) growth(start int64) (g growth) {
	last, tenth := len(m.times)-1, len(m.times)/10
	if tenth == 0 {
		return g
	}
	rate := func(from, to int64) float64 { return float64(tenth*growthStep) * 1e9 / float64(max(1, to-from)) }
	return growth{Early: rate(start, m.times[tenth-1]), Late: rate(m.times[last-tenth], m.times[last])}
}
