package transport

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// The types of frames on connections of kind Raft.
const (
	frameMessage byte = 1
	frameClock   byte = 2
	frameRoom    byte = 3
)

const (
	frameHead = 1 + 4
	intSize   = 8 // of a clock or a room
	// messageMax is the largest message in bytes. Entries of the log are far smaller.
	messageMax = 64 << 20
	// pieceMax is how many bytes of a body are allocated ahead.
	pieceMax = 64 << 10
	// batchSize is the usual size of a write, in bytes, and writeMax the largest.
	batchSize = 64 << 10
	writeMax  = 256 << 10
)

func appendHead(dst []byte, kind byte, size int) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, kind), uint32(size))
}

func appendInt(dst []byte, kind byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(appendHead(dst, kind, 8), uint64(n))
}

// A timed connection bounds the time of each read and write. Large writes are split, so a slow reader
// is not taken for a dead one.
type timed struct {
	*Stream
	within time.Duration
}

// Read implements io.Reader.
func (t timed) Read(b []byte) (int, error) {
	t.SetReadDeadline(time.Now().Add(t.within))
	return t.Stream.Read(b)
}

// Write implements io.Writer.
func (t timed) Write(b []byte) (n int, err error) {
	for part := range slices.Chunk(b, writeMax) {
		t.SetWriteDeadline(time.Now().Add(t.within))
		k, err := t.Stream.Write(part)
		if n += k; err != nil {
			return n, err
		}
	}
	return n, nil
}

// readFrame reads a frame. The caller owns the body.
func readFrame(r io.Reader) (kind byte, body []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	kind = head[0]
	size := int64(binary.LittleEndian.Uint32(head[1:]))
	switch {
	case kind == frameMessage && size <= messageMax, (kind == frameClock || kind == frameRoom) && size == intSize:
	case kind == frameMessage:
		return 0, nil, fmt.Errorf("a message of %d bytes, where %d are allowed", size, messageMax)
	default:
		return 0, nil, fmt.Errorf("an unknown frame of type %d with %d bytes", kind, size)
	}
	body, err = readBody(r, int(size))
	return kind, body, err
}

// readBody reads size bytes. It allocates at most twice what has arrived.
func readBody(r io.Reader, size int) ([]byte, error) {
	body := make([]byte, 0, min(size, pieceMax))
	for len(body) < size {
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

// write sends queued messages until the connection breaks, and returns the reason.
func (p *peer) write(s *Stream) error {
	ctx, cancel := context.WithCancel(p.ctx)
	ended := make(chan error, 1)
	p.t.work.Go(func() {
		ended <- awaitEnd(s)
		cancel()
	})
	err := p.writeUntil(ctx, s)
	s.abort()
	// The reader knows best why the connection ended.
	if why := <-ended; errors.Is(err, net.ErrClosed) {
		err = why
	}
	if errors.Is(err, net.ErrClosed) {
		err = errAnew
	}
	return err
}

// writeUntil sends several messages with one write, and the clock at each interval.
func (p *peer) writeUntil(ctx context.Context, s *Stream) error {
	clock := time.NewTicker(p.t.within.clock)
	defer clock.Stop()
	w := bufio.NewWriterSize(timed{s, p.t.within.silent}, batchSize)
	w.Write(p.t.news()) // later calls return its error
	for {
		var m []byte
		select {
		case m = <-p.queue:
		case <-clock.C:
			w.Write(p.t.news())
			continue
		default:
			if err := w.Flush(); err != nil {
				return err
			}
			select {
			case m = <-p.queue:
			case <-clock.C:
				w.Write(p.t.news())
				continue
			case <-ctx.Done():
				return net.ErrClosed
			}
		}
		w.Write(appendHead(w.AvailableBuffer(), frameMessage, len(m)))
		_, err := w.Write(m)
		p.queuedBytes.Add(-int64(len(m)))
		if err != nil {
			return err
		}
		p.sentBytes.Add(uint64(len(m)))
	}
}

// news encodes this server's clock and free disk space.
func (t *Transport) news() []byte {
	b := appendInt(nil, frameClock, t.o.Now().UnixNano())
	if t.o.Room != nil {
		if n := t.o.Room(); n >= 0 {
			b = appendInt(b, frameRoom, n)
		}
	}
	return b
}

// awaitEnd waits for the end of a connection on which the other side sends nothing.
func awaitEnd(s *Stream) error {
	var b [1]byte
	n, err := s.Read(b[:])
	s.abort()
	switch {
	case n > 0:
		return fmt.Errorf("server %v has sent data in the wrong direction", s.remote)
	case errors.Is(err, io.EOF):
		return errClosed
	}
	return err
}

// listen reads the messages of a server until the connection ends.
func (t *Transport) listen(s *Stream, addr string) {
	defer s.abort()
	p, err := t.peerOf(s.remote, addr)
	if err != nil {
		t.logRefusal(s.raw, &greeting{kind: s.kind, from: s.remote}, err)
		return
	}
	p.mu.Lock()
	before := p.in
	p.in, p.clock = s, clockOffset{}
	p.mu.Unlock()
	if before != nil {
		before.abort() // the other end has replaced it
	}
	select {
	case p.again <- struct{}{}: // the server runs: connect to it at once
	default:
	}
	err = p.read(s)
	p.mu.Lock()
	current := p.in == s
	if current {
		p.in = nil
	}
	p.mu.Unlock()
	if !current {
		return
	}
	if !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		p.log.Warn("a connection from another server of the cluster has broken", "node", s.remote.Name, "conn", s.RemoteAddr().String(), "err", err)
	}
	t.dismiss(p)
}

// read handles frames until an error.
func (p *peer) read(s *Stream) error {
	in := bufio.NewReaderSize(timed{s, p.t.within.silent}, batchSize)
	for {
		kind, body, err := readFrame(in)
		if err != nil {
			return err
		}
		p.receivedBytes.Add(uint64(len(body)))
		if kind == frameMessage {
			p.t.o.Receive(p.member.Node, body)
			continue
		}
		n := int64(binary.LittleEndian.Uint64(body))
		p.mu.Lock()
		if kind == frameClock {
			p.clock.add(time.Unix(0, n).Sub(p.t.o.Now()))
		} else {
			p.room = new(max(n, 0))
		}
		p.mu.Unlock()
	}
}

// offsetSamples is the number of samples that a clockOffset keeps.
const offsetSamples = 8

// A clockOffset estimates how far another clock is ahead of this one. Each sample is too small by
// the transmission time of its frame, so the largest of the latest samples is the best.
type clockOffset struct {
	samples [offsetSamples]time.Duration
	n       int // of all samples
}

func (o *clockOffset) add(ahead time.Duration) {
	o.samples[o.n%offsetSamples] = ahead
	o.n++
}

func (o *clockOffset) value() (ahead time.Duration, samples int) {
	if o.n == 0 {
		return 0, 0
	}
	return slices.Max(o.samples[:min(o.n, offsetSamples)]), o.n
}
