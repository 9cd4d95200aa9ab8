package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are nanoseconds from 1 ns to longest, kept to three significant
// figures: the HdrHistogram library does this in constant time per value and
// merges the histograms of several processes exactly.
const longest = int64(10 * time.Minute)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest, 3) }

// A recorder collects the latencies of all lanes of a process. One histogram
// is 250 KB, too much for each of thousands of connections; a lane gathers
// equal values before it takes the lock.
type recorder struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram
}

func (r *recorder) record(v, n int64) {
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

// A lane is what one actor obeys and reports in one phase: its arrivals, its
// end, its counts. It is used by that actor's goroutine, except for ops.
type lane struct {
	ops      atomic.Int64 // commands answered
	commands *recorder    // latency of each command
	delivery *recorder    // from a job's put to its reservation, where that is the point
	deadline int64        // nanoseconds of now after which no turn begins
	overtime int64        // open loop: how much longer arrivals due before the deadline are sent
	budget   int64        // commands after which no turn begins; 0: no bound
	pace     *schedule    // nil: closed loop
	alarm    *alarm

	value, same int64 // same latencies of this value wait to be recorded
	done        int64 // commands answered, including those not yet in ops
}

// more tells whether another turn may begin.
func (l *lane) more() bool {
	if l.budget > 0 && l.done >= l.budget {
		return false
	}
	if l.pace != nil {
		// What was due in time is sent even if it is late by now: to leave it
		// out would leave out the worst latencies.
		return l.pace.peek() < l.deadline && now()-l.overtime < l.deadline
	}
	return now() < l.deadline
}

// unsent counts the arrivals that were due in time and never sent, because the
// server is slower than the rate or the lane had its count.
func (l *lane) unsent() int64 {
	if l.pace == nil || l.budget > 0 {
		return 0
	}
	return l.pace.before(l.deadline)
}

// begin returns the time from which the latency of the next n commands
// counts. In an open loop it first waits until they are due.
func (l *lane) begin(n int) (int64, error) {
	if l.pace == nil {
		return now(), nil
	}
	due := l.pace.take(n)
	return due, l.alarm.sleepUntil(due)
}

// answered counts one command due or sent at from whose reply came at at.
func (l *lane) answered(from, at int64) {
	l.done++
	if v := at - from; v != l.value {
		l.flush()
		l.value = v
	}
	l.same++
}

// flush hands gathered latencies to the recorder.
func (l *lane) flush() {
	if l.same > 0 {
		l.commands.record(l.value, l.same)
		l.ops.Add(l.same)
		l.same = 0
	}
}

// counted adds a command whose latency says nothing, such as a reserve that
// waits for a job.
func (l *lane) counted() {
	l.done++
	l.ops.Add(1)
}

// A latency is a summary in microseconds, and the histogram it comes from in
// the library's own compressed encoding for merging.
type latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}

func summarize(h *hdrhistogram.Histogram) latency {
	if h == nil || h.TotalCount() == 0 {
		return latency{}
	}
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	return latency{Count: h.TotalCount(), P50: us(h.ValueAtQuantile(50)), P99: us(h.ValueAtQuantile(99)),
		P999: us(h.ValueAtQuantile(99.9)), Max: us(h.Max())}
}

func encodeHistogram(h *hdrhistogram.Histogram) ([]byte, error) {
	if h == nil {
		return nil, nil
	}
	return h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
}

// mergeHistogram adds an encoded histogram to into, which may be nil.
func mergeHistogram(into *hdrhistogram.Histogram, encoded []byte) (*hdrhistogram.Histogram, error) {
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
