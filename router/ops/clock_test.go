package ops

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"polystalk/shard"
	"polystalk/shard/core"
)

const hour = core.Time(time.Hour)

// TestIdleServerAfterSuspend: jobs that become due in a suspend are ready within watchEvery of its
// end, although no client sends anything and timers stood still.
func TestIdleServerAfterSuspend(t *testing.T) {
	for _, dayStoodStill := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var slept atomic.Int64
			start := time.Now()
			awake := func() core.Time { return hour + core.Time(time.Since(start)) }
			asleep := func() core.Time { return core.Time(slept.Load()) }
			k := NewClock(awake, func() (core.Time, core.Time) {
				if dayStoodStill {
					return awake(), awake()
				}
				return awake(), awake() + asleep()
			}, asleep)
			machine := core.New(nil)
			defer machine.Close()
			machine.Pin("default")
			sh := shard.New(0, machine, k.Stamp)
			sh.Start()
			defer sh.Stop()
			quit := make(chan struct{})
			defer close(quit)
			go k.Watch(quit, []*shard.Shard{sh})

			counts := func(op *core.Op) (n core.Counts) {
				b := &shard.Batch{Home: nobody{}}
				for !sh.Own(b) {
					time.Sleep(time.Microsecond)
				}
				if op != nil {
					k.Stamp(b)
					var r core.Reply
					sh.Apply(b, op, &r)
				}
				n = sh.Counts()
				sh.Release(b)
				return n
			}
			counts(&core.Op{Kind: core.OpPut, Tube: 1, ID: 1, TTR: 1, Delay: 3600})
			time.Sleep(10 * time.Minute)
			if n := counts(nil); n.Delayed != 1 {
				t.Fatalf("%d jobs delayed, want 1", n.Delayed)
			}
			slept.Store(int64(8 * hour))
			time.Sleep(watchEvery)
			synctest.Wait()
			if n := counts(nil); n.Ready != 1 {
				t.Errorf("%d jobs ready, want 1: %v", n.Ready, n)
			}
		})
	}
}

// TestDriftingClock: while the time of day drifts, translated times follow it in steps, and keep
// their order.
func TestDriftingClock(t *testing.T) {
	now, day := core.Time(1000), core.Time(1000)
	k := NewClock(func() core.Time { return now }, func() (core.Time, core.Time) { return now, day }, func() core.Time { return 0 })
	var last, b shard.Batch
	for range 100_000 {
		k.Stamp(&b)
		if off := b.Day() - day; off < -dayTolerance || off > dayTolerance {
			t.Fatalf("the time of day is taken for %v off", time.Duration(off))
		}
		if b.Now <= last.Now && last.Now != 0 || b.Slept != 0 {
			t.Fatalf("at %d, after %d", b.Now, last.Now)
		}
		last = b
		now += 1_000_000
		day += 999_500 // 500 parts per million: the largest slew of a clock
	}
}

// TestSystemClock: the system's clock advances, and reports the time of day and suspends.
func TestSystemClock(t *testing.T) {
	k := SystemClock()
	var a, b shard.Batch
	k.Stamp(&a)
	k.Stamp(&b)
	day := core.Time(time.Now().UnixNano())
	if b.Now < a.Now || b.Slept < a.Slept || day-b.Day() > hour || b.Day()-day > hour {
		t.Errorf("%v, %v and %v", a, b, day)
	}
	if s := k.asleep(); s > suspendMin {
		t.Errorf("the machine was suspended for %v within this test", time.Duration(s))
	}
}
