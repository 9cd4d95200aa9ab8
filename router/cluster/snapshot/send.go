package snapshot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/time/rate"

	"polystalk/shard/wal"
)

// SendOptions configures Send. The zero value is valid.
type SendOptions struct {
	// Rate is the maximum number of bytes a second; zero: no limit.
	Rate int64
	// Progress is called after each piece, with the bytes sent and an estimate of all bytes.
	Progress func(sent, all int64)
	// Note is sent with the journal: see Received.Note, and exchange.Note after installation. It has
	// facts from segments that may be dropped, such as the members. Empty: none is sent.
	Note []byte
	// Confirm is called before the last frame, and may wait: a backup waits until all sent entries
	// are committed. The receiver gets the text of its error, and discards the journal.
	Confirm func(context.Context) error
}

// Sent is what Send sent.
type Sent struct {
	Segments int
	Bytes    int64 // of the journal
}

// Send sends the journal that a pin keeps. After a nil error it was all written. The pin then still
// keeps the last segment sent and all later ones, until its owner releases it.
//
// Send checks ctx between pieces; the caller closes a connection that hangs.
func Send(ctx context.Context, to io.Writer, pin *wal.Pin, o SendOptions) (Sent, error) {
	w := bufio.NewWriterSize(to, 64<<10)
	s := &sending{ctx: ctx, w: w, o: o, all: pin.Bytes(), pace: rate.NewLimiter(rate.Inf, 0)}
	if o.Rate > 0 {
		s.pace = rate.NewLimiter(rate.Limit(o.Rate), frameMax)
	}
	err := s.run(pin)
	if _, broken := errors.AsType[*writeError](err); err != nil && !broken {
		refuse(w, err) // else the receiver would see only a broken connection
	}
	return s.sent, errors.Join(err, w.Flush())
}

// A writeError is an error of the connection: it cannot be sent to the receiver.
type writeError struct{ err error }

func (e *writeError) Error() string { return "sending the journal: " + e.err.Error() }

func (e *writeError) Unwrap() error { return e.err }

// A sending is one call of Send.
type sending struct {
	ctx  context.Context
	w    io.Writer
	pace *rate.Limiter
	o    SendOptions
	all  int64

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

func (s *sending) write(kind byte, body []byte) error {
	if err := writeFrame(s.w, kind, body); err != nil {
		return &writeError{err}
	}
	return nil
}

// piece sends a piece of a segment.
func (s *sending) piece(number uint64, at int64, piece []byte) error {
	if at == 0 {
		if s.sent.Segments > 0 && number != s.segment+1 {
			return fmt.Errorf("segment %d of the journal follows segment %d", number, s.segment)
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
		if err := s.pace.WaitN(s.ctx, n); err != nil {
			return err
		}
	}
	return nil
}
