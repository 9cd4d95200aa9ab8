//go:build !linux

package drive

import "time"

// An alarm wakes one goroutine at a given time. Where the runtime waits with
// kqueue its timers are exact enough for this.
type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

// sleepUntil returns at due (in nanoseconds of Now), at once if that is past.
func (a *alarm) sleepUntil(due int64) error {
	time.Sleep(time.Duration(due - Now()))
	return nil
}

func (a *alarm) close() {}
