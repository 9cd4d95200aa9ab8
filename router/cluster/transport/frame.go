package transport

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"
)

// The types of frames that follow a greeting of kind Raft.
const (
	frameMessage byte = 1
	frameClock   byte = 2
	frameRoom    byte = 3
)

const (
	frameHead = 1 + 4
	clockSize = 8
	roomSize  = 8
	// MessageMax is the largest message in bytes: an entry of the log is far smaller.
	MessageMax = 64 << 20
	// pieceMax bytes of a body are made room for before they come.
	pieceMax = 64 << 10
)

// appendHead encodes the head of a frame.
func appendHead(dst []byte, kind byte, size int) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, kind), uint32(size))
}

// appendClock encodes a frame that tells the time.
func appendClock(dst []byte, now time.Time) []byte {
	return binary.LittleEndian.AppendUint64(appendHead(dst, frameClock, clockSize), uint64(now.UnixNano()))
}

// appendRoom encodes a frame that tells how many bytes the sender has room for.
func appendRoom(dst []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(appendHead(dst, frameRoom, roomSize), uint64(n))
}

// readFrame reads a frame. moving is called whenever a part of it has come. The body is the
// caller's. An error of the frame itself says what is wrong with it.
func readFrame(r io.Reader, moving func()) (kind byte, body []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	kind = head[0]
	size := int64(binary.LittleEndian.Uint32(head[1:]))
	switch {
	case kind == frameMessage && size <= MessageMax:
	case kind == frameMessage:
		return 0, nil, fmt.Errorf("a message of %d bytes, where %d are allowed", size, MessageMax)
	case kind == frameClock && size == clockSize:
	case kind == frameRoom && size == roomSize:
	default:
		return 0, nil, fmt.Errorf("a frame of type %d with %d bytes, which is none", kind, size)
	}
	body, err = readBody(r, int(size), moving)
	return kind, body, err
}

// readBody reads so many bytes. Room is made for as many again as have come, so that who
// only says a size has none.
func readBody(r io.Reader, size int, moving func()) ([]byte, error) {
	body := make([]byte, 0, min(size, pieceMax))
	for len(body) < size {
		moving()
		if len(body) == cap(body) {
			body = slices.Grow(body, min(len(body), size-len(body)))
		}
		n, err := io.ReadFull(r, body[len(body):min(size, cap(body), len(body)+pieceMax)])
		body = body[:len(body)+n]
		if err != nil {
			return nil, fmt.Errorf("in the middle of a frame: %w", err)
		}
	}
	return body, nil
}
