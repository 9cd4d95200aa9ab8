package router

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/router/direct"
	"polystalk/router/history"
	"polystalk/shard/core"
)

// TestConnectionsAndDirectClientsAreOneQueue: who calls the shards from a goroutine of its
// own gets the same jobs, in the same order, as who has a connection.
func TestConnectionsAndDirectClientsAreOneQueue(t *testing.T) {
	s, addrs := serve(t, Config{Shards: 8, Loops: 2})
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	const tubes, producers, puts, most = 16, 2, 300, 12
	start := time.Now()
	var mu sync.Mutex
	var ops []history.Op
	// do notes what f does, which fills in how it went.
	do := func(o history.Op, f func(o *history.Op)) history.Op {
		o.Call = int64(time.Since(start))
		f(&o)
		o.Return = int64(time.Since(start))
		mu.Lock()
		defer mu.Unlock()
		ops = append(ops, o)
		return o
	}
	var out, left atomic.Int64
	left.Store(producers * puts)
	var wg sync.WaitGroup
	for i := range producers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 6))
			c := talk(t, addrs[1])
			for range puts {
				for out.Load() > most && !t.Failed() {
					time.Sleep(20 * time.Microsecond)
				}
				out.Add(1)
				o := history.Op{Kind: history.Put, Pri: rng.Uint32N(4), Tube: rng.IntN(tubes)}
				c.ask("use w%d", o.Tube)
				do(o, func(o *history.Op) {
					fmt.Sscanf(c.ask("put %d 0 600 1\r\nx", o.Pri), "INSERTED %d", &o.Job)
				})
				left.Add(-1)
			}
		})
	}
	watch := make([]bool, tubes)
	for i := range watch {
		watch[i] = true
	}
	// consume has a client reserve and delete until all is gone.
	consume := func(client int, reserve func() (job uint64), remove func(job uint64) (found bool)) {
		for (left.Load() > 0 || out.Load() > 0) && !t.Failed() {
			o := do(history.Op{Kind: history.Reserve, Client: client, Watch: watch}, func(o *history.Op) { o.Job = reserve() })
			if o.Job == 0 {
				continue
			}
			do(history.Op{Kind: history.Delete, Client: client, Job: o.Job}, func(o *history.Op) { o.Found = remove(o.Job) })
			out.Add(-1)
		}
	}
	for i := range 2 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			c := talk(t, addrs[1])
			c.watch(tubes, func(int) bool { return true })
			consume(1+i, func() (job uint64) {
				if words := strings.Fields(c.ask("reserve-with-timeout %d", rng.IntN(2))); words[0] == "RESERVED" {
					c.line()
					job, _ = strconv.ParseUint(words[1], 10, 64)
				}
				return job
			}, func(job uint64) bool { return c.ask("delete %d", job) == "DELETED" })
		})
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 8))
			k := direct.New(s.host.Map, s.host.Clock).NewClient()
			for tube := range tubes {
				if err := k.Watch(fmt.Sprintf("w%d", tube)); err != nil {
					t.Error(err)
				}
			}
			consume(3+i, func() uint64 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(3000))*time.Microsecond)
				defer cancel()
				job, _ := k.Reserve(ctx, core.Time(rng.IntN(2))*core.Second)
				return uint64(job.ID)
			}, func(job uint64) bool { return k.Delete(core.JobID(job)) })
			k.Leave()
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if err := history.Check(ops); err != nil {
		t.Error(err)
	}
}
