package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// The kinds of frames.
const (
	frameHello   = 1
	frameSegment = 2
	framePiece   = 3
	frameEnd     = 4
	frameFailed  = 5
	frameNote    = 6
)

const (
	magic     = "polysnap"
	version   = 1
	frameHead = 9
	// frameMax is the most that a frame carries, in bytes.
	frameMax = 1 << 20
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// A frameWriter writes frames.
type frameWriter struct {
	w    io.Writer
	head [frameHead]byte
}

// write writes a frame; body is at most frameMax bytes, and not kept.
func (f *frameWriter) write(kind byte, body []byte) error {
	f.head[0] = kind
	le.PutUint32(f.head[1:], uint32(len(body)))
	le.PutUint32(f.head[5:], checksum(f.head[:5], body))
	if _, err := f.w.Write(f.head[:]); err != nil {
		return err
	}
	if len(body) == 0 {
		return nil
	}
	_, err := f.w.Write(body)
	return err
}

// checksum is that of a frame.
func checksum(head, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, body)
}

// errBroken is what a receiver says of bytes that are no frame.
var errBroken = errors.New("what comes is no journal that is being sent, or it was altered on its way")

// A frameReader reads frames.
type frameReader struct {
	r    io.Reader
	head [frameHead]byte
	body []byte // as large as the largest so far
}

// read reads a frame, whose body is good until the next. A stream that ends is
// io.ErrUnexpectedEOF wherever it does: its end is a frame.
func (f *frameReader) read() (kind byte, body []byte, err error) {
	if err := f.full(f.head[:]); err != nil {
		return 0, nil, err
	}
	n := le.Uint32(f.head[1:])
	if n > frameMax {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes", errBroken, n)
	}
	if int(n) > cap(f.body) {
		f.body = make([]byte, n)
	}
	body = f.body[:n]
	if err := f.full(body); err != nil {
		return 0, nil, err
	}
	if checksum(f.head[:5], body) != le.Uint32(f.head[5:]) {
		return 0, nil, fmt.Errorf("%w: the checksum of a frame is wrong", errBroken)
	}
	return f.head[0], body, nil
}

func (f *frameReader) full(b []byte) error {
	_, err := io.ReadFull(f.r, b)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
