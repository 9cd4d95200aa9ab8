package listen

import (
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/cmd/polystalkd/config"
)

// gearmanTCP returns tcpConfig with the keep-alive timing of c.
func gearmanTCP(c *config.Config) *net.ListenConfig {
	lc := tcpConfig
	lc.KeepAliveConfig = c.KeepAlive // for systems on which connections do not inherit a listener's options
	lc.Control = func(network, address string, raw syscall.RawConn) error {
		err := tcpConfig.Control(network, address, raw)
		if err == nil && c.KeepAlive.Enable {
			err = setKeepAlive(raw, &c.KeepAlive)
		}
		return err
	}
	return &lc
}

// setKeepAlive sets the keep-alive timing of a listener's connections. A negative value keeps
// the system's default.
func setKeepAlive(raw syscall.RawConn, k *net.KeepAliveConfig) error {
	var errs error
	err := raw.Control(func(fd uintptr) {
		set := func(option int, value int) {
			if value >= 0 {
				errs = errors.Join(errs, syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, option, value))
			}
		}
		set(keepIdle, seconds(k.Idle))
		set(unix.TCP_KEEPINTVL, seconds(k.Interval))
		set(unix.TCP_KEEPCNT, k.Count)
	})
	return errors.Join(err, errs)
}

// seconds rounds up to whole seconds. A negative duration becomes -1.
func seconds(d time.Duration) int {
	if d < 0 {
		return -1
	}
	return int((d + time.Second - 1) / time.Second)
}
