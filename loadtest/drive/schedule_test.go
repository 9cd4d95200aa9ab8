package drive

import (
	"math"
	"testing"
	"time"

	"polystalk/loadtest/latency"
)

// All lanes together must send rate commands a second, evenly and without
// drift, whatever the batches.
func TestUniformScheduleKeepsTheRate(t *testing.T) {
	const lanes, rate, start = 4, 1000.0, int64(5e9)
	for _, batch := range []int{1, 3} {
		seen := map[int64]bool{}
		var last int64
		for lane := range lanes {
			s := newSchedule(start, rate, lane, lanes, false)
			for range 3000 / lanes / batch {
				if p := s.peek(); p != s.take(batch) {
					t.Fatal("peek and take differ")
				} else {
					seen[p] = true
					last = max(last, p)
				}
			}
		}
		if len(seen) != 3000/batch {
			t.Errorf("batches of %d: %d different times of %d arrivals", batch, len(seen), 3000/batch)
		}
		// 3000 commands at 1000/s: the last batch is due just before 3 s.
		if d := time.Duration(last - start); d >= 3*time.Second || d < 3*time.Second-time.Duration(batch*lanes)*time.Millisecond {
			t.Errorf("batches of %d: last arrival after %v", batch, d)
		}
	}
}

func TestUniformScheduleHasNoDrift(t *testing.T) {
	s := newSchedule(0, 3, 0, 1, false) // a third of a second: not a whole number of nanoseconds
	var due int64
	for range 3_000_001 {
		due = s.take(1)
	}
	if want := int64(1e6 * float64(time.Second)); max(due-want, want-due) > 1000 {
		t.Errorf("arrival 3,000,001 is due at %d, expected %d", due, want)
	}
}

func TestPoissonScheduleIsRandomAroundTheRate(t *testing.T) {
	const n = 100_000
	s := newSchedule(0, 1e6, 0, 1, true) // mean gap 1000 ns
	var sum, squares float64
	last := int64(0)
	for range n {
		due := s.take(1)
		gap := float64(due - last)
		if gap < 0 {
			t.Fatal("time runs backwards")
		}
		sum, squares, last = sum+gap, squares+gap*gap, due
	}
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	// The seed is fixed; an exponential distribution deviates by its mean.
	if math.Abs(mean-1000) > 20 || math.Abs(deviation-1000) > 30 {
		t.Errorf("gaps of mean %.0f ns and deviation %.0f ns, expected 1000 of both", mean, deviation)
	}
	if a, b := newSchedule(0, 1e6, 1, 2, true), newSchedule(0, 1e6, 0, 2, true); a.take(1) == b.take(1) {
		t.Error("two lanes have the same arrivals")
	}
}

// A stalled server must not shift the schedule: latency counts from when a
// command was due.
func TestOpenLoopCountsFromTheDueTime(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	start := Now() - int64(time.Second) // a second late already
	l := &Lane{Commands: new(latency.Recorder), Deadline: Now() + int64(time.Hour), schedule: newSchedule(start, 1000, 0, 1, false), alarm: a}
	for i := range int64(10) {
		from, err := l.Begin(1)
		if err != nil {
			t.Fatal(err)
		}
		if want := start + i*int64(time.Millisecond); from != want {
			t.Fatalf("command %d counts from %d, expected %d", i, from, want)
		}
		l.Answered(from, from+int64(time.Second))
	}
	l.Flush()
	if got := l.Commands.Histogram().ValueAtQuantile(50); math.Abs(float64(got)-1e9) > 1e6 {
		t.Errorf("median latency %d ns, expected a second", got)
	}
}

// Arrivals due before the deadline are sent after it, within the overtime;
// what is still unsent then is counted.
func TestLateArrivalsAreSentOrCounted(t *testing.T) {
	start := Now() - int64(2*time.Second)
	l := &Lane{Deadline: start + int64(time.Second), overtime: int64(time.Hour), schedule: newSchedule(start, 10, 0, 1, false)}
	sent := 0
	for l.More() {
		l.schedule.take(1)
		sent++
	}
	if sent != 10 || l.Unsent() != 0 {
		t.Errorf("%d of 10 arrivals sent, %d counted as unsent", sent, l.Unsent())
	}
	l = &Lane{Deadline: start + int64(time.Second), overtime: 1, schedule: newSchedule(start, 10, 0, 1, false)}
	l.schedule.take(3)
	if l.More() || l.Unsent() != 7 {
		t.Errorf("goes on after its overtime, or %d of 7 counted as unsent", l.Unsent())
	}
}

func TestAlarmIsNeverEarly(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	for range 20 {
		due := Now() + int64(300*time.Microsecond)
		if err := a.sleepUntil(due); err != nil {
			t.Fatal(err)
		}
		if n := Now(); n < due {
			t.Fatalf("woke %d ns early", due-n)
		}
	}
}
