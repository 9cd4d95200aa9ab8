package listen

import (
	"errors"
	"net"
	"syscall"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// setBacklog has the system hold as many connections that were not accepted yet as was
// asked for. Go asks for as many as the system allows.
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
