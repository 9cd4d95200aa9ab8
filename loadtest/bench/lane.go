package bench

import (
	"math"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

var epoch = time.Now()

// Now returns the nanoseconds since the start of this process, by the monotonic clock.
func Now() int64 { return int64(time.Since(epoch)) }

// A lane paces one connection in one phase and counts its commands. One goroutine uses it.
//
// In a closed loop a request is due when the last one was answered. In an open loop the due times
// are fixed before the first request: a server that stalls neither slows the load down nor hides
// its stall.
type lane struct {
	rec      *recorder
	deadline int64 // no turn begins after this time of Now
	budget   int64 // no turn begins after this many commands; 0: no limit
	done     int64 // commands answered

	value, same int64 // number of latencies of this value to record later

	alarm    *alarm  // nil: closed loop
	start    int64   // when the first command is due
	step     float64 // nanoseconds between two commands
	sent     int64   // commands begun
	overtime int64   // how long commands that were due in time are still sent after the deadline
}

// openLoop makes command k of l due at start + k*step.
func (l *lane) openLoop(start int64, step float64) (err error) {
	l.start, l.step, l.overtime = start, step, l.deadline-start
	l.alarm, err = newAlarm()
	return err
}

// due returns when the next command of an open loop is due.
func (l *lane) due() int64 { return l.start + int64(float64(l.sent)*l.step) }

// more reports whether another turn may begin.
func (l *lane) more() bool {
	if l.budget > 0 && l.done >= l.budget {
		return false
	}
	if l.alarm != nil {
		// A command that was due in time is sent even if it is late: omitting it would omit the
		// worst latencies.
		return l.due() < l.deadline && Now()-l.overtime < l.deadline
	}
	return Now() < l.deadline
}

// unsent returns the number of commands of an open loop that were due in time and never sent.
func (l *lane) unsent() int64 {
	if l.alarm == nil || l.budget > 0 {
		return 0
	}
	return max(0, int64(math.Ceil(float64(l.deadline-l.due())/l.step)))
}

// begin returns the time from which the latency of the next n commands counts. In an open loop it
// first waits until they are due.
func (l *lane) begin(n int) (int64, error) {
	if l.alarm == nil {
		return Now(), nil
	}
	due := l.due()
	l.sent += int64(n)
	return due, l.alarm.sleepUntil(due)
}

// answered counts a command. from is when it was due or sent, at is when it was answered.
func (l *lane) answered(from, at int64) {
	l.done++
	if v := at - from; v != l.value {
		l.flush()
		l.value = v
	}
	l.same++
}

func (l *lane) flush() {
	if l.same > 0 {
		l.rec.record(l.value, l.same)
		l.same = 0
	}
}

// end flushes l and releases its timer.
func (l *lane) end() {
	l.flush()
	if l.alarm != nil {
		l.alarm.close()
	}
}

// longest is the longest latency that is recorded exactly, in nanoseconds. Values have three
// significant figures.
const longest = int64(10 * time.Minute)

// A recorder collects latencies in nanoseconds. Any goroutine may use it. One histogram has 250 KB,
// too much for each of thousands of connections, so all share one; a lane collects equal values
// before it takes the lock.
type recorder struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram
}

// record counts n latencies of v nanoseconds.
func (r *recorder) record(v, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.h == nil {
		r.h = hdrhistogram.New(1, longest, 3)
	}
	if err := r.h.RecordValues(min(max(v, 1), longest), n); err != nil {
		panic(err) // impossible: the value is within bounds
	}
}

// take returns the summary of all latencies since the last take.
func (r *recorder) take() (l Latency) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.h; h != nil {
		us := func(ns int64) float64 { return float64(ns) / 1e3 }
		l = Latency{Count: h.TotalCount(), P50: us(h.ValueAtQuantile(50)), P99: us(h.ValueAtQuantile(99)),
			P999: us(h.ValueAtQuantile(99.9)), Max: us(h.Max())}
	}
	r.h = nil
	return l
}

// A Latency summarizes latencies in microseconds. The zero value has none.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}
