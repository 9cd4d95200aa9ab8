package router

import "golang.org/x/sys/unix"

// A connection that ends by our doing, in the middle of what its client says, is not
// simply closed: the kernel answers what it has not read, and what still comes, with a
// reset, and a client that is told so may lose the reply that says why. So the sending
// side is closed behind the reply, and what comes is thrown away, until the client has
// closed its own, or for as long as a client has to read its last replies.

// A parter is a Conn that can do so.
type parter interface {
	// Part is Close for a client that may be in the middle of something.
	Part()
}

// part closes the connection after an answer to what was not all read.
func (s *session) part() {
	if p, ok := s.conn.(parter); ok && !s.eof {
		p.Part()
		return
	}
	s.conn.Close()
}

// Part implements parter.
func (k *socket) Part() {
	k.parting = k.c != nil && !k.failed
	k.Close()
}

// discard reads to the end, some at a time, and ends the connection there.
func (k *socket) discard() {
	b := make([]byte, 16<<10)
	for range discardMost / len(b) {
		n, err := unix.Read(k.fd, b)
		switch {
		case n > 0:
			k.loop.round.budget -= inputUnits + n/budgetBytes
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

// discardMost bytes are thrown away before the loop's others have their turn.
const discardMost = 256 << 10
