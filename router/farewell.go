package router

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A connection that ends by our doing, in the middle of what its client says, is not
// simply closed: the kernel answers what it has not read, and what still comes, with a
// reset, and a client that is told so may lose the reply that says why. So the sending
// side is closed behind the reply, and what comes is thrown away, until the client has
// closed its own, or for as long as a client has to read its last replies.

// farewellMost bytes are thrown away at most: the rest of a large body.
const farewellMost = 1 << 30

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

// Part implements parter. Without a descriptor to stay with it is Close.
func (k *socket) Part() {
	lane := k.lane
	if k.c != nil && !k.failed {
		if fd, err := k.c.Dup(); err == nil {
			k.net.open.Add(1)
			f := os.NewFile(uintptr(fd), "connection")
			leave := func() {
				defer k.net.open.Add(-1)
				defer f.Close()
				f.SetReadDeadline(time.Now().Add(lingerMax))
				for lane != nil && lane.lasts() {
					time.Sleep(farewellLook)
				}
				discard(f)
			}
			// Not before this turn is over: who sees the end sees nothing else of
			// the connection either.
			k.loop.signal(k.s, func(*session) { go leave() })
		}
	}
	k.Close()
}

// farewellLook is how often it is looked whether the last replies are sent.
const farewellLook = 10 * time.Millisecond

// discard closes the sending side and reads to the end, or to the deadline.
func discard(f *os.File) {
	rc, err := f.SyscallConn()
	if err != nil {
		return
	}
	if err := rc.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_WR) }); err != nil {
		return
	}
	b := make([]byte, 16<<10)
	for left := farewellMost; left > 0; {
		n, err := f.Read(b)
		if left -= n; err != nil {
			return
		}
	}
}
