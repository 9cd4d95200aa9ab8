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

// bodyOf returns the body of job n: now and then a large one.
func bodyOf(n int) (body []byte, large core.Large) {
	b := fmt.Appendf(nil, "job %d", n)
	if n%20 != 0 {
		return b, nil
	}
	return nil, core.Large{b, make([]byte, slab.MaxSize)}
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

// checkBody checks a whole body by the number in it.
func checkBody(t *testing.T, got []byte) {
	n := 0
	_, err := fmt.Sscanf(string(got), "job %d", &n)
	body, large := bodyOf(n)
	for _, p := range large {
		body = append(body, p...)
	}
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("body %.20q of %d bytes, want %d: %v", got, len(got), len(body), err)
	}
}

// TestHistoriesAreLinearizable: clients of all shards, and of some, get the replies of one
// queue, with whole bodies, while they put, reserve, delete and leave at the same time and stop
// waiting at any moment. No job is lost. A survey reads the lists in full, or in part, or the
// list lies within one shard.
func TestHistoriesAreLinearizable(t *testing.T) {
	undecided, all := 0, uint64(0)
	const rounds = 30
	sizes := []struct{ tubes, shards int }{{16, 8}, {80, 16}, {5, 1}}
	for round := range rounds {
		n := sizes[round%len(sizes)]
		ops, sent := oneHistory(t, uint64(round), n.tubes, n.shards)
		all += sent
		switch err := history.Check(ops); {
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
	if all == 0 {
		t.Error("no shard was busy and got a message")
	}
}

// oneHistory lets two producers and four consumers work at the same time. It returns how many
// messages they have sent to busy shards.
func oneHistory(t *testing.T, seed uint64, tubes, shards int) (ops []history.Op, sent uint64) {
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
	var out, left, numbers atomic.Int64
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
				body, large := bodyOf(int(numbers.Add(1)))
				o := history.Op{Kind: history.Put, Tube: rng.IntN(tubes), Pri: rng.Uint32N(4), Call: now()}
				o.Job = uint64(h.put(c, o.Tube, o.Pri, body, large))
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
			k := h.client(watch)
			for left.Load() > 0 || out.Load() > 0 && i < 3 {
				if t.Failed() {
					return
				}
				o := history.Op{Kind: history.Reserve, Client: me, Watch: watch, Call: now()}
				id, body := reserveSomehow(t, k, rng)
				o.Job = uint64(id)
				note(o)
				if id == 0 {
					continue
				}
				checkBody(t, body)
				o = history.Op{Kind: history.Delete, Client: me, Job: uint64(id), Call: now()}
				if rng.IntN(10) == 0 {
					o.Kind = history.HoldEnds
					k.leave()
					note(o)
					k.watchAll(h, watch)
					continue
				}
				o.Found = k.remove(id)
				note(o)
				if k.remove(id) {
					t.Errorf("job %d is deleted twice", id)
				}
				out.Add(-1)
			}
			k.leave()
		})
	}
	wg.Wait()
	for _, c := range h.callers {
		sent += c.batch.Sent
	}
	if n := h.caller().Counts(); n.Ready+n.Reserved+n.Delayed+n.Buried != 0 || n.Total != producers*puts || h.m.Tubes().Len() != 0 {
		t.Errorf("%d tubes, %+v at the end", h.m.Tubes().Len(), n)
	}
	return ops, sent
}
