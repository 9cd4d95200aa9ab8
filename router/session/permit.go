package session

import (
	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// What needs space on the disk is let in before it changes anything: a command in one
// piece by the log's Pressure, a body that comes in parts by a Claim that grows as they
// come, so that what a client only announces takes nothing. A session that waits for room
// is stopped by NoSpace; one that goes lets go of its claim (EndBody).

// A permit is what a session has of the disk's room.
type permit struct {
	claim commit.Claim
	unlet int64  // bytes for which the operation that was put off waits; see Unadmitted
	asked uint64 // Notified, as it was before the log was asked for claim
	large bool   // it is for claim that the session is stopped, not for Pressure alone
}

// answered notes what the log said of the claim; it was asked when Notified was asked.
func (p *permit) answered(asked uint64, answer commit.Pressure) commit.Pressure {
	p.asked, p.large = asked, answer == commit.Wait
	return answer
}

// canAsk reports whether a session without room may try its command again. While the log
// has notified nobody since it was asked, its answer cannot have changed.
func (s *Session) canAsk() bool {
	j := s.loop.host.Journal
	return j.Pressure() != commit.Wait && !(s.permit.large && j.Notified() == s.permit.asked)
}

// Room says whether a command may be run that needs space on the disk, with a body of size
// bytes that is to be received. On Wait the caller calls Block, and the command is to be
// parsed again when Reads says so.
func (s *Session) Room(size int) commit.Pressure {
	j := s.loop.host.Journal
	if j == nil {
		return commit.Open
	}
	if size <= slab.MaxSize {
		s.permit.large = false
		return j.Pressure()
	}
	asked := j.Notified()
	p := s.permit.answered(asked, j.Fits(&s.permit.claim, int64(size)))
	if p == commit.Full {
		s.loop.host.Complain("a body is refused that is larger than what the disk has room for", "conn", s, "bytes", size)
	}
	return p
}

// Block stops the session until there is room.
func (s *Session) Block() {
	s.stops |= NoSpace
	s.loop.block(s)
}

// admit asks the log for room for so many bytes altogether.
func (s *Session) admit(bytes int64) commit.Pressure {
	j := s.loop.host.Journal
	asked := j.Notified()
	return s.permit.answered(asked, j.Claim(&s.permit.claim, bytes))
}

const (
	// stepMax bytes are asked for ahead of those that have come.
	stepMax = 1 << 20
	// HeadMax bytes are more than a job takes in the journal besides its body and names.
	HeadMax = 256
)

// claimRoom says whether there is room for n more bytes of the body being read, of size
// bytes altogether, both with the names that go with it, and asks for more in one go.
func (s *Session) claimRoom(n, size int) commit.Pressure {
	need := int64(int(s.body.got) + n + HeadMax)
	if need <= s.permit.claim.Bytes() {
		return commit.Open
	}
	p := s.admit(min(need+min(need, stepMax), int64(size+HeadMax)))
	if p == commit.Full && size > slab.MaxSize+HeadMax {
		s.loop.host.Complain("a body is refused in the middle: the disk is full", "conn", s, "bytes", size, "received", s.body.got)
	}
	return p
}

// Unadmitted reports whether the operation has come back for want of room for the body of
// the job that it is about: a foreground job's that is to be kept. Then it is put off until
// there is room; Next is to ask Admitted. It is for Took.
func (s *Session) Unadmitted(r *core.Reply) bool {
	op := s.Op()
	own := s.permit.claim.Bytes() - int64(op.Admitted) // for its own body, if it has one
	op.Admitted = 0
	if r.Status != core.StatusUnadmitted {
		return false
	}
	s.call.msg.Keep() // the input goes on
	op.Admitted = r.N
	s.permit.unlet = own + int64(r.N)
	s.Later(PartUnits, NoSpace)
	return true
}

// Admitted says what is to become of the operation that was Unadmitted: on Open it is to
// be run again where it was; on Wait it was put off again; on Full it is given up, with
// its body, and to be answered, unless the session is Broken.
func (s *Session) Admitted() commit.Pressure {
	p := commit.Full
	if s.end != broken {
		p = s.admit(s.permit.unlet)
	}
	if p == commit.Wait {
		s.Block()
		s.Later(0, NoSpace)
		return p
	}
	s.permit.unlet = 0
	if p == commit.Full {
		s.EndBody()
		s.call.msg.Op.Admitted = 0
		s.call.msg.Done()
	}
	return p
}
