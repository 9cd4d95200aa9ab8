package ops

import (
	"sync"
	"sync/atomic"
	"time"

	"polystalk/shard"
	"polystalk/shard/core"
)

// A Clock is the server's time. It starts with the time of day and never steps: setting the
// system's clock changes no delay, time to run or pause. The time of a suspended machine counts
// for delays and pauses, but not for times to run and waits, because no worker could reach the
// server. A shard.Batch carries the necessary values (shard/core/timer.go).
//
// A suspend makes the time of day jump against the monotonic clock. The next turn of a loop
// notices that; an idle server notices it within a second.
//
// Rejected: reading CLOCK_BOOTTIME each time (a system call in Go), and counting delays by
// the time of day as beanstalkd does (a clock that is corrected after boot would end all
// delays, or prolong them).
//
// A server has one Clock. Any goroutine may call its methods at any time, with or without
// a shard. None of them blocks, except Watch.
type Clock struct {
	// awake returns a time that stands still while the machine is suspended. both returns
	// it together with the time of day. asleep returns the total time of suspends since the
	// start.
	awake  func() core.Time
	both   func() (awake, day core.Time)
	asleep func() core.Time

	// slept and ahead are Slept and Ahead of a Batch, in nanoseconds. Any goroutine reads
	// them; they change together under mu.
	mu    sync.Mutex
	slept atomic.Int64
	ahead atomic.Int64
}

const (
	// dayTolerance is how far the time of day may drift before Ahead changes. While Ahead is
	// constant, translated times keep their order to the nanosecond.
	dayTolerance = core.Time(time.Millisecond)
	// suspendMin is the shortest suspend that counts. Two clocks are read one after the
	// other, and a delay between the readings must not look like a suspend.
	suspendMin = core.Time(10 * time.Millisecond)
	// watchEvery is how often an idle server looks for a suspend.
	watchEvery = time.Second
	// readings bounds the attempts to read all clocks within dayTolerance.
	readings = 8
)

// SystemClock returns the clock of the machine. It starts with the time of day.
func SystemClock() *Clock {
	started := time.Now()
	base := core.Time(started.UnixNano())
	slept := suspendedAtMost()
	return &Clock{
		awake: func() core.Time { return base + core.Time(time.Since(started)) },
		both: func() (awake, day core.Time) {
			t := time.Now()
			return base + core.Time(t.Sub(started)), core.Time(t.UnixNano())
		},
		asleep: func() core.Time { return suspendedAtLeast() - slept },
	}
}

// NewClock returns a clock with the given sources; see Clock. awake must not step back.
func NewClock(awake func() core.Time, both func() (awake, day core.Time), asleep func() core.Time) *Clock {
	return &Clock{awake: awake, both: both, asleep: asleep}
}

// Now returns the server's time. It may miss the last suspend.
func (k *Clock) Now() core.Time { return k.awake() + core.Time(k.slept.Load()) }

// Awake returns the server's time without suspends. Use it for periods in which the server must
// be able to act.
func (k *Clock) Awake() core.Time { return k.awake() }

// Stamp sets the times of b to now. It detects by the time of day that the machine was suspended
// or its clock was set.
func (k *Clock) Stamp(b *shard.Batch) {
	slept, ahead := core.Time(k.slept.Load()), core.Time(k.ahead.Load())
	awake, day := k.both()
	if d := day - awake - slept - ahead; d < -dayTolerance || d > dayTolerance {
		awake, slept, ahead = k.follow()
	}
	b.Now, b.Slept, b.Ahead = awake+slept, slept, ahead
}

// follow reads all clocks and updates slept and ahead.
func (k *Clock) follow() (awake, slept, ahead core.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	slept = core.Time(k.slept.Load())
	var day core.Time
	for range readings {
		before := k.awake()
		if s := k.asleep(); s >= slept+suspendMin {
			slept = s
		}
		awake, day = k.both()
		if k.awake()-before < dayTolerance {
			break
		}
	}
	ahead = day - awake - slept
	k.slept.Store(int64(slept))
	k.ahead.Store(int64(ahead))
	return awake, slept, ahead
}

// Watch makes the shards check their timers after a suspend, because Go's timers stood still
// meanwhile. It returns when quit is closed. Only one goroutine may run it.
func (k *Clock) Watch(quit <-chan struct{}, shards []*shard.Shard) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	known := k.slept.Load()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		var b shard.Batch
		k.Stamp(&b)
		if k.asleep() >= b.Slept+suspendMin {
			k.follow() // the time of day was set back by as much, so Stamp noticed nothing
		}
		if slept := k.slept.Load(); slept != known {
			known = slept
			for _, sh := range shards {
				sh.Nudge()
			}
		}
	}
}
