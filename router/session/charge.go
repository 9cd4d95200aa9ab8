package session

// What bounds a client that reads slowly, or not at all, and where it stands:
//
//	FlushAt      replies are written to the socket in mid-turn from so many bytes on, so the
//	             buffer of the loop stays small (output.go)
//	UnsentMax    more than that which the socket did not take, or that waits for commits,
//	             stops the session: no command is run, so no reply is added (output.go;
//	             the stops and what lifts them are in the package doc)
//	HeldMost     what it sends meanwhile is kept up to that; then its connection is no longer
//	             read, and its own socket fills up (host.go, input.go)
//	Allow        lowers UnsentMax, HeldMost and FlushAt for everybody as all connections
//	             together come near to what they may keep (memory.Account; heldMost and
//	             unsentMost below)
//	Shed, cutOff above that the worst are closed, first those that leave the most unread
//	             (shed.go; cutOff below)
//
// One command's reply may pass UnsentMax, since it is asked between commands: by a body, or
// by a part of a list, which goes on only while no stop is set (MayGoOn). What comes unasked
// has no command that could be stopped: what is reported to a Gearman client is bounded by
// its protocol (MaxUnread of package gearmand). A connection that was closed has ten seconds
// to read its last replies (package reactor).

// A charge is what one session has the server keep, as the account knows it: its held
// input, its unfinished body and its replies that wait for a commit, in bytes of memory.
// What a socket did not take is counted where it is.
type charge struct {
	bytes int
	at    int // position in Loop.charged plus one; zero: it keeps nothing
}

// A chargedList is a loop's list of sessions that keep something, which is where to look
// when all together keep too much.
type chargedList struct {
	list   []*Session
	change int // bytes of which the account is not told yet
}

// Under pressure a connection may keep less, see memory.Account.Allow: heldLeast of input,
// which is more than the longest beginning of a command, unsentLeast of replies, and
// flushLeast of them are written at once.
const (
	heldLeast   = 32 << 10
	unsentLeast = 8 << 10
	flushLeast  = 16 << 10
)

// chargeStep bytes of change on a loop are worth telling the account, which all loops
// share.
const chargeStep = 32 << 10

// Charge counts n bytes more, or fewer, for the session.
func (s *Session) Charge(n int) {
	l := s.loop
	s.charge.bytes += n
	l.charged.change += n
	if c := l.charged.change; c >= chargeStep || c <= -chargeStep {
		l.host.Account.Add(c)
		l.charged.change = 0
	}
	if s.charge.bytes < 0 {
		s.impossible("gives back more memory than it was charged for")
	}
	if (s.charge.at == 0) == (s.charge.bytes > 0) {
		s.listCharged()
	}
}

// listCharged has the session on the loop's list, or not.
func (s *Session) listCharged() {
	c := &s.loop.charged
	keeps := s.charge.bytes > 0 || s.conn.Unsent() > 0
	switch {
	case keeps && s.charge.at == 0:
		c.list = append(c.list, s)
		s.charge.at = len(c.list)
	case !keeps && s.charge.at > 0:
		n := len(c.list) - 1
		last := c.list[n]
		c.list[s.charge.at-1] = last
		last.charge.at = s.charge.at
		c.list[n] = nil
		c.list = c.list[:n]
		s.charge.at = 0
	}
}

// UnsentChanged tells that a Conn whose session may be closed already keeps nothing any
// more.
func (s *Session) UnsentChanged() { s.listCharged() }

// heldMost and unsentMost are what the session may keep now of each.
func (s *Session) heldMost() int {
	h := s.loop.host
	return h.Account.Allow(h.HeldMost, min(h.HeldMost, heldLeast))
}

func (s *Session) unsentMost() int { return s.loop.host.Account.Allow(UnsentMax, unsentLeast) }

// cutOff closes a connection since all together keep too much.
func (s *Session) cutOff(unsent, held int) {
	if s.charge.at == 0 {
		return // it has read meanwhile, or is gone
	}
	h := s.loop.host
	h.Complain("closing a connection: all together keep more than they may",
		"conn", s, "unsent", unsent, "held", held, "bound", h.connectionMemory.Load())
	if s.life >= closing {
		s.conn.Drop() // of its last replies
		return
	}
	s.Abort()
}
