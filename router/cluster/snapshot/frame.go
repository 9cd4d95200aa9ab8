package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// The types of frames.
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
	frameMax  = 1 << 20 // bytes that a frame carries
	failedMax = 1 << 10 // bytes of a failed frame's text
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// errBroken is the error of invalid frames.
var errBroken = errors.New("the received bytes are not a journal, or were altered on the way")

// writeFrame writes a frame of at most frameMax bytes. It does not keep body.
func writeFrame(w io.Writer, kind byte, body []byte) error {
	head := [frameHead]byte{kind}
	le.PutUint32(head[1:], uint32(len(body)))
	le.PutUint32(head[5:], checksum(head[:5], body))
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(body)
	return err
}

// refuse tells the receiver why no journal is sent.
func refuse(to io.Writer, why error) error {
	text := why.Error()
	return writeFrame(to, frameFailed, []byte(text[:min(len(text), failedMax)]))
}

func checksum(head, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, body)
}

// A frameReader reads frames.
type frameReader struct {
	r    io.Reader
	head [frameHead]byte
	body []byte // as large as the largest frame so far
}

// read reads a frame. The body is valid until the next read. The end of the stream is always
// io.ErrUnexpectedEOF: a complete journal ends with an end frame.
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
