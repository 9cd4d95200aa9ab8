package ops

import (
	"math/rand/v2"
	"sync"
	"testing"

	"polystalk/shard/core"
)

// pages counts the pages and regions in memory.
func (m *iDs) pages() (pages, regions int) {
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

// next allocates an id for a job of a shard.
func next(m *iDs, sh int) core.JobID {
	n := numbers{m, sh}
	return n.NextID()
}

// TestIDsDropPagesAndRegions: pages and regions are dropped after all their ids are finished.
func TestIDsDropPagesAndRegions(t *testing.T) {
	m := newIDs()
	survivors := []core.JobID{3 * PageIDs, regionIDs + 5}
	for range 3 * regionIDs {
		id := next(m, 7)
		if id != survivors[0] && id != survivors[1] {
			m.Finish(id)
		}
	}
	// Id 3*regionIDs is the first of the next region.
	if pages, regions := m.pages(); pages != 3 || regions != 3 {
		t.Errorf("%d pages in %d regions, want one each for two survivors and the last id", pages, regions)
	}
	for _, id := range survivors {
		if sh, ok := m.find(id); !ok || sh != 7 {
			t.Errorf("survivor %d: shard %d, %v", id, sh, ok)
		}
		m.Finish(id)
		if _, ok := m.find(id); ok {
			t.Errorf("%d is found after its end", id)
		}
	}
	if pages, regions := m.pages(); pages != 1 || regions != 1 {
		t.Errorf("%d pages in %d regions after the survivors' end", pages, regions)
	}
}

// TestIDsAreSharedByManyLoops: loops that take, find and finish ids at the same time find every
// unfinished id in its shard, and no other ids.
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
				if sh, ok := m.find(id); !ok || sh != g {
					t.Errorf("id %d: shard %d, %v; want %d", id, sh, ok, g)
					return
				}
				m.find(core.JobID(rng.Uint64N(uint64(id) + 100)))
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
	if _, ok := m.find(1<<64 - 1); ok {
		t.Error("found the largest id")
	}
	for id := range core.JobID(loops*each + 1) {
		sh, ok := m.find(id)
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

// TestIDPlaces: every id of a page has its own place, and ids that are taken together are on few
// cache lines.
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

// TestIDsThatAreFollowed: after each Resume, a follower has only pages with jobs, and continues as
// the leader would.
func TestIDsThatAreFollowed(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	m := newIDs()
	live := map[core.JobID]int{}
	high := uint64(0)
	for range 20 {
		for range 2000 {
			high++
			id := core.JobID(high)
			if rng.IntN(10) > 0 { // the other ids have no job
				m.Note(id, 3)
				m.Note(id, 3) // noted twice, like a copied job
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
		// A skipped job is noted late.
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
		if sh, ok := m.find(id); !ok || sh != want {
			t.Fatalf("id %d: shard %d, %v; want %d", id, sh, ok, want)
		}
		m.Finish(id)
	}
	if pages, _ := m.pages(); pages != 1 {
		t.Errorf("%d pages are kept for one job", pages)
	}
}
