package listen

import (
	"errors"
	"net"
	"syscall"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// setBacklog sets the number of connections that may wait to be accepted. Go's default is the
// system's maximum.
func setBacklog(c *config.Config, ls []net.Listener) error {
	if c.Backlog == 0 {
		return nil
	}
	for _, l := range ls {
		raw, err := l.(*net.TCPListener).SyscallConn()
		var listenErr error
		if err == nil {
			err = raw.Control(func(fd uintptr) { listenErr = syscall.Listen(int(fd), c.Backlog) })
		}
		if err = errors.Join(err, listenErr); err != nil {
			return fault.New(fault.System, "%s: %v: give another number, or leave it out", c.Origin("backlog"), err)
		}
	}
	return nil
}
