package bench

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Memory is the result of a workload about memory, in bytes of the server's resident memory.
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

// kept returns the fraction of the jobs' memory that is still resident after the drain.
func (m *Memory) kept() float64 {
	if m.RSSFull <= m.RSSEmpty {
		return 0
	}
	return max(0, float64(m.RSSDrained-m.RSSEmpty)/float64(m.RSSFull-m.RSSEmpty))
}

// memoryRunner reads the server's resident memory three times: before fill, a second after fill, and
// after drain and the settling time. fill returns the number of jobs that it put, and drain takes
// them out.
func memoryRunner(fill func(ph *phase) (int64, error), drain runner) runner {
	return func(ph *phase) (err error) {
		if ph.ServerPID == 0 {
			return errNoPID
		}
		rss := func(to *int64) {
			if err == nil {
				*to, err = RSS(ph.ServerPID)
			}
		}
		rest := func(d time.Duration) { // untimed
			if err == nil {
				err = ph.untimed(func() error {
					select {
					case <-time.After(d):
					case <-ph.ended:
					}
					return ph.failure()
				})
			}
		}
		m := &ph.memory
		m.BodyBytes, ph.count = ph.Load.Body, 0
		if rss(&m.RSSEmpty); err == nil {
			m.Jobs, err = fill(ph)
		}
		rest(time.Second)
		if rss(&m.RSSFull); err == nil {
			err = drain(ph)
		}
		rest(ph.Load.Settle)
		rss(&m.RSSDrained)
		return err
	}
}

// A growth compares the speed of submissions while the queue was short and after it had grown: the
// rates of the first and of the last tenth of the jobs, per second.
type growth struct {
	Early float64 `json:"early_per_second"`
	Late  float64 `json:"late_per_second"`
}

// milestones records when each thousandth job of all lanes was done.
type milestones struct {
	n     atomic.Int64
	mu    sync.Mutex
	times []int64 // times[i]: job (i+1)*growthStep was done
}

const growthStep = 1000

// add counts one job that was done at the time at.
func (m *milestones) add(at int64) {
	n := m.n.Add(1)
	if n%growthStep != 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for int64(len(m.times)) < n/growthStep { // two lanes may arrive in reverse order
		m.times = append(m.times, at)
	}
}

// growth returns the rates since start; zeros: there were too few jobs.
func (m *milestones) growth(start int64) (g growth) {
	last, tenth := len(m.times)-1, len(m.times)/10
	if tenth == 0 {
		return g
	}
	rate := func(from, to int64) float64 { return float64(tenth*growthStep) * 1e9 / float64(max(1, to-from)) }
	return growth{Early: rate(start, m.times[tenth-1]), Late: rate(m.times[last-tenth], m.times[last])}
}
