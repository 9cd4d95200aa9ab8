package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// batchSize bytes go into one write, if there are as many.
	batchSize = 64 << 10
	// writeMost bytes of a large message are written at a time, so that who reads slowly
	// gets on, and who does not read at all is noticed.
	writeMost = 256 << 10
)

// An outbox is what is to be sent to a node.
type outbox struct {
	wake chan struct{} // has an element once there is something

	mu     sync.Mutex
	isOpen bool // else everything is dropped
	queue  [][]byte
	n      int // messages that are queued, or taken and not written yet
	bytes  int // theirs
}

// put queues a message; false: there is no room, or no connection.
func (o *outbox) put(message []byte) bool {
	if len(message) > MessageMax {
		panic(fmt.Sprintf("a message of %d bytes is to be sent, where %d are allowed", len(message), MessageMax))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.isOpen || o.n == queueMessages || o.bytes+len(message) > queueBytes {
		return false
	}
	o.queue = append(o.queue, message)
	o.n++
	o.bytes += len(message)
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return true
}

// take gives what is queued; spare is a list to go on with.
func (o *outbox) take(spare [][]byte) [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.queue
	o.queue = spare
	return list
}

// written takes messages off the count.
func (o *outbox) written(n, bytes int) {
	o.mu.Lock()
	o.n -= n
	o.bytes -= bytes
	o.mu.Unlock()
}

// open takes messages from now on.
func (o *outbox) open() {
	o.mu.Lock()
	o.isOpen = true
	o.mu.Unlock()
}

// shut takes none any more, and drops those that it has; it says how many.
func (o *outbox) shut() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.n
	o.isOpen, o.queue, o.n, o.bytes = false, nil, 0, 0
	return n
}

// write sends what there is, several messages to a write, until the connection breaks. There
// is always an error, which says why.
func (p *peer) write(s *Stream) error {
	ended := make(chan error, 1)
	p.t.work.Go(func() { ended <- watch(s) })
	err := p.writeUntil(s, ended)
	s.abort()
	// Where both sides of it failed, the reading one knows why.
	if why := <-ended; errors.Is(err, net.ErrClosed) {
		err = why
	}
	if errors.Is(err, net.ErrClosed) {
		err = errAnew
	}
	return err
}

// writeUntil is write until the connection has ended.
func (p *peer) writeUntil(s *Stream, ended chan error) error {
	clock := time.NewTicker(p.t.within.clock)
	defer clock.Stop()
	w := &batch{to: s, b: p.t.appendNews(make([]byte, 0, batchSize))}
	var list [][]byte
	for {
		if err := w.flush(); err != nil {
			return err
		}
		select {
		case <-p.out.wake:
			list = p.out.take(list[:0])
		case <-clock.C:
			w.b = p.t.appendNews(w.b)
		case err := <-ended:
			ended <- err
			return err
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
		for i, m := range list {
			list[i] = nil
			if err := w.add(m); err != nil {
				return err
			}
			p.count.sent.Add(1)
			p.count.sentBytes.Add(uint64(len(m)))
			p.out.written(1, len(m))
		}
		list = list[:0]
	}
}

// appendNews encodes what every node is told now and then.
func (t *Transport) appendNews(b []byte) []byte {
	b = appendClock(b, t.o.Now())
	if t.o.Room != nil {
		if n := t.o.Room(); n >= 0 {
			b = appendRoom(b, n)
		}
	}
	return b
}

// watch waits for the end of a connection on which nothing comes.
func watch(s *Stream) error {
	var b [1]byte
	n, err := s.Read(b[:])
	s.abort()
	switch {
	case n > 0:
		return fmt.Errorf("server %v has sent something where nothing is to be sent", s.remote)
	case errors.Is(err, io.EOF):
		return errClosed
	}
	return err
}

// A batch is what goes into one write.
type batch struct {
	to *Stream
	b  []byte
}

// add adds a message, and writes what there is no room for.
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
	for len(m) > 0 {
		n := min(len(m), writeMost)
		if err := w.write(m[:n]); err != nil {
			return err
		}
		m = m[n:]
	}
	return nil
}

// flush writes what was added.
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
