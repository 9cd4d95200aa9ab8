package drive

import (
	"fmt"
	"net"
	"syscall"
)

// An exchange sends a batch and waits for the first bytes of the answer, with
// one system call less than Write and Read take: net.Conn's Read first tries
// to read, in vain since the answer cannot be there yet, and only then waits.
// A load process has one core like the server, and must not be the slower of
// the two: a server that is not kept busy looks dearer than it is.
//
// The write happens inside the raw read, after the runtime has armed its
// poller, so that the arrival of an answer cannot be missed. That needs
// nothing unread on the connection, which is so between two batches.
type exchange struct {
	raw  syscall.RawConn
	step func(fd uintptr) bool // made once

	out, in []byte
	written int // -1: not yet tried
	read    int
}

func newExchange(nc net.Conn) (*exchange, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("connection of type %T has no descriptor", nc)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	x := &exchange{raw: raw}
	x.step = x.attempt
	return x, nil
}

// run writes out and, if the kernel took all of it, reads once into in. It
// returns the bytes written and read; what is missing, and any error of the
// connection, is left to the ordinary Write and Read that follow.
func (x *exchange) run(out, in []byte) (written, read int, err error) {
	x.out, x.in, x.written, x.read = out, in, -1, 0
	err = x.raw.Read(x.step)
	return max(x.written, 0), max(x.read, 0), err
}

// attempt is called by the poller: true ends the wait.
func (x *exchange) attempt(fd uintptr) bool {
	if x.written < 0 {
		n, err := syscall.Write(int(fd), x.out)
		x.written = max(n, 0)
		return err != nil || x.written < len(x.out)
	}
	n, err := syscall.Read(int(fd), x.in)
	x.read = n
	return err != syscall.EAGAIN && err != syscall.EINTR
}
