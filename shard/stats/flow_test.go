package stats

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBucketBounds: a length of time is in the first bucket with a bound that it does not exceed,
// to the nanosecond.
func TestBucketBounds(t *testing.T) {
	want := func(ns int64) int {
		for b := range FlowBuckets - 1 {
			if float64(ns) <= FlowBound(b) {
				return b
			}
		}
		return FlowBuckets - 1
	}
	if FlowBound(11) != 1e9 || FlowBound(30) != 1<<19*1e9 || FlowBound(0) != 1e9/2048 {
		t.Fatalf("bounds %v, %v, %v", FlowBound(0), FlowBound(11), FlowBound(30))
	}
	for b := range FlowBuckets - 1 {
		for d := int64(-2); d <= 2; d++ {
			if ns := int64(FlowBound(b)) + d; FlowBucket(ns) != want(ns) {
				t.Errorf("%d ns are in bucket %d, want %d", ns, FlowBucket(ns), want(ns))
			}
		}
	}
	for _, ns := range []int64{-1 << 63, -1, 0, 1, 1<<49 - 1, 1 << 49, 1<<49 + 1, 1<<49 + 2, 1 << 60, 1<<63 - 1} {
		if got := FlowBucket(ns); got != want(ns) {
			t.Errorf("%d ns are in bucket %d, want %d", ns, got, want(ns))
		}
	}
}

// TestFullBucketGoesOn: also after 2^32 of a kind.
func TestFullBucketGoesOn(t *testing.T) {
	var f Flow
	var core Totals
	f.wait[11] = 1<<32 - 2
	f.run[3] = 1<<32 - 1
	f.events[Kick] = 1<<32 - 1
	f.events[Flush] = 1<<32 - 10
	for range 5 {
		f.Waited(&core, 1e9)
	}
	f.Ran(&core, int64(FlowBound(3)))
	f.Count(Kick)
	f.Count(Kick)
	f.CountN(Flush, 5)
	f.CountN(Flush, 6)
	f.Count(Reserve)
	if n := f.Of(Reserve); n != 1<<32+4 {
		t.Errorf("reserved %d times", n)
	}
	if f.Of(Kick) != 1<<32+1 || f.Of(Flush) != 1<<32+1 || f.Of(Bury) != 0 {
		t.Errorf("kicked %d, flushed %d, buried %d times", f.Of(Kick), f.Of(Flush), f.Of(Bury))
	}
	if w, r := f.Wait(), f.Run(); w.N[11] != 1<<32+3 || w.Count() != 1<<32+3 || r.N[3] != 1<<32 || r.Count() != 1<<32 {
		t.Errorf("waited %v, ran %v", w, r)
	}
}

// TestQuantile is right to its bucket.
func TestQuantile(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var f Flow
		var core Totals
		var all []int64
		for range 1 + rng.IntN(300) {
			ns := int64(rng.ExpFloat64() * 1e9)
			all = append(all, ns)
			f.Waited(&core, ns)
		}
		slices.Sort(all)
		w := f.Wait()
		for _, q := range []float64{0, 0.5, 0.99, 1} {
			want := all[min(len(all)-1, int(q*float64(len(all))))]
			if got, ok := w.Quantile(q); !ok || got != FlowBound(FlowBucket(want)) {
				t.Errorf("seed %d: quantile %v of %d is %v, want the bound above %d", seed, q, len(all), got, want)
			}
		}
	}
	if _, ok := new(Times).Quantile(0.5); ok {
		t.Error("nothing has a median")
	}
}

// TestSumsAndDifferences: what was added and taken away again is what it was.
func TestSumsAndDifferences(t *testing.T) {
	var a, b Flow
	var core Totals
	a.Waited(&core, 3e9)
	a.Waited(&core, 100)
	b.Waited(&core, 5e9)
	sum, other := a.Wait(), b.Wait()
	sum.Add(&other)
	if core.Wait() != sum {
		t.Errorf("the core has %+v, its tubes %+v", core.Wait(), sum)
	}
	if sum.Count() != 3 || sum.Sum < 7.999e9 || sum.Sum > 8.001e9 {
		t.Errorf("%+v", sum)
	}
	sum.Sub(&other)
	if sum != a.Wait() {
		t.Errorf("%+v", sum)
	}
}

func BenchmarkWaited(b *testing.B) {
	var f Flow
	var core Totals
	ns := int64(1)
	for b.Loop() {
		ns = ns*3 + 1
		f.Waited(&core, ns&(1<<40-1))
	}
}
