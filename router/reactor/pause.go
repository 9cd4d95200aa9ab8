package reactor

import (
	"time"

	"golang.org/x/sys/unix"

	"polystalk/router/session"
)

// A pause is whether the loop's poller looks at a connection for input. Nobody else would
// notice that the client of a paused one has gone, so it is looked at now and then; the
// last look may come when it is read again already, and is of no effect then.
type pause struct {
	on      bool
	watched bool // a look is to come
}

// hangUpEvery is how often a paused connection is looked at.
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
		k.complain("closing a connection: could not read it again", err)
		return false
	}
	k.pause.on = false
	return true
}

// watchHangUp has the client looked at, unless a look is to come.
func (k *socket) watchHangUp() {
	if k.pause.watched {
		return
	}
	k.pause.watched = true
	k.reactor.afterFunc(hangUpEvery, func() { k.loop.Signal(k.s, k.lookForHangUp) })
}

// lookForHangUp tells the session if its client sends no more.
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
