package drive

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An alarm wakes one goroutine at a given time. The runtime's own timers are
// rounded up to a millisecond when the process is idle, which would drown the
// latencies to be measured; a timer descriptor in the runtime's poller is not.
type alarm struct {
	fd  int      // kept: File.Fd would make the descriptor blocking
	f   *os.File // registers fd with the runtime's poller
	buf [8]byte
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timer for the open loop: %w", err)
	}
	return &alarm{fd: fd, f: os.NewFile(uintptr(fd), "timerfd")}, nil
}

// sleepUntil returns at due (in nanoseconds of Now), at once if that is past.
func (a *alarm) sleepUntil(due int64) error {
	d := due - Now()
	if d <= 0 {
		return nil
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(time.Duration(d)))}
	if err := unix.TimerfdSettime(a.fd, 0, &spec, nil); err != nil {
		return fmt.Errorf("timer for the open loop: %w", err)
	}
	_, err := a.f.Read(a.buf[:])
	return err
}

func (a *alarm) close() { a.f.Close() }
