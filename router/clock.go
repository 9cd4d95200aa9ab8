package router

import (
	"sync"
	"sync/atomic"
	"time"

	"polystalk/shard"
	"polystalk/shard/core"
)

// A clock is the server's time. Its moments begin with the time of day at the start
// and never step: whoever sets the system's clock changes no delay, no time to run
// and no pause. A suspend of the machine is time that passes, for delays and pauses, as
// it passes while a server is down; but not for times to run and for waits, since no
// worker could be heard meanwhile. A shard.Batch carries what that takes.
//
// A suspend is noticed by the next turn of a loop, since the time of day has gone on
// without the monotonic clock, or within clockEvery by an idle server. A turn only reads
// the clock, and asks the system about suspends when the time of day is not as expected.
//
// Rejected: to ask for CLOCK_BOOTTIME each time (a system call, as Go has it), and to
// count delays by the time of day as beanstalkd does (a clock that is set right at boot
// would then end all delays, or none).
type clock struct {
	// awake is the time that only grows and stands still in a suspend, both the same and
	// the time of day, asleep the time spent in suspends since some moment.
	awake  func() core.Time
	both   func() (awake, day core.Time)
	asleep func() core.Time

	mu    sync.Mutex   // held to change the two, at the end of which they are published
	slept atomic.Int64 // nanoseconds
	ahead atomic.Int64 // nanoseconds
}

const (
	// dayTolerance is how far the time of day may drift until Ahead follows: so long
	// translated moments keep their order among each other to the nanosecond.
	dayTolerance = core.Time(time.Millisecond)
	// suspendMin is the shortest suspend. Two clocks are read one after the other, and
	// what lies between must not be taken for one.
	suspendMin = core.Time(10 * time.Millisecond)
	// clockEvery is how often an idle server looks for a suspend.
	clockEvery = time.Second
	// readings of several clocks are tried until they lie close together.
	readings = 8
)

// newClock is the system's clock. Its first moment is the time of day.
func newClock() *clock {
	started := time.Now()
	base := core.Time(started.UnixNano())
	slept := suspendedAtMost()
	return &clock{
		awake: func() core.Time { return base + core.Time(time.Since(started)) },
		both: func() (awake, day core.Time) {
			t := time.Now()
			return base + core.Time(t.Sub(started)), core.Time(t.UnixNano())
		},
		asleep: func() core.Time { return suspendedAtLeast() - slept },
	}
}

// givenClock is a clock whose time is awake, and the time of day as well.
func givenClock(awake func() core.Time) *clock {
	return &clock{
		awake:  awake,
		both:   func() (core.Time, core.Time) { t := awake(); return t, t },
		asleep: func() core.Time { return 0 },
	}
}

// now is the server's time, from anywhere. It may not know of a suspend yet.
func (k *clock) now() core.Time { return k.awake() + core.Time(k.slept.Load()) }

// stamp gives b the present moment.
func (k *clock) stamp(b *shard.Batch) {
	slept, ahead := core.Time(k.slept.Load()), core.Time(k.ahead.Load())
	awake, day := k.both()
	if d := day - awake - slept - ahead; d < -dayTolerance || d > dayTolerance {
		awake, slept, ahead = k.follow()
	}
	b.Now, b.Slept, b.Ahead = awake+slept, slept, ahead
}

// follow notes what has happened to the clocks.
func (k *clock) follow() (awake, slept, ahead core.Time) {
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

// watch runs until quit is closed: it has the shards look at their timers after a
// suspend, which Go's timers have stood still in as well.
func (k *clock) watch(quit <-chan struct{}, shards []*shard.Shard) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	known := k.slept.Load()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		var b shard.Batch
		k.stamp(&b)
		if k.asleep() >= b.Slept+suspendMin {
			k.follow() // the time of day was set back by as much
		}
		if slept := k.slept.Load(); slept != known {
			known = slept
			for _, sh := range shards {
				sh.Nudge()
			}
		}
	}
}
