package router

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A connection has one descriptor, whatever its client does. What the socket does not
// take waits in a queue of ours, and the pump tells when it takes more; gnet's own buffer
// neither tells when it is empty nor is all sent when the client half-closes. When gnet
// closes its side while there is something to be said, the socket goes on under a
// duplicate, for which gnet's descriptor makes room at once. And gnet's poller is told not
// to look at a connection that is paused.

// writeMax bytes are written at once by an event loop, to a reader that keeps up.
const writeMax = 1 << 20

// lingerMax is how long a closed connection may take to read its last replies.
const lingerMax = 10 * time.Second

// Write implements Conn.
func (k *socket) Write(p []byte) { k.write(p, false, writeMax) }

// WriteStable implements Conn.
func (k *socket) WriteStable(pieces [][]byte) {
	left := writeMax
	for _, p := range pieces {
		k.write(p, true, left)
		left -= len(p)
	}
}

// write writes most bytes at once, or a little more.
func (k *socket) write(p []byte, stable bool, most int) {
	if k.failed || len(p) == 0 {
		return
	}
	if k.unsent != nil {
		k.unsent.add(p, stable)
		return
	}
	for len(p) > 0 && most > 0 {
		n, ok := k.send(p)
		if !ok {
			return
		}
		if n == 0 {
			break
		}
		p = p[n:]
		most -= n
	}
	if len(p) > 0 {
		k.loop.tally[tallyBehind]++
		k.net.behind.Add(1)
		k.unsent = &sendQueue{acct: k.net.srv.acct}
		k.unsent.add(p, stable)
		k.await(false)
	}
}

// send writes what the socket takes of p; false: it is broken.
func (k *socket) send(p []byte) (int, bool) {
	for k.fd >= 0 {
		k.loop.tally[tallyWrites]++
		n, err := send(k.fd, p)
		switch {
		case n > 0:
			return n, true
		case err == unix.EAGAIN:
			return 0, true
		case err != unix.EINTR:
			k.fail()
			return 0, false
		}
	}
	k.failed = true
	return 0, false
}

// await has ready called once the socket can be written to, or read from.
func (k *socket) await(input bool) {
	if err := k.net.pump.watch(k, input); err != nil {
		k.net.srv.complain("closing a connection: cannot wait for its client", "conn", k.s, "err", err)
		k.fail()
	}
}

// ready is called in a turn of the session when await has come true.
func (k *socket) ready(s *session) {
	switch {
	case k.fd < 0 || k.failed:
	case k.unsent != nil:
		k.sendUnsent()
		if k.unsent == nil && !k.failed && !k.closed {
			s.drained()
		}
	case k.parting && k.c == nil:
		k.discard()
	}
}

// sendUnsent goes on with what the socket did not take.
func (k *socket) sendUnsent() {
	var room [sendParts][]byte
	for most := writeMax; most > 0; {
		for _, p := range k.unsent.peek(room[:0], most) {
			n, ok := k.send(p)
			if !ok {
				return
			}
			most -= n
			k.loop.round.budget -= writeUnits + n/budgetBytes
			if k.unsent.sent(n); n < len(p) {
				k.await(false)
				return
			}
		}
		if k.unsent.bytes == 0 {
			k.calm()
			if k.closed && k.c == nil {
				k.finish()
			}
			return
		}
	}
	k.await(false)
}

// sendParts of the queue are looked at together.
const sendParts = 16

// calm forgets what is unsent.
func (k *socket) calm() {
	if k.unsent != nil {
		k.unsent.drop()
		k.unsent = nil
		k.net.behind.Add(-1)
		if k.s != nil {
			k.s.listKeeper() // also one that is closed
		}
	}
}

// fail gives the connection up: it is broken.
func (k *socket) fail() {
	k.failed = true
	k.calm()
	switch {
	case k.busy:
	case k.c != nil:
		k.c.Close()
	case k.closed:
		k.end()
	default:
		k.loop.signal(k.s, (*session).abort)
	}
}

// letGo is called when gnet closes its descriptor: the connection ends with it, or goes
// on with another.
func (k *socket) letGo() {
	own := -1
	if !k.failed && (!k.closed || k.unsent != nil || k.parting) {
		fd, err := unix.FcntlInt(uintptr(k.fd), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			own = fd
		} else {
			k.net.srv.complain("closing a connection: no descriptor to answer it to the end", "conn", k.s, "err", os.NewSyscallError("fcntl", err))
		}
	}
	k.net.pump.forget(k)
	k.c, k.fd = nil, own
	if own < 0 {
		k.failed = true
		k.calm()
		k.leave()
		if !k.closed {
			k.loop.event(k.s, (*session).abort)
		}
		return
	}
	k.net.mu.Lock()
	k.net.without[k] = struct{}{}
	k.net.mu.Unlock()
	switch {
	case k.unsent != nil:
		k.await(false)
	case k.closed:
		k.finish()
	}
}

// finish ends the connection when all is sent.
func (k *socket) finish() {
	if !k.parting {
		k.end()
		return
	}
	if err := unix.Shutdown(k.fd, unix.SHUT_WR); err != nil {
		k.end()
		return
	}
	k.discard()
}

// end closes a connection that gnet does not have.
func (k *socket) end() {
	if k.c != nil || k.fd < 0 {
		return
	}
	k.net.pump.forget(k)
	k.net.mu.Lock()
	delete(k.net.without, k)
	k.net.mu.Unlock()
	unix.Close(k.fd)
	k.fd = -1
	k.leave()
}

// leave takes the connection off the count. Nothing keeps it then: clients that come and
// are closed fast enough would otherwise pile up in ten seconds' timers.
func (k *socket) leave() {
	if k.linger != nil {
		k.linger.Stop()
		k.linger = nil
	}
	if k.counted {
		k.counted = false
		k.loop.reactor.placed.Add(-1)
		k.net.gone()
	}
}

// Unsent implements Conn.
func (k *socket) Unsent() int {
	if k.unsent == nil {
		return 0
	}
	return k.unsent.bytes
}

// Close implements Conn.
func (k *socket) Close() {
	if k.closed {
		return
	}
	k.closed = true
	if k.unsent != nil || k.parting {
		k.linger = time.AfterFunc(lingerMax, func() {
			k.loop.signal(k.s, func(*session) { k.Drop() })
		})
	}
	switch {
	case k.busy:
	case k.c != nil:
		k.c.Close()
	case k.unsent == nil:
		k.end()
	}
}

// Drop implements Conn.
func (k *socket) Drop() {
	k.calm()
	k.parting = false
	if !k.closed {
		k.Close()
		return
	}
	k.end()
}

// Pause implements Conn.
func (k *socket) Pause() bool {
	if k.c == nil || k.loop.reactor.pause(k.fd) != nil {
		return false
	}
	k.paused = true
	k.loop.tally[tallyPauses]++
	k.watchHangUp()
	return true
}

// hangUpEvery is how often a paused connection is looked at: nobody else would
// notice that its client has gone.
const hangUpEvery = 100 * time.Millisecond

func (k *socket) watchHangUp() {
	if k.watching {
		return
	}
	k.watching = true
	time.AfterFunc(hangUpEvery, func() {
		k.loop.signal(k.s, func(s *session) {
			k.watching = false
			switch {
			case !k.paused || k.closed || k.c == nil:
			case hungUp(k.fd):
				s.lastInput()
			default:
				k.watchHangUp()
			}
		})
	})
}

// hungUp reports whether the client sends no more or is gone, without reading.
func hungUp(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: pollHangUp}}
	_, err := unix.Poll(p, 0)
	return err == nil && p[0].Revents&(pollHangUp|unix.POLLHUP|unix.POLLERR) != 0
}

// Resume implements Conn.
func (k *socket) Resume() bool {
	if k.c == nil {
		return false
	}
	if err := k.loop.reactor.resume(k.fd); err != nil {
		k.net.srv.complain("closing a connection: could not read it again", "conn", k.s, "err", err)
		return false
	}
	k.paused = false
	return true
}
