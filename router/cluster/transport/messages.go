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
	clockSize = 8
	roomSize  = 8
	// messageMax is the largest message in bytes. Entries of the log are far smaller.
	messageMax = 64 << 20
	// pieceMax is how many bytes of a body are allocated ahead.
	pieceMax = 64 << 10
	// batchSize is the usual size of a write, in bytes.
	batchSize = 64 << 10
	// writeMax is the largest write, in bytes: each has its own timeout, so a slow reader is not
	// taken for a dead one.
	writeMax = 256 << 10
)

func appendHead(dst []byte, kind byte, size int) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, kind), uint32(size))
}

func appendInt(dst []byte, kind byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(appendHead(dst, kind, 8), uint64(n))
}

// readFrame reads a frame, and calls moving when a part of it has arrived. The caller owns the body.
func readFrame(r io.Reader, moving func()) (kind byte, body []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	kind = head[0]
	size := int64(binary.LittleEndian.Uint32(head[1:]))
	switch {
	case kind == frameMessage && size <= messageMax:
	case kind == frameMessage:
		return 0, nil, fmt.Errorf("a message of %d bytes, where %d are allowed", size, messageMax)
	case kind == frameClock && size == clockSize:
	case kind == frameRoom && size == roomSize:
	default:
		return 0, nil, fmt.Errorf("an unknown frame of type %d with %d bytes", kind, size)
	}
	body, err = readBody(r, int(size), moving)
	return kind, body, err
}

// readBody reads size bytes. It allocates at most twice what has arrived.
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
	w := &batch{to: s, b: p.t.appendNews(make([]byte, 0, batchSize))}
	for {
		var m []byte
		select {
		case m = <-p.queue:
		case <-clock.C:
			w.b = p.t.appendNews(w.b)
			continue
		default:
			if err := w.flush(); err != nil {
				return err
			}
			select {
			case m = <-p.queue:
			case <-clock.C:
				w.b = p.t.appendNews(w.b)
				continue
			case <-ctx.Done():
				return net.ErrClosed
			}
		}
		err := w.add(m)
		p.queuedBytes.Add(-int64(len(m)))
		if err != nil {
			return err
		}
		p.sent.Add(1)
		p.sentBytes.Add(uint64(len(m)))
	}
}

// appendNews encodes this server's clock and free disk space.
func (t *Transport) appendNews(b []byte) []byte {
	b = appendInt(b, frameClock, t.o.Now().UnixNano())
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

// A batch collects frames for one write.
type batch struct {
	to *Stream
	b  []byte
}

// add adds a message, and writes what does not fit.
func (w *batch) add(m []byte) error {
	if len(w.b)+frameHead+len(m) > batchSize {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.b = appendHead(w.b, frameMessage, len(m))
	if len(m) < batchSize-frameHead {
		w.b = append(w.b, m...)
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	for part := range slices.Chunk(m, writeMax) {
		if err := w.write(part); err != nil {
			return err
		}
	}
	return nil
}

func (w *batch) flush() error {
	if len(w.b) == 0 {
		return nil
	}
	err := w.write(w.b)
	w.b = w.b[:0]
	return err
}

func (w *batch) write(b []byte) error {
	w.to.SetWriteDeadline(time.Now().Add(w.to.transport.within.silent))
	_, err := w.to.Write(b)
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
	p.poke() // the server runs: connect to it at once
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
	in := bufio.NewReaderSize(s, batchSize)
	moving := func() { s.SetReadDeadline(time.Now().Add(p.t.within.silent)) }
	for {
		moving()
		kind, body, err := readFrame(in, moving)
		if err != nil {
			return err
		}
		p.receivedBytes.Add(uint64(len(body)))
		if kind == frameMessage {
			p.received.Add(1)
			p.t.o.Receive(p.node, body)
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
