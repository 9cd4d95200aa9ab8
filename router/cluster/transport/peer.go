package transport

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"polystalk/router/cluster/complaint"
)

// What is kept for a node that does not read as fast as this one sends.
const (
	queueMessages = 4096
	queueBytes    = MessageMax
)

// A connection to a node that is not there is tried again after a pause between these two
// times, each twice as long as the one before; the pauses of several nodes are spread.
const (
	pauseMin = 10 * time.Millisecond
	pauseMax = 500 * time.Millisecond
)

// A peer is another node: what is sent to it, and what comes from it.
type peer struct {
	t       *Transport
	node    uint64
	isGuest bool // not a member here; guarded by Transport.mu
	ctx     context.Context
	leave   context.CancelFunc // ends run
	out     outbox
	count   counters
	inbound inbound
	log     *complaint.Log

	mu     sync.Mutex
	member Member        // its name and address
	moved  chan struct{} // has an element once there is a reason to connect at once
	loss   loss          // what is wrong with the connection to it
	conn   net.Conn      // to it; nil: none
	until  time.Time     // until when the certificate is valid that it has shown last; zero: it has shown none
}

// counters are what passed between two nodes since the start.
type counters struct {
	sent, sentBytes, received, receivedBytes, dropped atomic.Uint64
	connects                                          atomic.Uint64
}

func newPeer(t *Transport, m Member, isGuest bool) *peer {
	p := &peer{t: t, node: m.Node, isGuest: isGuest, member: m, moved: make(chan struct{}, 1), log: complaint.New(t.o.Log)}
	p.out.wake = make(chan struct{}, 1)
	p.ctx, p.leave = context.WithCancel(t.ctx)
	return p
}

// become says that it is a member, and where. Transport.mu is held.
func (p *peer) become(m Member) {
	p.isGuest = false
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.member == m {
		return
	}
	if p.conn != nil && p.member.Addr != m.Addr {
		p.conn.Close()
	}
	p.member = m
	p.poke()
}

// poke has a connection be tried at once.
func (p *peer) poke() {
	select {
	case p.moved <- struct{}{}:
	default:
	}
}

// remove ends it: both connections, and what was to be sent.
func (p *peer) remove() {
	p.leave()
	p.inbound.abort()
}

// run keeps a connection to the node until it leaves.
func (p *peer) run() {
	defer p.out.shut()
	wait := pauseMin
	for p.ctx.Err() == nil {
		p.out.open()
		p.mu.Lock()
		m := p.member
		p.mu.Unlock()
		s, err := p.t.dial(p.ctx, m, Raft)
		if err == nil {
			begun := time.Now()
			p.begin(s)
			err = p.write(s)
			if time.Since(begun) > pauseMax {
				wait = pauseMin
			}
			p.mu.Lock()
			p.conn = nil
			p.mu.Unlock()
		}
		p.lose(err)
		p.rest(wait)
		wait = min(2*wait, pauseMax)
	}
}

// begin notes a new connection.
func (p *peer) begin(s *Stream) {
	p.count.connects.Add(1)
	p.mu.Lock()
	p.conn = s.raw
	p.until = shownUntil(s.Conn)
	was := p.loss
	p.loss = loss{}
	p.mu.Unlock()
	if was.text != "" {
		p.log.Info("connected with another server of the cluster again", "node", s.remote.Name, "addr", s.raw.RemoteAddr().String())
	}
}

// lose drops what was to be sent, and tells of it: see loss.
func (p *peer) lose(err error) {
	if p.ctx.Err() != nil {
		return
	}
	p.count.dropped.Add(uint64(p.out.shut()))
	p.mu.Lock()
	level, tell := p.loss.note(err, time.Now())
	m := p.member
	p.mu.Unlock()
	switch {
	case tell && level == slog.LevelWarn:
		p.log.Warn("no connection to another server of the cluster; trying again", "node", m.Name, "addr", m.Addr, "err", err)
	case tell:
		p.log.Info("the connection to another server of the cluster is lost; trying again", "node", m.Name, "addr", m.Addr, "err", err)
	}
	if f := p.t.o.Unreachable; f != nil {
		f(p.node)
	}
}

// rest waits before the next attempt, unless there is a reason not to.
func (p *peer) rest(d time.Duration) {
	timer := time.NewTimer(d/2 + time.Duration(p.t.o.Jitter()*float64(d/2)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.moved:
	case <-p.ctx.Done():
	}
}

// send queues a message; false: it is dropped.
func (p *peer) send(message []byte) bool {
	if p.out.put(message) {
		return true
	}
	p.count.dropped.Add(1)
	return false
}
