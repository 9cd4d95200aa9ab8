package direct

import (
	"runtime"
	"strconv"
	"sync"
	"testing"

	"polystalk/router/ops"
	"polystalk/shard"
	"polystalk/shard/core"
)

// A house has shards with running goroutines.
type house struct {
	t       *testing.T
	m       *ops.Map
	clock   *ops.Clock
	mu      sync.Mutex
	callers []*Caller
}

func newHouse(t *testing.T, shards int) *house {
	h := &house{t: t, clock: ops.SystemClock()}
	h.m = ops.NewMap(ops.MapOptions{
		Shards:    shards,
		BodyFreed: func(core.Large) {},
		Naming: ops.Naming{
			Fold:  func(name string) string { return name },
			Shown: func(name string) (int, bool) { return len(name), false },
		},
	})
	for i := range shards {
		sh := shard.New(i, core.New(h.m.Directory()), h.clock.Stamp)
		h.m.Add(sh)
		sh.Start()
		t.Cleanup(func() {
			sh.Stop()
			sh.Close()
		})
	}
	return h
}

func (h *house) caller() *Caller {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := New(h.m, h.clock)
	h.callers = append(h.callers, c)
	return c
}

func tubeName(i int) string { return "t" + strconv.Itoa(i) }

// put puts a job into a tube, and returns its id.
func (h *house) put(c *Caller, tube int, pri uint32, body []byte, large core.Large) core.JobID {
	name := []byte(tubeName(tube))
	i := h.m.OfTube(name)
	c.Op().Use(name, 0)
	used := c.Do(i).Tube
	id := h.m.Numbers(i).NextID()
	c.Op().Put(used, id, pri, 0, 600, body, large)
	if r := c.Do(i); r.Status != core.StatusOK {
		h.t.Errorf("put: status %d", r.Status)
	}
	c.Op().Unuse(used)
	c.Do(i)
	return id
}

// disturb owns shards now and then until the returned function is called, so that callers meet
// busy shards.
func (h *house) disturb() (stop func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		b := &shard.Batch{Home: nobody{}}
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			default:
			}
			sh := h.m.Shard(i % len(h.m.Shards()))
			sh.OwnPatiently(b)
			h.clock.Stamp(b)
			for range i % 4 {
				runtime.Gosched()
			}
			sh.Release(b)
			runtime.Gosched()
		}
	})
	return func() {
		close(quit)
		wg.Wait()
	}
}

// nobody is the Home of a batch without messages of its own.
type nobody struct{}

func (nobody) Post(*core.Message) {}
