package drive

import (
	"sync/atomic"

	"polystalk/loadtest/latency"
)

// A Lane is what one actor obeys and reports in one phase: its arrivals, its
// end, its counts. It is used by that actor's goroutine, except for Ops.
//
// Without OpenLoop the loop is closed: a request is due when the last one has
// been answered.
type Lane struct {
	Commands *latency.Recorder // latency of each command
	Delivery *latency.Recorder // from a job's put to its reservation, where that is the point
	Deadline int64             // after this (Now) no turn begins
	Budget   int64             // commands after which no turn begins; 0: no bound

	ops      atomic.Int64 // commands answered
	overtime int64        // open loop: how much longer arrivals due before the deadline are sent
	schedule *schedule    // nil: closed loop
	alarm    *alarm       // of the schedule

	value, same int64 // same latencies of this value wait to be recorded
	done        int64 // commands answered, including those not yet in ops
}

// OpenLoop gives l arrivals of its own until the deadline: every lanes-th, from
// lane on, of rate arrivals per second that begin at start. The caller ends l.
func (l *Lane) OpenLoop(start int64, rate float64, lane, lanes int, poisson bool) error {
	a, err := newAlarm()
	if err != nil {
		return err
	}
	l.alarm, l.overtime = a, l.Deadline-start
	l.schedule = newSchedule(start, rate, lane, lanes, poisson)
	return nil
}

// IsOpen tells whether arrivals are due whatever the server does.
func (l *Lane) IsOpen() bool { return l.schedule != nil }

// Ops is how many commands were answered. It is safe to call while l is in use.
func (l *Lane) Ops() int64 { return l.ops.Load() }

// More tells whether another turn may begin.
func (l *Lane) More() bool {
	if l.Budget > 0 && l.done >= l.Budget {
		return false
	}
	if l.schedule != nil {
		// What was due in time is sent even if it is late by now: to leave it
		// out would leave out the worst latencies.
		return l.schedule.peek() < l.Deadline && Now()-l.overtime < l.Deadline
	}
	return Now() < l.Deadline
}

// Unsent counts the arrivals that were due in time and never sent, because the
// server is slower than the rate or the lane had its count.
func (l *Lane) Unsent() int64 {
	if l.schedule == nil || l.Budget > 0 {
		return 0
	}
	return l.schedule.before(l.Deadline)
}

// Begin returns the time from which the latency of the next n commands
// counts. In an open loop it first waits until they are due.
func (l *Lane) Begin(n int) (int64, error) {
	if l.schedule == nil {
		return Now(), nil
	}
	due := l.schedule.take(n)
	return due, l.alarm.sleepUntil(due)
}

// Answered counts one command due or sent at from whose reply came at at.
func (l *Lane) Answered(from, at int64) {
	l.done++
	if v := at - from; v != l.value {
		l.Flush()
		l.value = v
	}
	l.same++
}

// Counted adds a command whose latency says nothing, such as a reserve that
// waits for a job.
func (l *Lane) Counted() {
	l.done++
	l.ops.Add(1)
}

// Flush hands gathered latencies to the recorder.
func (l *Lane) Flush() {
	if l.same > 0 {
		l.Commands.Record(l.value, l.same)
		l.ops.Add(l.same)
		l.same = 0
	}
}

// End flushes l, which is not used again, and gives its timer back.
func (l *Lane) End() {
	l.Flush()
	if l.alarm != nil {
		l.alarm.close()
	}
}
