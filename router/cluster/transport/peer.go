package transport

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of the messages queued for a server.
const (
	queueMessages = 4096
	queueBytes    = messageMax
)

// Bounds of the pause before a failed connection is retried. It doubles, with jitter.
const (
	pauseMin = 10 * time.Millisecond
	pauseMax = 500 * time.Millisecond
)

// A peer is another server at one address: the connection to it, and the connection from it.
type peer struct {
	t       *Transport
	member  Member
	isGuest bool // not a member that this server knows; guarded by Transport.mu
	ctx     context.Context
	leave   context.CancelFunc // ends run
	log     *slog.Logger       // limited

	open        atomic.Bool // else send drops messages
	queue       chan []byte
	queuedBytes atomic.Int64
	again       chan struct{} // one element: connect at once

	sentBytes, receivedBytes, dropped atomic.Uint64

	mu    sync.Mutex
	loss  loss // what is wrong with the connection to it
	out   bool // there is a connection to it
	until time.Time
	in    *Stream // the latest from it, or nil
	clock clockOffset
	room  *int64
}

// remove ends both connections, and drops queued messages.
func (p *peer) remove() {
	p.leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.in != nil {
		p.in.abort()
	}
}

// run keeps a connection to the server until leave.
func (p *peer) run() {
	defer p.shut()
	wait := pauseMin
	for p.ctx.Err() == nil {
		p.open.Store(true)
		s, err := p.t.dial(p.ctx, p.member, Raft)
		if err == nil {
			begun := time.Now()
			p.begin(s)
			err = p.write(s)
			if time.Since(begun) > pauseMax {
				wait = pauseMin
			}
		}
		p.lose(err)
		select {
		case <-time.After(wait/2 + rand.N(wait/2)):
		case <-p.again:
		case <-p.ctx.Done():
		}
		wait = min(2*wait, pauseMax)
	}
}

// begin records a new connection.
func (p *peer) begin(s *Stream) {
	p.mu.Lock()
	p.out = true
	if cert := certificateOf(s.Conn); cert != nil {
		p.until = cert.NotAfter
	}
	was := p.loss
	p.loss = loss{}
	p.mu.Unlock()
	if was.text != "" {
		p.log.Info("connected with another server of the cluster again", "node", s.remote.Name, "addr", s.raw.RemoteAddr().String())
	}
}

// lose drops queued messages and logs why there is no connection.
func (p *peer) lose(err error) {
	if p.ctx.Err() != nil {
		return
	}
	p.dropped.Add(p.shut())
	p.mu.Lock()
	p.out = false
	level, isNew := p.loss.note(err, time.Now())
	p.mu.Unlock()
	if isNew {
		text := "the connection to another server of the cluster is lost; trying again"
		if level == slog.LevelWarn {
			text = "no connection to another server of the cluster; trying again"
		}
		p.log.Log(p.ctx, level, text, "node", p.member.Name, "addr", p.member.Addr, "err", err)
	}
	if f := p.t.o.Unreachable; f != nil {
		f(p.member.Node)
	}
}

// send queues a message. It reports false if it dropped the message.
func (p *peer) send(m []byte) bool {
	if len(m) > messageMax {
		panic("a message is larger than messageMax")
	}
	if n := int64(len(m)); p.open.Load() {
		if p.queuedBytes.Add(n) <= queueBytes {
			select {
			case p.queue <- m:
				return true
			default:
			}
		}
		p.queuedBytes.Add(-n)
	}
	p.dropped.Add(1)
	return false
}

// shut makes send drop messages, and returns how many queued ones it dropped. A concurrent send may
// leave one message for the next connection.
func (p *peer) shut() (n uint64) {
	p.open.Store(false)
	for {
		select {
		case m := <-p.queue:
			p.queuedBytes.Add(-int64(len(m)))
			n++
		default:
			return n
		}
	}
}

func (p *peer) status() PeerStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := PeerStatus{
		Member: p.member, ConnectedTo: p.out, Trouble: p.loss.text, CertificateUntil: p.until, Room: p.room,
		SentBytes: p.sentBytes.Load(), ReceivedBytes: p.receivedBytes.Load(), Dropped: p.dropped.Load(),
	}
	s.ClockAhead, s.ClockSamples = p.clock.value()
	return s
}

// A loss is the problem with a connection; the zero value: none. While it may be a restart of the
// other server, it is information. If it lasts, it is a warning.
type loss struct {
	text   string    // as logged last
	since  time.Time // when the connection was lost
	warned bool      // the warning that it lasts was logged
}

// patience is how long a restart of a server may take.
const patience = 10 * time.Second

// Why a connection has ended.
var (
	errClosed  = errors.New("it has closed the connection")
	errAnew    = errors.New("the connection was replaced")
	errUnshown = errors.New("it has closed the connection without identifying itself")
)

// note records why there is no connection, and returns whether and how to log it.
func (l *loss) note(err error, now time.Time) (level slog.Level, log bool) {
	if l.since.IsZero() {
		l.since = now
	}
	isNew := l.text != err.Error()
	l.text = err.Error()
	if now.Sub(l.since) < patience {
		return slog.LevelInfo, isNew
	}
	log = isNew || !l.warned
	l.warned = true
	return slog.LevelWarn, log
}
