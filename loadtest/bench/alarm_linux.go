package bench

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// An alarm wakes one goroutine at a given time. When the process is idle, the runtime's own
// timers are rounded up to a millisecond, more than the latencies to be measured; a timer
// descriptor in the runtime's poller is not.
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

// sleepUntil returns at due, in nanoseconds of Now.
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

// spread binds a socket to one of 250 loopback addresses before it connects to this machine:
// one address has 28,000 ports, which are used up within a second when each lingers for a
// minute.
func spread(fd int, round uint32) error {
	// The port is chosen by connect, which knows the other end too.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return err
	}
	return unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 1, 1 + byte(round%250)}})
}
