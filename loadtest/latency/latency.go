// Package latency keeps latencies: a Recorder collects those of one load process,
// Encode and Merge bring the processes' histograms together, and a Summary is
// what people read.
//
// It imports none of the load tester's packages, and is the only one that knows
// the HdrHistogram library.
package latency

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are nanoseconds from 1 ns to longest, kept to three significant
// figures: the HdrHistogram library does this in constant time per value and
// merges the histograms of several processes exactly.
const longest = int64(10 * time.Minute)

// A Histogram counts latencies by value. nil is one of no latency.
type Histogram = hdrhistogram.Histogram

func newHistogram() *Histogram { return hdrhistogram.New(1, longest, 3) }

// A Recorder collects the latencies of all lanes of a process. One histogram
// is 250 KB, too much for each of thousands of connections; a lane gathers
// equal values before it takes the lock.
type Recorder struct {
	mu sync.Mutex
	h  *Histogram
}

// Record counts n latencies of v nanoseconds. It may be called by several
// goroutines at once.
func (r *Recorder) Record(v, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.h == nil {
		r.h = newHistogram()
	}
	// Within bounds by construction, so that the error cannot happen.
	if err := r.h.RecordValues(min(max(v, 1), longest), n); err != nil {
		panic(err)
	}
}

// Histogram returns what was recorded, nil if that is nothing. It is for use
// after the last Record.
func (r *Recorder) Histogram() *Histogram {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.h
}

// A Summary says in microseconds what most commands met, and what few did. The
// zero value is that of no latency.
type Summary struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}

// Summarize reads the figures out of h.
func Summarize(h *Histogram) Summary {
	if h == nil || h.TotalCount() == 0 {
		return Summary{}
	}
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	return Summary{Count: h.TotalCount(), P50: us(h.ValueAtQuantile(50)), P99: us(h.ValueAtQuantile(99)),
		P999: us(h.ValueAtQuantile(99.9)), Max: us(h.Max())}
}

// Encode returns h in the library's own compressed encoding, nil for nil.
func Encode(h *Histogram) ([]byte, error) {
	if h == nil {
		return nil, nil
	}
	return h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
}

// Merge adds an encoded histogram to into, which may be nil.
func Merge(into *Histogram, encoded []byte) (*Histogram, error) {
	if len(encoded) == 0 {
		return into, nil
	}
	h, err := hdrhistogram.Decode(encoded)
	if err != nil {
		return into, fmt.Errorf("histogram of a load process: %w", err)
	}
	if into == nil {
		into = newHistogram()
	}
	if dropped := into.Merge(h); dropped > 0 {
		return into, fmt.Errorf("histogram of a load process: %d values out of bounds", dropped)
	}
	return into, nil
}
