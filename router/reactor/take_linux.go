package reactor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// enroll gives a loop a connection that has a seat, under a descriptor of its own.
func (r *Reactor) enroll(c net.Conn, k *socket) error {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return fmt.Errorf("a connection of type %T has no descriptor", c)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	fd, failed := -1, error(nil)
	err = raw.Control(func(of uintptr) { fd, failed = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, os.NewSyscallError("fcntl", failed)); err != nil {
		return err
	}
	var l *eventLoop
	for _, l = range r.loops {
		break
	}
	l = r.roomiest(l)
	l.do(func() {
		if err := l.adopt(fd, k); err != nil && k.s == nil {
			l.uncount()
			r.lost(k.client, err)
		}
	})
	return nil
}
