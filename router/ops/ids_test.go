package ops

import (
	"math/rand/v2"
	"sync"
	"testing"

	"polystalk/shard/core"
)

// pages counts the pages and regions that are kept.
func (m *IDs) pages() (pages, regions int) {
	rs := *m.regions.Load()
	for i := range rs {
		r := rs[i].Load()
		if r == nil {
			continue
		}
		regions++
		for j := range r.pages {
			if r.pages[j].Load() != nil {
				pages++
			}
		}
	}
	return pages, regions
}

// next gives out an id for a job of a shard.
func next(m *IDs, sh int) core.JobID {
	n := Numbers{m, sh}
	return n.NextID()
}

func TestIDsFindWhatIsNotFinished(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	m := newIDs()
	live := map[core.JobID]int{}
	var order []core.JobID
	for i := range 20_000 {
		if rng.IntN(3) > 0 || len(order) == 0 {
			sh := rng.IntN(core.Slots)
			id := next(m, sh)
			if want := core.JobID(i); len(live) == 0 && id > want+1 {
				t.Fatalf("id %d after %d puts", id, i)
			}
			live[id] = sh
			order = append(order, id)
		} else {
			n := rng.IntN(len(order))
			id := order[n]
			order[n] = order[len(order)-1]
			order = order[:len(order)-1]
			m.Finish(id)
			delete(live, id)
		}
	}
	last := core.JobID(m.last.Load())
	for id := core.JobID(0); id <= last+10; id++ {
		sh, ok := m.Find(id)
		want, lives := live[id]
		if ok != lives || ok && sh != want {
			t.Fatalf("id %d: shard %d, %v; want %d, %v", id, sh, ok, want, lives)
		}
	}
	if _, ok := m.Find(1<<64 - 1); ok {
		t.Error("found the largest id")
	}
	for _, id := range order {
		m.Finish(id)
	}
	if pages, _ := m.pages(); pages > 1 {
		t.Errorf("%d pages are kept for no job", pages)
	}
}

func TestIDsDropPagesAndRegions(t *testing.T) {
	m := newIDs()
	survivors := []core.JobID{3 * PageIDs, regionIDs + 5}
	for range 3 * regionIDs {
		id := next(m, 7)
		if id != survivors[0] && id != survivors[1] {
			m.Finish(id)
		}
	}
	// Id 3*regionIDs is the first of the region that follows.
	if pages, regions := m.pages(); pages != 3 || regions != 3 {
		t.Errorf("%d pages in %d regions, want one each for two survivors and the last id", pages, regions)
	}
	for _, id := range survivors {
		if sh, ok := m.Find(id); !ok || sh != 7 {
			t.Errorf("survivor %d: shard %d, %v", id, sh, ok)
		}
		m.Finish(id)
		if _, ok := m.Find(id); ok {
			t.Errorf("%d is found after its end", id)
		}
	}
	if pages, regions := m.pages(); pages != 1 || regions != 1 {
		t.Errorf("%d pages in %d regions after the survivors' end", pages, regions)
	}
}

func TestIDsAreSharedByManyLoops(t *testing.T) {
	m := newIDs()
	const loops, each = 8, 50_000
	var wg sync.WaitGroup
	var mu sync.Mutex
	kept := map[core.JobID]int{}
	for g := range loops {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 5))
			var mine []core.JobID
			for range each {
				id := next(m, g)
				if sh, ok := m.Find(id); !ok || sh != g {
					t.Errorf("id %d: shard %d, %v; want %d", id, sh, ok, g)
					return
				}
				m.Find(core.JobID(rng.Uint64N(uint64(id) + 100)))
				if mine = append(mine, id); len(mine) > 100 {
					n := rng.IntN(len(mine))
					m.Finish(mine[n])
					mine[n] = mine[len(mine)-1]
					mine = mine[:len(mine)-1]
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, id := range mine {
				if _, twice := kept[id]; twice {
					t.Errorf("id %d was given out twice", id)
				}
				kept[id] = g
			}
		})
	}
	wg.Wait()
	if got := m.last.Load(); got != loops*each {
		t.Errorf("%d ids given out, want %d", got, loops*each)
	}
	found := 0
	for id := range core.JobID(loops*each + 1) {
		sh, ok := m.Find(id)
		if g, lives := kept[id]; ok != lives || ok && sh != g {
			t.Fatalf("id %d: shard %d, %v; want %d, %v", id, sh, ok, g, lives)
		}
		if ok {
			found++
			m.Finish(id)
		}
	}
	if found != len(kept) {
		t.Errorf("%d ids found, %d kept", found, len(kept))
	}
	if pages, _ := m.pages(); pages > 1 {
		t.Errorf("%d pages are kept for no job", pages)
	}
}

// TestIDPlaces: every id of a page has a place of its own, and those that are taken at
// once are on few cache lines.
func TestIDPlaces(t *testing.T) {
	const wordsPerLine = 16
	taken := map[[2]uint64]uint64{}
	for id := range uint64(PageIDs) {
		word, shift := idPlace(id)
		if was, ok := taken[[2]uint64{word, shift}]; ok || word >= PageIDs/2 || shift != 0 && shift != 16 {
			t.Fatalf("id %d is in word %d at bit %d, as is %d (%t)", id, word, shift, was, ok)
		}
		taken[[2]uint64{word, shift}] = id
	}
	for first := range uint64(PageIDs - 16) {
		lines := map[uint64]bool{}
		for i := range uint64(16) {
			word, _ := idPlace(first + i)
			lines[word/wordsPerLine] = true
		}
		if len(lines) > 3 {
			t.Fatalf("16 ids from %d on are on %d lines", first, len(lines))
		}
	}
}

// TestIDsThatAreFollowed: who only follows what others give out and finish has, after each
// Resume, as many pages as there are jobs for, and goes on as they would.
func TestIDsThatAreFollowed(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	m := newIDs()
	live := map[core.JobID]int{}
	high := uint64(0)
	for range 20 {
		for range 2000 {
			high++
			id := core.JobID(high)
			if rng.IntN(10) > 0 { // others come to nothing
				m.Note(id, 3)
				m.Note(id, 3) // and again, as a copy
				live[id] = 3
			}
			for id := range live {
				if rng.IntN(2) > 0 {
					m.Forget(id)
					delete(live, id)
				}
				break
			}
		}
		// One that was left out so far is told of late.
		late := core.JobID(1 + rng.Uint64N(high))
		m.Note(late, 3)
		live[late] = 3
		m.Resume(high)
		want := map[uint64]bool{high / PageIDs: true}
		for id := range live {
			want[uint64(id)/PageIDs] = true
		}
		if pages, _ := m.pages(); pages != len(want) {
			t.Fatalf("%d pages, want %d", pages, len(want))
		}
	}
	if id := next(m, 5); id != core.JobID(high+1) {
		t.Errorf("the next id is %d, want %d", id, high+1)
	}
	for id, want := range live {
		if sh, ok := m.Find(id); !ok || sh != want {
			t.Fatalf("id %d: shard %d, %v; want %d", id, sh, ok, want)
		}
		m.Finish(id)
	}
	if pages, _ := m.pages(); pages != 1 {
		t.Errorf("%d pages are kept for one job", pages)
	}
}
