package reactor

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"polystalk/router/access"
	"polystalk/router/session"
)

// A socket is a connection. It implements session.Conn and session.Parter. Only the holder of its
// loop may use it. The package doc shows its stages and the owner of its descriptor.
type socket struct {
	reactor *Reactor
	front   session.Front
	loop    *eventLoop
	s       *session.Session // nil in its first turn
	c       gnet.Conn        // nil after detach: fd is ours then
	fd      int              // -1: closed
	client  net.Addr         // the client's address, if the system does not know it; else nil
	tls     *secure          // nil: plaintext

	stage stage
	// inCallback is set during a callback of gnet for this connection. gnet closes it after
	// the callback if action says so.
	inCallback bool
	notified   bool // the notifier knows fd
	pause      pause
	unsent     *session.SendQueue // output that the socket did not take; nil: none
	linger     *time.Timer        // drops the closed connection after lingerMax; nil: none
}

// A stage is the state of a connection; see the package doc.
type stage uint8

const (
	serving stage = iota // the session uses it
	broken               // nothing can be sent, and the session has not closed it yet
	closing              // closed by the session: unsent output is still being sent
	parting              // closing, and the rest of the input is discarded
	over                 // closed, and nothing is sent any more
)

func (s stage) String() string {
	return [...]string{"serving", "broken", "closing", "parting", "over"}[s]
}

// stagesAfter has, for each stage, the bits of the stages that may follow.
var stagesAfter = [...]uint8{
	serving: 1<<broken | 1<<closing | 1<<parting,
	broken:  1 << over,
	closing: 1 << over,
	parting: 1<<closing | 1<<over,
	over:    0,
}

// move changes the stage.
func (k *socket) move(to stage) {
	if stagesAfter[k.stage]&(1<<to) == 0 {
		panic(fmt.Sprintf("socket of %v: moves from %v to %v, fd %d, gnet has it %v, %d bytes unsent",
			k.LogValue(), k.stage, to, k.fd, k.c != nil, k.Unsent()))
	}
	k.stage = to
}

// isClosed reports whether the session has closed the connection, isBroken whether nothing more
// can be sent.
func (k *socket) isClosed() bool { return k.stage >= closing }
func (k *socket) isBroken() bool { return k.stage == broken || k.stage == over }

// breakOff notes that nothing more can be sent.
func (k *socket) breakOff() {
	switch k.stage {
	case serving:
		k.move(broken)
	case closing, parting:
		k.move(over)
	}
}

// fail ends a broken connection.
func (k *socket) fail() {
	k.breakOff()
	k.dropUnsent()
	switch {
	case k.inCallback:
	case k.c != nil:
		k.c.Close()
	case k.isClosed():
		k.end()
	default:
		k.loop.Signal(k.s, (*session.Session).Abort)
	}
}

// lingerMax is how long a closed connection may take to read its last replies.
const lingerMax = 10 * time.Second

// Close implements session.Conn.
func (k *socket) Close() { k.closeTo(closing) }

// Part implements session.Parter. If the server closes a connection in the middle of a request,
// the kernel responds to the unread rest with a reset, and the client may lose the error reply.
// So only the sending side is closed, behind the reply, and input is discarded until the client
// closes its side, or for lingerMax.
func (k *socket) Part() {
	if k.c != nil {
		k.closeTo(parting)
		return
	}
	k.Close()
}

// closeTo closes a connection that the session uses; to is closing or parting.
func (k *socket) closeTo(to stage) {
	switch k.stage {
	case serving:
		k.move(to)
	case broken:
		k.move(over)
	default:
		return
	}
	if k.unsent == nil && !k.isBroken() {
		k.sayClosed()
	}
	if k.unsent != nil || k.stage == parting {
		k.linger = k.reactor.afterFunc(lingerMax, func() {
			k.loop.Signal(k.s, func(*session.Session) { k.Drop() })
		})
	}
	switch {
	case k.inCallback:
	case k.c != nil:
		k.c.Close()
	case k.unsent == nil:
		k.end()
	}
}

// Drop implements session.Conn.
func (k *socket) Drop() {
	k.dropUnsent()
	switch k.stage {
	case serving, broken:
		k.Close()
		return
	case parting:
		k.move(closing)
	}
	k.end()
}

// detach is called when gnet closes its descriptor: the connection ends with it, or continues with
// a duplicate.
func (k *socket) detach() {
	own := -1
	if k.stage == serving || k.stage == parting || k.stage == closing && k.unsent != nil {
		fd, err := unix.FcntlInt(uintptr(k.fd), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			own = fd
		} else {
			k.complain("closing a connection: no free descriptor to send its last replies", os.NewSyscallError("fcntl", err))
		}
	}
	r := k.reactor
	r.notifier.forget(k)
	k.c, k.fd = nil, own
	if own < 0 {
		k.breakOff()
		k.dropUnsent()
		k.uncount()
		if !k.isClosed() {
			k.loop.Event(k.s, (*session.Session).Abort)
		}
		return
	}
	r.mu.Lock()
	r.detached[k] = struct{}{}
	r.mu.Unlock()
	switch {
	case k.unsent != nil:
		k.await(false)
	case k.isClosed():
		k.finish()
	}
}

// finish ends the connection after all is sent.
func (k *socket) finish() {
	if k.stage != parting {
		k.end()
		return
	}
	if err := unix.Shutdown(k.fd, unix.SHUT_WR); err != nil {
		k.end()
		return
	}
	k.discard()
}

// discardMost is how many bytes are discarded before the turns of the loop's other connections.
const discardMost = 256 << 10

// discard reads and discards input in parts, and ends the connection at the end of the input.
func (k *socket) discard() {
	b := make([]byte, 16<<10)
	for range discardMost / len(b) {
		n, err := unix.Read(k.fd, b)
		switch {
		case n > 0:
			k.loop.Spend(session.InputUnits + n/session.UnitBytes)
		case err == unix.EAGAIN:
			k.await(true)
			return
		case err != unix.EINTR:
			k.end()
			return
		}
	}
	k.await(true)
}

// end closes the descriptor of a detached connection that the session has closed.
func (k *socket) end() {
	if k.c != nil || k.fd < 0 {
		return
	}
	k.breakOff()
	if k.stage != over {
		panic(fmt.Sprintf("socket of %v: ends while %v", k.LogValue(), k.stage))
	}
	r := k.reactor
	r.notifier.forget(k)
	r.mu.Lock()
	delete(r.detached, k)
	r.mu.Unlock()
	unix.Close(k.fd)
	k.fd = -1
	k.uncount()
}

// uncount releases the connection's seat, once. It stops the timer, which would otherwise keep the
// memory of a short connection for ten seconds.
func (k *socket) uncount() {
	if k.linger != nil {
		k.linger.Stop()
		k.linger = nil
	}
	k.loop.uncount()
	k.reactor.giveUpSeat()
}

// complain logs why the connection is closed.
func (k *socket) complain(msg string, err error) {
	k.reactor.host.Complain(msg, "conn", k, "err", err)
}

// LogValue implements slog.LogValuer: the log shows a socket as its client's address.
func (k *socket) LogValue() slog.Value { return slog.StringValue(session.PeerName(k.Peer())) }

// Peer returns the client's address, from Take or from the system; nil if it is not connected
// any more.
func (k *socket) Peer() net.Addr {
	switch {
	case k.fd < 0:
		return nil
	case k.client != nil:
		return k.client
	}
	return peerAt(k.fd)
}

// User returns the user of the process at the other end of a unix socket, if the client has
// connected to this server and not to another one that forwards.
func (k *socket) User() (uid uint32, ok bool) {
	if _, isUnix := k.Peer().(*net.UnixAddr); !isUnix || k.client != nil {
		return 0, false
	}
	uid, err := access.PeerUser(k.fd)
	return uid, err == nil
}

// peerAt returns the address of the other end of a socket; nil if it is not connected any more.
func peerAt(fd int) net.Addr {
	sa, _ := unix.Getpeername(fd)
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)))
	case *unix.SockaddrInet6:
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port)))
	case *unix.SockaddrUnix:
		return &net.UnixAddr{Name: sa.Name, Net: "unix"}
	}
	return nil
}

// A pause is the state of Pause and Resume. The poller does not watch a paused connection, so a
// timer checks whether its client is gone. The last check may come after Resume, and has no effect
// then.
type pause struct {
	on      bool
	watched bool // the timer runs
}

// hangUpEvery is the time between two checks of a paused connection.
const hangUpEvery = 100 * time.Millisecond

// Pause implements session.Conn.
func (k *socket) Pause() bool {
	if k.c == nil || k.loop.pause(k.fd) != nil {
		return false
	}
	k.pause.on = true
	k.loop.Count(session.CountPauses, 1)
	k.watchHangUp()
	return true
}

// Resume implements session.Conn.
func (k *socket) Resume() bool {
	if k.c == nil {
		return false
	}
	if err := k.loop.resume(k.fd); err != nil {
		k.complain("closing a connection: cannot resume reading", err)
		return false
	}
	k.pause.on = false
	return true
}

// watchHangUp starts the timer, unless it runs.
func (k *socket) watchHangUp() {
	if k.pause.watched {
		return
	}
	k.pause.watched = true
	k.reactor.afterFunc(hangUpEvery, func() { k.loop.Signal(k.s, k.lookForHangUp) })
}

// lookForHangUp notifies the session if its client sends no more.
func (k *socket) lookForHangUp(s *session.Session) {
	k.pause.watched = false
	switch {
	case !k.pause.on || k.isClosed() || k.c == nil:
	case hungUp(k.fd):
		s.LastInput()
	default:
		k.watchHangUp()
	}
}

// hungUp reports whether the client sends no more or is gone, without reading.
func hungUp(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: pollHangUp}}
	_, err := unix.Poll(p, 0)
	return err == nil && p[0].Revents&(pollHangUp|unix.POLLHUP|unix.POLLERR) != 0
}
