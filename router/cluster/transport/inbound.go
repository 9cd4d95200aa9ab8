package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// An inbound is what comes from a node.
type inbound struct {
	mu      sync.Mutex
	conn    *Stream // the newest from it; nil: none
	samples [offsetSamples]time.Duration
	n       int // samples that there were
	room    int64
	rooms   bool // it has told its room
}

// offsetSamples are remembered, so that one that was long under way does not count.
const offsetSamples = 8

// note takes a sample: how far the sender's clock was ahead of this one's when its time came,
// which is less than it is, by how long it was under way.
func (in *inbound) note(ahead time.Duration) {
	in.mu.Lock()
	in.samples[in.n%offsetSamples] = ahead
	in.n++
	in.mu.Unlock()
}

// offset is how far the node's clock is ahead of this one's, by so many samples.
func (in *inbound) offset() (ahead time.Duration, samples int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.n == 0 {
		return 0, 0
	}
	ahead = in.samples[0]
	for _, s := range in.samples[:min(in.n, offsetSamples)] {
		ahead = max(ahead, s)
	}
	return ahead, in.n
}

// noteRoom notes how many bytes the node has room for. What it says of itself stays known while it
// is gone.
func (in *inbound) noteRoom(n int64) {
	in.mu.Lock()
	in.room, in.rooms = max(n, 0), true
	in.mu.Unlock()
}

// begin makes a connection the one that is read. The one before it has ended, or its other
// end has forgotten it.
func (in *inbound) begin(s *Stream) {
	in.mu.Lock()
	before := in.conn
	in.conn = s
	in.n = 0
	in.mu.Unlock()
	if before != nil {
		before.abort()
	}
}

// abort ends the connection.
func (in *inbound) abort() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.conn != nil {
		in.conn.abort()
	}
}

// end notes that a connection is over, and reports whether it was the newest.
func (in *inbound) end(s *Stream) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.conn != s {
		return false
	}
	in.conn = nil
	return true
}

// listen reads the messages of a node until the connection ends.
func (t *Transport) listen(s *Stream, addr string) {
	defer s.abort()
	p, err := t.peerOf(s.remote, addr)
	if err != nil {
		t.complain(s.raw, &greeting{kind: s.kind, from: s.remote}, err)
		return
	}
	p.inbound.begin(s)
	p.poke() // it is there: it can be connected to
	err = p.read(s)
	if !p.inbound.end(s) {
		return
	}
	if !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		p.log.Warn("a connection from another server of the cluster has broken", "node", s.remote.Name, "conn", s.RemoteAddr().String(), "err", err)
	}
	t.dismiss(p)
}

// read takes what comes; it ends with an error.
func (p *peer) read(s *Stream) error {
	in := bufio.NewReaderSize(s, batchSize)
	moving := func() { s.SetReadDeadline(time.Now().Add(p.t.within.silent)) }
	for {
		moving()
		kind, body, err := readFrame(in, moving)
		if err != nil {
			return err
		}
		p.count.receivedBytes.Add(uint64(len(body)))
		switch kind {
		case frameClock:
			sent := time.Unix(0, int64(binary.LittleEndian.Uint64(body)))
			p.inbound.note(sent.Sub(p.t.o.Now()))
		case frameRoom:
			p.inbound.noteRoom(int64(binary.LittleEndian.Uint64(body)))
		case frameMessage:
			p.count.received.Add(1)
			p.t.o.Receive(p.node, body)
		}
	}
}
