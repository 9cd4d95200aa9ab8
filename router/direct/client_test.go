package direct

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/router/history"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

const (
	tubes  = 16
	shards = 8
)

// sizes are how many tubes there are in how many shards: a list that is looked at in full,
// one of which only what has changed is, and one that lies within a shard.
var sizes = []struct{ tubes, shards int }{{tubes, shards}, {80, 16}, {5, 1}}

// everySize runs a test for each of them.
func everySize(t *testing.T, f func(t *testing.T, tubes, shards int)) {
	for _, n := range sizes {
		t.Run(fmt.Sprintf("%d tubes, %d shards", n.tubes, n.shards), func(t *testing.T) { f(t, n.tubes, n.shards) })
	}
}

// bodyOf is what a job's body is by its number: now and then a large one.
func bodyOf(n int) (body []byte, large core.Large) {
	b := fmt.Appendf(nil, "job %d", n)
	if n%50 != 0 {
		return b, nil
	}
	return nil, core.Large{b, make([]byte, slab.MaxSize)}
}

// TestNoJobIsHadTwiceOrLost has many goroutines put, reserve, give back and delete at the
// same time, most of them over all shards, and some of them stop waiting at any moment.
func TestNoJobIsHadTwiceOrLost(t *testing.T) { everySize(t, noJobIsHadTwiceOrLost) }

func noJobIsHadTwiceOrLost(t *testing.T, tubes, shards int) {
	const producers, consumers, jobs = 3, 6, 3000
	h := newHouse(t, shards)
	defer h.disturb()()
	var numbers, deleted atomic.Int64
	var holders [jobs]atomic.Int32 // by number: who has it
	var ids sync.Map               // by number: the job that has it
	var wg sync.WaitGroup
	for i := range producers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			c := h.caller()
			for {
				n := int(numbers.Add(1)) - 1
				if n >= jobs {
					return
				}
				body, large := bodyOf(n)
				h.put(c, rng.IntN(tubes), rng.Uint32N(3), body, large)
			}
		})
	}
	for i := range consumers {
		wg.Go(func() {
			me := int32(i + 1)
			rng := rand.New(rand.NewPCG(uint64(i), 2))
			k := h.client(tubes)
			held := make(map[int]core.JobID)
			for deleted.Load() < jobs && !t.Failed() {
				job, ok := reserveSomehow(t, k, rng)
				if ok {
					n := numberOf(t, job)
					if was := holders[n].Swap(me); was != 0 {
						t.Errorf("job %d is given to client %d while client %d has it", n, me, was)
					}
					if id, there := ids.LoadOrStore(n, job.ID); there && id != job.ID {
						t.Errorf("number %d is job %d and job %d", n, id, job.ID)
					}
					held[n] = job.ID
				}
				switch p := rng.IntN(20); {
				case p == 0 || !ok && len(held) > 0:
					for n := range held {
						holders[n].Store(0)
					}
					clear(held)
					k.Leave()
					for tube := range tubes {
						h.watch(k, tube)
					}
				case p < 16 && len(held) > 0:
					for n, id := range held {
						if !k.Delete(id) {
							t.Errorf("job %d, which client %d has, is not there", id, me)
						}
						if k.Delete(id) {
							t.Errorf("job %d is deleted twice", id)
						}
						delete(held, n)
						deleted.Add(1)
						break
					}
				}
			}
			k.Leave()
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	c := h.caller()
	if n := c.Counts(); n.Ready+n.Reserved+n.Delayed+n.Buried != 0 || n.Total != jobs {
		t.Errorf("%d ready, %d reserved of %d jobs at the end", n.Ready, n.Reserved, n.Total)
	}
	if n := h.m.Tubes().Len(); n != 0 {
		t.Errorf("%d tubes are left that nobody uses", n)
	}
}

// reserveSomehow waits for as long as comes to mind, or until another has it that its
// context ends.
func reserveSomehow(t *testing.T, k *Client, rng *rand.Rand) (job Job, ok bool) {
	d := []core.Time{0, core.Time(time.Millisecond), core.Second, core.Never}[rng.IntN(4)]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch after := time.Duration(rng.IntN(2000)) * time.Microsecond; {
	case after < 100*time.Microsecond:
		cancel()
	default:
		defer time.AfterFunc(after, cancel).Stop()
	}
	job, status := k.Reserve(ctx, d)
	if status != core.StatusReserved && status != core.StatusTimedOut {
		t.Errorf("reserve: status %d", status)
	}
	return job, status == core.StatusReserved
}

// numberOf is the number in a job's body, all of which must be there.
func numberOf(t *testing.T, job Job) (n int) {
	if _, err := fmt.Sscanf(string(job.Body), "job %d", &n); err != nil {
		t.Errorf("job %d: body %.20q", job.ID, job.Body)
		return 0
	}
	body, large := bodyOf(n)
	for _, p := range large {
		body = append(body, p...)
	}
	if !bytes.Equal(job.Body, body) {
		t.Errorf("job %d: the body of job number %d has %d bytes, want %d", job.ID, n, len(job.Body), len(body))
	}
	return n
}

// TestOrderOfOneReserver: one client gets all jobs of all tubes in their order: those that
// are there at once by priority, and those that come one after the other as they come.
func TestOrderOfOneReserver(t *testing.T) { everySize(t, orderOfOneReserver) }

func orderOfOneReserver(t *testing.T, tubes, shards int) {
	h := newHouse(t, shards)
	defer h.disturb()()
	c, k := h.caller(), h.client(tubes)
	rng := rand.New(rand.NewPCG(3, 3))
	const jobs = 1500
	var want []core.Key
	for range jobs {
		pri := rng.Uint32N(5)
		want = append(want, core.Key{Pri: pri, ID: h.put(c, rng.IntN(tubes), pri, nil, nil)})
	}
	slices.SortFunc(want, func(a, b core.Key) int {
		if a.Less(b) {
			return -1
		}
		return 1
	})
	for i, w := range want {
		job, status := k.Reserve(t.Context(), 0)
		if status != core.StatusReserved || job.ID != w.ID {
			t.Fatalf("reserve %d: status %d, job %d, want %d", i, status, job.ID, w.ID)
		}
		k.Delete(job.ID)
	}
	if _, status := k.Reserve(t.Context(), 0); status != core.StatusTimedOut {
		t.Errorf("status %d when nothing is left", status)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range jobs {
			h.put(c, i*7%tubes, 1, nil, nil)
		}
	})
	last := core.JobID(0)
	for range jobs {
		job, status := k.Reserve(t.Context(), core.Never)
		if status != core.StatusReserved || job.ID <= last {
			t.Fatalf("status %d, job %d behind job %d", status, job.ID, last)
		}
		last = job.ID
	}
	wg.Wait()
	k.Leave()
	if n := c.Counts(); n.Ready != jobs || n.Reserved != 0 {
		t.Errorf("%d ready and %d reserved after a leave, want %d and none", n.Ready, n.Reserved, jobs)
	}
}

// TestHistoriesAreLinearizable: what clients of all shards and of some are told is what one
// queue would tell them.
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
	const producers, consumers, puts, most = 2, 4, 60, 8
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
			k := h.caller().NewClient()
			watch := make([]bool, tubes)
			for tube := range tubes {
				if watch[tube] = i < 3 || tube%5 == 0; watch[tube] {
					h.watch(k, tube)
				}
			}
			for left.Load() > 0 || out.Load() > 0 && i < 3 {
				if t.Failed() {
					return
				}
				o := history.Op{Kind: history.Reserve, Client: me, Watch: watch, Call: now()}
				job, ok := reserveSomehow(t, k, rng)
				o.Job = uint64(job.ID)
				note(o)
				if !ok {
					continue
				}
				o = history.Op{Kind: history.Delete, Client: me, Job: uint64(job.ID), Call: now()}
				o.Found = k.Delete(job.ID)
				note(o)
				out.Add(-1)
			}
			k.Leave()
		})
	}
	wg.Wait()
	return ops
}
