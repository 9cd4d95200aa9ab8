package direct

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"polystalk/router/ops"
	"polystalk/shard"
	"polystalk/shard/core"
)

// TestCallersMeetBusyShards: callers that visit shards at the same time get their own replies,
// whether they run their operations themselves or the shard's owner does.
func TestCallersMeetBusyShards(t *testing.T) {
	const shards, callers, jobs = 3, 8, 400
	clock := ops.SystemClock()
	m := ops.NewMap(ops.MapOptions{
		Shards:    shards,
		BodyFreed: func(core.Large) {},
		Naming:    ops.Naming{Fold: strings.ToLower, Shown: func(name string) (int, bool) { return len(name), false }},
	})
	for i := range shards {
		sh := shard.New(i, core.New(m.Directory()), clock.Stamp)
		m.Add(sh)
		sh.Start()
		t.Cleanup(sh.Close)
		t.Cleanup(sh.Stop)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	sent, rounds := uint64(0), 0
	for ; sent == 0 && rounds < 100; rounds++ { // the scheduler may let no two callers meet in a round
		for i := range callers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), 1))
				c := New(m, clock)
				for n := range jobs {
					name := []byte{'t', byte('0' + rng.IntN(9))}
					at := m.OfTube(name)
					c.Op().Use(name, 0)
					tube := c.Do(at).Tube
					id := m.Numbers(at).NextID()
					c.Op().Put(tube, id, 0, 0, 600, []byte{byte(i), byte(n)}, nil)
					if r := c.Do(at); r.Status != core.StatusOK {
						t.Errorf("put: status %d", r.Status)
					}
					c.Op().Unuse(tube)
					c.Do(at)
					if n%2 == 0 {
						c.Op().Delete(0, id)
						if r := c.Do(at); r.Status != core.StatusOK {
							t.Errorf("delete of job %d: status %d", id, r.Status)
						}
					}
				}
				mu.Lock()
				defer mu.Unlock()
				sent += c.batch.Sent
			})
		}
		wg.Wait()
	}
	n := New(m, clock).Counts()
	if want := rounds * callers * jobs / 2; int(n.Ready) != want {
		t.Errorf("%d jobs are ready, want %d", n.Ready, want)
	}
	if sent == 0 {
		t.Error("no shard was ever busy")
	}
}
