package stats

import (
	"math"
	"testing"
	"time"
)

// one is the bucket in which the only thing counted is.
func one(t *testing.T, h *Histogram) int {
	t.Helper()
	c, at := h.Read(), -1
	for b, n := range c.N {
		switch {
		case n == 1 && at < 0:
			at = b
		case n != 0:
			t.Fatalf("%v", c)
		}
	}
	if at < 0 {
		t.Fatal("nothing was counted")
	}
	return at
}

// TestNumbersAreInTheirBuckets: a bound belongs to its bucket, what is above it does not.
func TestNumbersAreInTheirBuckets(t *testing.T) {
	count := func(v uint64) int {
		var h Histogram
		h.Count(v)
		if h.Read().Sum != v {
			t.Errorf("%d: the sum is %d", v, h.Read().Sum)
		}
		return one(t, &h)
	}
	if count(0) != 0 || count(math.MaxUint64) != histogramBuckets-1 {
		t.Error("0 or the largest number is in no bucket of its own")
	}
	for b := range histogramBuckets - 1 {
		v := uint64(HistogramBound(b))
		if at := count(v); at != b {
			t.Errorf("%d is in bucket %d, want %d", v, at, b)
		}
		if at := count(v + 1); at != b+1 {
			t.Errorf("%d is in bucket %d, want %d", v+1, at, b+1)
		}
	}
}

func TestTimesAreInTheirBuckets(t *testing.T) {
	took := func(d time.Duration) int {
		var h Histogram
		h.Took(d)
		if h.Read().Sum != uint64(max(0, d)) {
			t.Errorf("%v: the sum is %d", d, h.Read().Sum)
		}
		return one(t, &h)
	}
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, 3814} {
		if at := took(d); at != 0 {
			t.Errorf("%v is in bucket %d", d, at)
		}
	}
	if at := took(math.MaxInt64); at != histogramBuckets-1 {
		t.Errorf("the longest time is in bucket %d", at)
	}
	for b := range histogramBuckets - 1 {
		bound := time.Duration(HistogramSeconds(b) * 1e9) // rounded down: the bound, or less by a part of a nanosecond
		if at := took(bound); at != b {
			t.Errorf("%v is in bucket %d, want %d", bound, at, b)
		}
		if at := took(bound + 1); at != b+1 {
			t.Errorf("%v is in bucket %d, want %d", bound+1, at, b+1)
		}
	}
}
