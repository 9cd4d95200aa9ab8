package snapshot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"polystalk/shard/wal"
)

// SendOptions say how a journal is sent. All may be left out.
type SendOptions struct {
	// Rate is how many bytes a second are sent at most; zero: as many as go.
	Rate int64
	// Progress hears how many bytes of the journal were sent, of how many about. It is called
	// for each piece, by who sends.
	Progress func(sent, all int64)
	// Note comes with the journal, and is what Received.Note says, and exchange.Note once the
	// journal was installed: what a journal from whose beginning segments were given up does
	// not tell, such as who the members are. Empty: none is sent.
	Note []byte
	// Confirm is called when all was sent but the end, and may wait. An error, which the
	// receiver is told, has the whole be for nothing. A backup confirms that what was sent is
	// committed, since nobody who starts from it would ever hear that it was not.
	Confirm func(context.Context) error
}

// Sent is what was.
type Sent struct {
	Segments int
	Bytes    int64 // of the journal
}

// Send sends the journal that a pin keeps. When it returns nil the receiver can have all of it;
// that it has is for the receiver to say. The pin then still keeps the segment in which the
// sending ended and what follows, until its owner releases it.
//
// The context ends it between two pieces: who has a connection that hangs closes that.
func Send(ctx context.Context, to io.Writer, pin *wal.Pin, o SendOptions) (Sent, error) {
	w := bufio.NewWriterSize(to, 64<<10)
	s := &sending{ctx: ctx, frames: frameWriter{w: w}, pace: newPace(o.Rate), o: o, all: pin.Bytes()}
	err := s.run(pin)
	var broken *writeError
	if err != nil && !errors.As(err, &broken) {
		// Else the receiver would take it for a broken connection, and not know why.
		s.frames.write(frameFailed, []byte(cut(err.Error(), failedMax)))
	}
	return s.sent, errors.Join(err, w.Flush())
}

// failedMax bounds the text of a failed frame.
const failedMax = 1 << 10

func cut(s string, n int) string { return s[:min(len(s), n)] }

// A writeError is one of the connection, about which the other end can be told nothing.
type writeError struct{ err error }

func (e *writeError) Error() string { return "sending the journal: " + e.err.Error() }

// Unwrap gives the connection's error.
func (e *writeError) Unwrap() error { return e.err }

// A sending is one on its way.
type sending struct {
	ctx    context.Context
	frames frameWriter
	pace   *pace
	o      SendOptions
	all    int64

	segment uint64 // of the last piece
	sent    Sent
}

func (s *sending) run(pin *wal.Pin) error {
	hello := append([]byte(magic), version)
	if err := s.write(frameHello, le.AppendUint64(hello, uint64(s.all))); err != nil {
		return err
	}
	if len(s.o.Note) > 0 {
		if err := s.write(frameNote, s.o.Note); err != nil {
			return err
		}
	}
	if err := pin.Each(s.piece); err != nil {
		return err
	}
	if s.o.Confirm != nil {
		if err := s.o.Confirm(s.ctx); err != nil {
			return err
		}
	}
	end := le.AppendUint64(nil, uint64(s.sent.Segments))
	return s.write(frameEnd, le.AppendUint64(end, uint64(s.sent.Bytes)))
}

// write writes a frame.
func (s *sending) write(kind byte, body []byte) error {
	if err := s.frames.write(kind, body); err != nil {
		return &writeError{err}
	}
	return nil
}

// piece sends a piece of a segment.
func (s *sending) piece(number uint64, at int64, piece []byte) error {
	if at == 0 {
		if s.sent.Segments > 0 && number != s.segment+1 {
			return fmt.Errorf("segment %d of the journal follows on %d", number, s.segment)
		}
		s.segment = number
		s.sent.Segments++
		if err := s.write(frameSegment, le.AppendUint64(nil, number)); err != nil {
			return err
		}
	}
	for len(piece) > 0 {
		n := min(len(piece), frameMax)
		if err := s.write(framePiece, piece[:n]); err != nil {
			return err
		}
		piece = piece[n:]
		s.sent.Bytes += int64(n)
		if s.o.Progress != nil {
			s.o.Progress(s.sent.Bytes, max(s.all, s.sent.Bytes))
		}
		if err := s.pace.took(s.ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// Refuse tells who would receive a journal why none is sent.
func Refuse(to io.Writer, why error) error {
	return (&frameWriter{w: to}).write(frameFailed, []byte(cut(why.Error(), failedMax)))
}
