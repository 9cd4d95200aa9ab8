package workload

import (
	"sync"
	"testing"
)

func TestGrowthComparesTheFirstAndTheLastTenth(t *testing.T) {
	var m Milestones
	at := int64(0)
	for i := range 20 * growthStep { // a job each 1000 ns, later each 4000
		at += 1000
		if i >= 10*growthStep {
			at += 3000
		}
		m.Add(at)
	}
	g := m.Growth(0)
	if g == nil || g.Early != 1e6 || g.Late != 250_000 || g.Sustained() != 0.25 {
		t.Errorf("%+v", g)
	}
	if s := g.Plus(nil).Plus(g); s.Early != 2e6 || s.Sustained() != 0.25 {
		t.Errorf("%+v", s)
	}
}

func TestGrowthIsUnknownForFewJobs(t *testing.T) {
	var m Milestones
	for i := range 10*growthStep - 1 {
		m.Add(int64(i))
	}
	g := m.Growth(0)
	if g != nil || g.EarlyRate() != 0 || g.LateRate() != 0 || g.Sustained() != 0 || g.Plus(nil) != nil {
		t.Errorf("%+v", g)
	}
}

func TestMilestonesOfManyLanes(t *testing.T) {
	var m Milestones
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 * growthStep {
				m.Add(1)
			}
		})
	}
	wg.Wait()
	if len(m.times) != 20 {
		t.Errorf("%d times, expected 20", len(m.times))
	}
}
