package snapshot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"

	"polystalk/shard/wal"
	"polystalk/shard/wal/exchange"
)

// ReceiveOptions configures Receive. The zero value is valid.
type ReceiveOptions struct {
	// Room is the number of bytes that must stay free on the disk: a start needs them.
	Room int64
	// Progress is called after each piece, with the bytes received and an estimate of all bytes.
	Progress func(received, all int64)
}

// A Received is a complete journal that was received, next to the directory's own journal. The owner
// calls Install or Discard; without either the next start discards it.
type Received struct {
	Segments int
	Bytes    int64
	Batches  int64 // that a start will read
	// LastIndex and LastTerm describe the last entry, if the journal is a raft log.
	LastIndex, LastTerm uint64
	Note                []byte // see SendOptions.Note; nil: none was sent

	disk wal.Disk
}

// A RoomError says that the disk has no room for a journal. Sizes are bytes.
type RoomError struct{ Need, Free int64 }

func (e *RoomError) Error() string {
	return fmt.Sprintf("the disk has space for %d bytes, and the journal needs %d, including space for a start: free space there, or use another disk, and try again", e.Free, e.Need)
}

// A DiskError says that the receiver's disk failed for another reason than being full.
type DiskError struct{ Err error }

func (e *DiskError) Error() string { return e.Err.Error() }

// Unwrap implements the interface of package errors.
func (e *DiskError) Unwrap() error { return e.Err }

// A senderError is the sender's reason for ending a transfer early.
type senderError struct{ Text string }

func (e *senderError) Error() string { return "the sender of the journal has failed: " + e.Text }

// Receive receives a journal into a directory, next to the journal there, and reads it again to
// verify it. After an error it removes what it received; if the disk refuses, the next start does.
// The error is a *RoomError or a *DiskError if this side failed, a *senderError if the sender did.
//
// Receive checks ctx between frames; the caller closes a connection that hangs.
func Receive(ctx context.Context, from io.Reader, d wal.Disk, o ReceiveOptions) (*Received, error) {
	if err := exchange.Discard(d); err != nil {
		return nil, &DiskError{fmt.Errorf("removing what was received before: %w", err)}
	}
	r := &receiving{
		ctx: ctx, frames: frameReader{r: bufio.NewReaderSize(from, 64<<10)}, disk: exchange.Stage(d), o: o,
		out: &Received{disk: d},
	}
	err := r.run()
	if err == nil {
		err = r.verify()
	}
	if err != nil {
		return nil, errors.Join(err, exchange.Discard(d))
	}
	return r.out, nil
}

// install replaces the directory's journal, which must not be open, by the received one. After a
// crash or an error the next start finishes the exchange, or keeps the old journal.
func (r *Received) install() error { return exchange.Begin(r.disk) }

// Discard removes what was received.
func (r *Received) Discard() error { return exchange.Discard(r.disk) }

// A receiving is one call of Receive.
type receiving struct {
	ctx    context.Context
	frames frameReader
	disk   wal.Disk // the stage
	o      ReceiveOptions
	out    *Received
	all    int64 // as announced

	file     wal.File // the current segment, or nil
	number   uint64
	at       int64
	unsynced int // bytes of file
}

// syncStep is how many bytes of a file are written between two syncs: longer syncs would delay other
// writers of the disk.
const syncStep = 2 << 20

// run handles frames until the end.
func (r *receiving) run() error {
	defer func() {
		if r.file != nil { // the segment is incomplete, and there is an error
			r.file.Close()
		}
	}()
	if err := r.hello(); err != nil {
		return err
	}
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		kind, body, err := r.next()
		if err != nil {
			return err
		}
		switch kind {
		case frameNote:
			err = r.note(body)
		case frameSegment:
			err = r.begin(body)
		case framePiece:
			err = r.piece(body)
		case frameEnd:
			return r.end(body)
		default:
			err = fmt.Errorf("%w: a frame of kind %d", errBroken, kind)
		}
		if err != nil {
			return err
		}
	}
}

// next reads a frame. It returns a failed frame as a *senderError.
func (r *receiving) next() (kind byte, body []byte, err error) {
	kind, body, err = r.frames.read()
	switch {
	case err != nil:
		err = fmt.Errorf("receiving a journal: %w", err)
	case kind == frameFailed:
		err = &senderError{string(body[:min(len(body), failedMax)])}
	}
	return kind, body, err
}

// hello handles the first frame, and checks that there is room for what it announces.
func (r *receiving) hello() error {
	kind, body, err := r.next()
	switch {
	case err != nil:
		return err
	case kind != frameHello || len(body) < len(magic)+1 || string(body[:len(magic)]) != magic:
		return fmt.Errorf("%w: it has a wrong beginning", errBroken)
	case body[len(magic)] != version:
		return fmt.Errorf("the journal is sent in format %d, and this program reads format %d: bring both servers to the same release", body[len(magic)], version)
	case len(body) != len(magic)+9:
		return fmt.Errorf("%w: its beginning has %d bytes", errBroken, len(body))
	}
	r.all = max(0, int64(min(le.Uint64(body[len(magic)+1:]), 1<<60)))
	return r.room(r.all)
}

// room checks that the disk has room for n more bytes.
func (r *receiving) room(n int64) error {
	need := n + r.o.Room
	if free := r.disk.Free(); free < need {
		return &RoomError{Need: need, Free: free}
	}
	return nil
}

func (r *receiving) note(body []byte) error {
	if r.out.Segments > 0 || r.out.Note != nil || len(body) == 0 {
		return fmt.Errorf("%w: an unexpected note of %d bytes", errBroken, len(body))
	}
	r.out.Note = slices.Clone(body)
	if err := exchange.StageNote(r.out.disk, body); err != nil {
		return roomError(fmt.Errorf("storing the note of a journal: %w", err), max(1, r.all), r.disk)
	}
	return nil
}

// begin begins a segment.
func (r *receiving) begin(body []byte) error {
	if len(body) != 8 {
		return fmt.Errorf("%w: the beginning of a segment has %d bytes", errBroken, len(body))
	}
	number := le.Uint64(body)
	if number == 0 || r.out.Segments > 0 && number != r.number+1 {
		return fmt.Errorf("%w: segment %d follows segment %d", errBroken, number, r.number)
	}
	if err := r.finish(); err != nil {
		return err
	}
	r.number, r.at = number, 0
	r.out.Segments++
	var err error
	if r.file, err = r.disk.Create(wal.SegmentName(number)); err != nil {
		return roomError(err, max(1, r.all-r.out.Bytes), r.disk)
	}
	return nil
}

// piece writes bytes of the segment.
func (r *receiving) piece(body []byte) error {
	if r.file == nil || len(body) == 0 {
		return fmt.Errorf("%w: %d bytes of no segment", errBroken, len(body))
	}
	n, err := r.file.WriteAt(body, r.at)
	if err == nil && n < len(body) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return roomError(err, max(int64(len(body)), r.all-r.out.Bytes), r.disk)
	}
	r.at += int64(n)
	r.out.Bytes += int64(n)
	if r.unsynced += n; r.unsynced >= syncStep {
		if err := r.sync(); err != nil {
			return err
		}
	}
	if r.out.Bytes > r.all { // the sender's journal has grown since hello checked the size
		if err := r.room(0); err != nil {
			return err
		}
	}
	if r.o.Progress != nil {
		r.o.Progress(r.out.Bytes, max(r.all, r.out.Bytes))
	}
	return nil
}

// sync makes the current segment durable.
func (r *receiving) sync() error {
	r.unsynced = 0
	return r.durable(r.file.Sync())
}

// finish ends the current segment, if there is one.
func (r *receiving) finish() error {
	if r.file == nil {
		return nil
	}
	if err := r.sync(); err != nil {
		return err
	}
	err := r.file.Close()
	r.file = nil
	return r.durable(err)
}

// durable wraps an error of making the received bytes durable.
func (r *receiving) durable(err error) error {
	if err == nil {
		return nil
	}
	return roomError(fmt.Errorf("making a received journal durable: %w", err), 1, r.disk)
}

// end handles the last frame.
func (r *receiving) end(body []byte) error {
	if len(body) != 16 {
		return fmt.Errorf("%w: its end has %d bytes", errBroken, len(body))
	}
	segments, bytes := le.Uint64(body), le.Uint64(body[8:])
	if segments != uint64(r.out.Segments) || bytes != uint64(r.out.Bytes) || segments == 0 {
		return fmt.Errorf("%w: it ends with %d segments and %d bytes, but %d and %d were received", errBroken, segments, bytes, r.out.Segments, r.out.Bytes)
	}
	if err := r.finish(); err != nil {
		return err
	}
	return r.durable(r.disk.Sync())
}

// verify reads the whole journal as a start would.
func (r *receiving) verify() error {
	v, err := wal.Look(r.disk)
	switch {
	case err != nil:
		return &DiskError{fmt.Errorf("reading a received journal: %w", err)}
	case v == nil || len(v.Segments) != r.out.Segments:
		return &DiskError{errors.New("reading a received journal: its files are gone")}
	case len(v.Losses) > 0:
		return fmt.Errorf("the received journal is damaged: %w", &v.Losses[0].Damage)
	case v.Torn != nil:
		return fmt.Errorf("the received journal is damaged: %w", &v.Torn.Damage)
	}
	r.out.Batches, r.out.LastIndex, r.out.LastTerm = v.Batches, v.LastIndex, v.LastTerm
	return nil
}

// roomError returns a *RoomError for the error of a full disk, and a *DiskError for any other. need
// is the number of bytes not yet written.
func roomError(err error, need int64, d wal.Disk) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return errors.Join(&RoomError{Need: need, Free: min(d.Free(), need-1)}, err)
	}
	return &DiskError{err}
}
