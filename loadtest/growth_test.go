package main

import (
	"sync"
	"testing"
)

func TestGrowthComparesTheFirstAndTheLastTenth(t *testing.T) {
	var m milestones
	at := int64(0)
	for i := range 20 * growthStep { // a job each 1000 ns, later each 4000
		at += 1000
		if i >= 10*growthStep {
			at += 3000
		}
		m.add(at)
	}
	g := m.growth(0)
	if g == nil || g.Early != 1e6 || g.Late != 250_000 || g.sustained() != 0.25 {
		t.Errorf("%+v", g)
	}
	if s := g.plus(nil).plus(g); s.Early != 2e6 || s.sustained() != 0.25 {
		t.Errorf("%+v", s)
	}
}

func TestGrowthIsUnknownForFewJobs(t *testing.T) {
	var m milestones
	for i := range 10*growthStep - 1 {
		m.add(int64(i))
	}
	g := m.growth(0)
	if g != nil || g.early() != 0 || g.late() != 0 || g.sustained() != 0 || g.plus(nil) != nil {
		t.Errorf("%+v", g)
	}
}

func TestMilestonesOfManyLanes(t *testing.T) {
	var m milestones
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 * growthStep {
				m.add(1)
			}
		})
	}
	wg.Wait()
	if len(m.times) != 20 {
		t.Errorf("%d times, expected 20", len(m.times))
	}
}
