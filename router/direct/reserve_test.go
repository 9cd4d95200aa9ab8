package direct

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/router/history"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

func every(int) bool { return true }

// bodyOf returns the body of job n: now and then a large one.
func bodyOf(n int) (body []byte, large core.Large) {
	b := fmt.Appendf(nil, "job %d", n)
	if n%50 != 0 {
		return b, nil
	}
	return nil, core.Large{b, make([]byte, slab.MaxSize)}
}

// TestNoJobIsHadTwiceOrLost: many goroutines put, reserve, give back and delete jobs at the
// same time, and some stop waiting at any moment. The lists are looked at in full, in part,
// or lie within one shard.
func TestNoJobIsHadTwiceOrLost(t *testing.T) {
	for _, n := range []struct{ tubes, shards int }{{16, 8}, {80, 16}, {5, 1}} {
		t.Run(fmt.Sprintf("%d tubes, %d shards", n.tubes, n.shards), func(t *testing.T) { noJobIsHadTwiceOrLost(t, n.tubes, n.shards) })
	}
}

func noJobIsHadTwiceOrLost(t *testing.T, tubes, shards int) {
	const producers, consumers, jobs = 3, 6, 3000
	h := newHouse(t, shards)
	defer h.disturb()()
	var numbers, deleted atomic.Int64
	var holders [jobs]atomic.Int32 // the client that has a job, by number
	var ids sync.Map               // the id of a job, by number
	var wg sync.WaitGroup
	for i := range producers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			c := h.caller()
			for n := int(numbers.Add(1)) - 1; n < jobs; n = int(numbers.Add(1)) - 1 {
				body, large := bodyOf(n)
				h.put(c, rng.IntN(tubes), rng.Uint32N(3), body, large)
			}
		})
	}
	for i := range consumers {
		wg.Go(func() {
			me := int32(i + 1)
			rng := rand.New(rand.NewPCG(uint64(i), 2))
			k := h.client(tubes, every)
			held := make(map[int]core.JobID)
			for deleted.Load() < jobs && !t.Failed() {
				id, body := reserveSomehow(t, k, rng)
				if id != 0 {
					n := numberOf(t, body)
					if was := holders[n].Swap(me); was != 0 {
						t.Errorf("job %d is given to client %d while client %d has it", n, me, was)
					}
					if was, there := ids.LoadOrStore(n, id); there && was != id {
						t.Errorf("number %d is job %d and job %d", n, id, was)
					}
					held[n] = id
				}
				switch p := rng.IntN(20); {
				case p == 0 || id == 0 && len(held) > 0:
					for n := range held {
						holders[n].Store(0)
					}
					clear(held)
					k.leave()
					for tube := range tubes {
						k.watch(h, tubeName(tube))
					}
				case p < 16 && len(held) > 0:
					for n, id := range held {
						if !k.remove(id) {
							t.Errorf("job %d, which client %d has, is not there", id, me)
						}
						if k.remove(id) {
							t.Errorf("job %d is deleted twice", id)
						}
						delete(held, n)
						deleted.Add(1)
						break
					}
				}
			}
			k.leave()
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if n := h.caller().Counts(); n.Ready+n.Reserved+n.Delayed+n.Buried != 0 || n.Total != jobs {
		t.Errorf("%d ready, %d reserved of %d jobs at the end", n.Ready, n.Reserved, n.Total)
	}
	if n := h.m.Tubes().Len(); n != 0 {
		t.Errorf("%d tubes are left without a user", n)
	}
}

// reserveSomehow waits for some time, or until its context ends. It returns zero if there was
// no job.
func reserveSomehow(t *testing.T, k *client, rng *rand.Rand) (core.JobID, []byte) {
	d := []core.Time{0, core.Time(time.Millisecond), core.Second, core.Never}[rng.IntN(4)]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if after := time.Duration(rng.IntN(2000)) * time.Microsecond; after < 100*time.Microsecond {
		cancel()
	} else {
		defer time.AfterFunc(after, cancel).Stop()
	}
	id, body, status := k.take(ctx, d)
	if status != core.StatusReserved && status != core.StatusTimedOut {
		t.Errorf("reserve: status %d", status)
	}
	return id, body
}

// numberOf returns the number in a job's body, and checks the whole body.
func numberOf(t *testing.T, got []byte) (n int) {
	if _, err := fmt.Sscanf(string(got), "job %d", &n); err != nil {
		t.Errorf("body %.20q", got)
		return 0
	}
	body, large := bodyOf(n)
	for _, p := range large {
		body = append(body, p...)
	}
	if !bytes.Equal(got, body) {
		t.Errorf("the body of job number %d has %d bytes, want %d", n, len(got), len(body))
	}
	return n
}

// TestHistoriesAreLinearizable: clients of all shards, and of some, get the replies of one
// queue.
func TestHistoriesAreLinearizable(t *testing.T) {
	undecided := 0
	const rounds = 30
	for round := range rounds {
		err := history.Check(oneHistory(t, uint64(round)))
		switch {
		case errors.Is(err, history.ErrUndecided):
			undecided++
		case err != nil:
			t.Fatalf("round %d: %v", round, err)
		}
		if t.Failed() {
			return
		}
	}
	if undecided > rounds/5 {
		t.Errorf("%d of %d histories are undecided", undecided, rounds)
	}
}

// oneHistory lets two producers and four consumers work at the same time.
func oneHistory(t *testing.T, seed uint64) (ops []history.Op) {
	const producers, consumers, puts, most, tubes, shards = 2, 4, 60, 8, 16, 8
	h := newHouse(t, shards)
	defer h.disturb()()
	start := time.Now()
	now := func() int64 { return int64(time.Since(start)) }
	var mu sync.Mutex
	note := func(o history.Op) {
		o.Return = now()
		mu.Lock()
		defer mu.Unlock()
		ops = append(ops, o)
	}
	var out, left atomic.Int64
	left.Store(producers * puts)
	var wg sync.WaitGroup
	for i := range producers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			c := h.caller()
			for range puts {
				for out.Load() > most && !t.Failed() {
					time.Sleep(20 * time.Microsecond)
				}
				out.Add(1)
				o := history.Op{Kind: history.Put, Tube: rng.IntN(tubes), Pri: rng.Uint32N(4), Call: now()}
				o.Job = uint64(h.put(c, o.Tube, o.Pri, nil, nil))
				note(o)
				left.Add(-1)
			}
		})
	}
	for i := range consumers {
		wg.Go(func() {
			me := i + 1
			rng := rand.New(rand.NewPCG(seed, uint64(100+i)))
			watch := make([]bool, tubes)
			for tube := range tubes {
				watch[tube] = i < 3 || tube%5 == 0
			}
			k := h.client(tubes, func(tube int) bool { return watch[tube] })
			for left.Load() > 0 || out.Load() > 0 && i < 3 {
				if t.Failed() {
					return
				}
				o := history.Op{Kind: history.Reserve, Client: me, Watch: watch, Call: now()}
				id, _ := reserveSomehow(t, k, rng)
				o.Job = uint64(id)
				note(o)
				if id == 0 {
					continue
				}
				o = history.Op{Kind: history.Delete, Client: me, Job: uint64(id), Call: now()}
				o.Found = k.remove(id)
				note(o)
				out.Add(-1)
			}
			k.leave()
		})
	}
	wg.Wait()
	return ops
}
