package reactor

import (
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// gnet enrolls a net.Conn only, by way of a second descriptor, and has the caller wait
// until the loop has taken it: with that a client that connects, puts a job and goes costs
// half as much again. Its own acceptor would be as cheap as this, but ends the server when
// descriptors run out. So two of its functions are called by their names here, as they are
// in the version that go.mod names; adopt_test.go compares their declarations with that
// version's source, so that no other is taken unseen.

// adopt makes fd, a socket that does not block, one of the loop's connections, with OnOpen
// called before it returns. fd is the loop's, also on an error. It is called in the event
// loop.
func (l *eventLoop) adopt(fd int, context any) error {
	l.adopting = context
	return register(l.gnet, newStreamConn("tcp", fd, l.gnet, nil, nil, nil))
}

//go:linkname newStreamConn github.com/panjf2000/gnet/v2.newStreamConn
func newStreamConn(proto string, fd int, el unsafe.Pointer, sa unix.Sockaddr, localAddr, remoteAddr net.Addr) unsafe.Pointer

//go:linkname register github.com/panjf2000/gnet/v2.(*eventloop).register0
func register(el, c unsafe.Pointer) error
