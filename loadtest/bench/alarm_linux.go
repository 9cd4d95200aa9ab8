package bench

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// An alarm wakes one goroutine at a given time. In an idle process the runtime rounds its timers up
// to a millisecond, which is more than the latencies to measure. A timer descriptor in the
// runtime's poller is exact.
type alarm struct {
	fd  int      // File.Fd would make the descriptor blocking
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

// sleepUntil returns at the time due, in nanoseconds of Now.
func (a *alarm) sleepUntil(due int64) error {
	d := due - Now()
	if d <= 0 {
		return nil
	}
	if err := unix.TimerfdSettime(a.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(d)}, nil); err != nil {
		return fmt.Errorf("timer for the open loop: %w", err)
	}
	_, err := a.f.Read(a.buf[:])
	return err
}

func (a *alarm) close() { a.f.Close() }

// spread binds a socket to one of 250 loopback addresses before it connects to this machine. One
// address has 28,000 ports. When each stays in TIME_WAIT for a minute, they run out within a
// second.
func spread(fd int, round uint32) error {
	// connect chooses the port, because it also knows the other end.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return err
	}
	return unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 1, 1 + byte(round%250)}})
}
