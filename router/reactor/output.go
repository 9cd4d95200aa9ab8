package reactor

import (
	"golang.org/x/sys/unix"

	"polystalk/router/session"
)

const (
	// writeMax is how many bytes are written in one turn to a client that reads.
	writeMax = 1 << 20
	// sendParts is how many parts of the queue are read at a time.
	sendParts = 16
)

// Write implements session.Conn.
func (k *socket) Write(p []byte) { k.write(p, false, writeMax) }

// WriteStable implements session.Conn.
func (k *socket) WriteStable(pieces [][]byte) {
	left := writeMax
	for _, p := range pieces {
		k.write(p, true, left)
		left -= len(p)
	}
}

// write writes p until the socket is full or most bytes are written; the rest becomes unsent.
func (k *socket) write(p []byte, stable bool, most int) {
	if k.isBroken() || len(p) == 0 {
		return
	}
	if k.unsent != nil {
		k.unsent.Add(p, stable)
		return
	}
	for len(p) > 0 && most > 0 {
		n, full, ok := k.transmit(p)
		if !ok {
			return
		}
		p = p[n:]
		most -= n
		if full {
			break
		}
	}
	if len(p) > 0 {
		if k.unsent == nil {
			k.fallBehind()
		}
		if k.unsent != nil { // the notifier may have failed
			k.unsent.Add(p, stable)
		}
	}
}

// fallBehind makes a queue for output that the socket does not take, and waits until it does.
func (k *socket) fallBehind() {
	k.loop.Count(session.CountBehind, 1)
	k.reactor.behind.Add(1)
	k.unsent = &session.SendQueue{Account: k.reactor.host.Account}
	k.await(false)
}

// transmit sends bytes of p, and returns their number. full means that the socket takes no more now.
// It returns false if the socket is broken.
func (k *socket) transmit(p []byte) (n int, full, ok bool) {
	if k.tls != nil {
		return k.encrypt(p)
	}
	n, ok = k.send(p)
	return n, n < len(p), ok
}

// send writes the bytes of p that the socket takes. It returns false if the socket is broken.
func (k *socket) send(p []byte) (int, bool) {
	for k.fd >= 0 {
		n, err := send(k.fd, p)
		switch {
		case n > 0:
			k.loop.Count(session.CountSent, uint64(n))
			return n, true
		case err == unix.EAGAIN:
			return 0, true
		case err != unix.EINTR:
			k.fail()
			return 0, false
		}
	}
	k.breakOff()
	return 0, false
}

// await makes the notifier call ready when the socket is writable, or, with input set, readable.
func (k *socket) await(input bool) {
	if err := k.reactor.notifier.watch(k, input); err != nil {
		k.complain("closing a connection: cannot watch its socket", err)
		k.fail()
	}
}

// ready continues sending or discarding. It is called in a turn of the session, after await.
func (k *socket) ready(s *session.Session) {
	switch {
	case k.fd < 0 || k.isBroken():
	case k.unsent != nil:
		k.sendUnsent()
		if k.unsent == nil && k.stage == serving {
			s.AllSent()
		}
	case k.stage == parting && k.c == nil:
		k.discard()
	}
}

// sendUnsent sends unsent output.
func (k *socket) sendUnsent() {
	if k.rest() > 0 {
		if !k.sendRecords() {
			return
		}
		if k.rest() > 0 {
			k.await(false)
			return
		}
	}
	var room [sendParts][]byte
	for most := writeMax; most > 0; {
		for _, p := range k.unsent.Peek(room[:0], most) {
			for len(p) > 0 {
				n, full, ok := k.transmit(p)
				if !ok {
					return
				}
				most -= n
				k.loop.Spend(session.WriteUnits + n/session.UnitBytes)
				k.unsent.Sent(n)
				if p = p[n:]; full {
					k.await(false)
					return
				}
			}
		}
		if k.unsent.Bytes() == 0 {
			if k.isClosed() {
				k.sayClosed()
			}
			if k.isBroken() {
				return
			}
			if k.rest() > 0 {
				k.await(false)
				return
			}
			k.dropUnsent()
			if k.isClosed() && k.c == nil {
				k.finish()
			}
			return
		}
	}
	k.await(false)
}

// dropUnsent drops unsent output.
func (k *socket) dropUnsent() {
	k.dropRest()
	if k.unsent != nil {
		k.unsent.Drop()
		k.unsent = nil
		k.reactor.behind.Add(-1)
		if k.s != nil {
			k.s.UnsentDropped()
		}
	}
}

// Unsent implements session.Conn.
func (k *socket) Unsent() int {
	if k.unsent == nil {
		return 0
	}
	return k.unsent.Bytes() + k.rest()
}
