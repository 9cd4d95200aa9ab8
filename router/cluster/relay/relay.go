package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	wire "polystalk/codec/admin"
)

// Limits of a Relay.
const (
	// Max requests are handed on at a time.
	Max = 32
	// StreamsMax of them are answered without an end of their own: the others are left for what
	// is done.
	StreamsMax = Max / 2
	// IdleMax is for how long a connection is kept that nobody uses: less than the other end
	// keeps it, so that it does not end just when it is used.
	IdleMax = 10 * time.Second

	idleMost  = 4        // connections that are kept
	headerMax = 64 << 10 // bytes of an answer's header
)

// ConnectionsMax are open to the server that leads, once those who were left while they were made
// have ended.
const ConnectionsMax = Max + idleMost

// dialsMax connections are made at a time. net/http goes on with one when the request that it was
// for has been given up, and has left its seat to another.
const dialsMax = ConnectionsMax

// Descriptors are as many as a Relay needs.
const Descriptors = ConnectionsMax + dialsMax

// handOverWithin is how long a server that leads no more may take for what it was asked while it
// led.
const handOverWithin = 5 * time.Second

// Options say how a Relay is made.
type Options struct {
	// Self is this node, to which nothing is handed.
	Self uint64
	// Open makes a stream to a node, by a goroutine of the Relay's. Its context does not end with
	// the request that the stream is for: Open has a bound in time of its own.
	Open func(ctx context.Context, node uint64) (net.Conn, error)
}

// A Relay knows who leads, and hands requests on to it. Its methods may be called by anyone.
type Relay struct {
	o       Options
	seats   chan struct{} // has an element for each request under way
	streams chan struct{} // the same for each that AskStream was asked for
	dials   chan struct{} // has an element for each connection that is being made
	within  time.Duration // see handOverWithin

	mu     sync.Mutex
	leader *leader // nil: none is known, or it is this one
	last   *leader // the one before it, or the same
	closed bool
}

// New makes one that knows of no leader.
func New(o Options) *Relay {
	return &Relay{
		o: o, seats: make(chan struct{}, Max), streams: make(chan struct{}, StreamsMax),
		dials: make(chan struct{}, dialsMax), within: handOverWithin,
	}
}

// A leader is a server that led, for as long as that was known without another in between.
type leader struct {
	node    uint64
	name    string
	looks   *http.Transport // for what only looks
	changes *http.Transport // for what changes something: each on a connection of its own
	ctx     context.Context // of all that it was asked for
	end     context.CancelCauseFunc
}

// errAnother ends what the server before was asked for.
var errAnother = errors.New("another server leads")

// errDials is why none is connected any more for a while.
var errDials = fmt.Errorf("%d connections to it are being made already", dialsMax)

// errClosed ends all.
var errClosed = errors.New("this server ends")

// SetLeader says who leads; zero: nobody whom this server knows. What the one before it was asked
// for goes on for a while, since that may be what has made another one lead. While nobody
// leads it goes on as well: it may be the same one again.
func (r *Relay) SetLeader(node uint64, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case node == 0 || r.closed:
		r.leader = nil
		return
	case r.last != nil && r.last.node == node && r.last.ctx.Err() == nil:
		r.leader = r.last
		return
	}
	if was := r.last; was != nil {
		was.looks.CloseIdleConnections()
		time.AfterFunc(r.within, func() { was.end(errAnother) })
	}
	r.leader, r.last = nil, nil
	if node != r.o.Self {
		r.leader = r.newLeader(node, name)
		r.last = r.leader
	}
}

func (r *Relay) newLeader(node uint64, name string) *leader {
	l := &leader{node: node, name: name}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		if !take(r.dials) {
			return nil, &unreached{errDials}
		}
		defer func() { <-r.dials }()
		c, err := r.o.Open(ctx, node)
		if err != nil {
			return nil, &unreached{err}
		}
		return c, nil
	}
	l.looks = &http.Transport{
		DialContext: dial, DisableCompression: true, MaxResponseHeaderBytes: headerMax,
		MaxIdleConns: idleMost, MaxIdleConnsPerHost: idleMost, IdleConnTimeout: IdleMax,
	}
	l.changes = &http.Transport{DialContext: dial, DisableCompression: true, MaxResponseHeaderBytes: headerMax, DisableKeepAlives: true}
	return l
}

// Close ends all that is under way, and hands nothing on any more.
func (r *Relay) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil {
		r.last.end(errClosed)
		r.last.looks.CloseIdleConnections()
	}
	r.leader, r.closed = nil, true
}

// An unreached server is one to which there is no connection: it was asked for nothing.
type unreached struct{ err error }

func (u *unreached) Error() string { return u.err.Error() }

// A lasting error stays until an operator does what it says, as where a certificate has ended.
type lasting interface {
	error
	Lasts()
}

// Ask sends a request to the server that leads, whose name is by, and gives its answer, of which
// the body is to be closed. Host and scheme of the URL do not matter; the request is not to be
// used again. The error is a *admin.Problem, and nil with a nil answer: nobody leads whom this
// server could ask.
func (r *Relay) Ask(req *http.Request) (res *http.Response, by string, err error) {
	r.mu.Lock()
	l := r.leader
	r.mu.Unlock()
	if l == nil {
		return nil, "", nil
	}
	if !take(r.seats) {
		return nil, l.name, wire.Busy.With("", fmt.Sprintf("%d requests are handed on to server %s, which leads, and no more may be", Max, l.name),
			"try again after the seconds in the header Retry-After, or ask "+l.name)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	leave := sync.OnceFunc(func() {
		stop()
		cancel(nil)
		<-r.seats
	})
	by = l.name
	to := *req.URL
	to.Scheme, to.Host = "http", "leader"
	req = req.WithContext(ctx)
	req.URL, req.GetBody = &to, nil
	transport := l.changes
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		transport = l.looks
	}
	res, err = transport.RoundTrip(req)
	if err != nil {
		err = l.problem(req, causeOf(ctx, err))
		leave()
		return nil, by, err
	}
	res.Body = &body{ReadCloser: res.Body, leave: leave}
	return res, by, nil
}

// AskStream is Ask for an answer that has no end of its own, of which there may be fewer at a time.
func (r *Relay) AskStream(req *http.Request) (res *http.Response, by string, err error) {
	if !take(r.streams) {
		return nil, "", wire.Busy.With("", fmt.Sprintf("%d streams come by way of this server from the one that leads, and no more may", StreamsMax),
			"try again after the seconds in the header Retry-After, or ask another server")
	}
	leave := sync.OnceFunc(func() { <-r.streams })
	res, by, err = r.Ask(req)
	if res == nil {
		leave()
		return nil, by, err
	}
	res.Body = &body{ReadCloser: res.Body, leave: leave}
	return res, by, nil
}

// take takes a seat; false: all are taken.
func take(seats chan struct{}) bool {
	select {
	case seats <- struct{}{}:
		return true
	default:
		return false
	}
}

// causeOf is why ctx has ended, if it has, and else err.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if _, never := errors.AsType[*unreached](err); !never {
			return cause
		}
	}
	return err
}

// problem is what becomes of a request that was not answered.
func (l *leader) problem(req *http.Request, err error) error {
	why := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		why = "it did not answer in time"
	case errors.Is(err, context.Canceled):
		why = "it was given up"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		why = "it has closed the connection"
	}
	if u, never := errors.AsType[*unreached](err); never {
		remedy := "try again: it is reached soon, or another one leads; GET /api/v1/cluster names it"
		if _, is := errors.AsType[lasting](u.err); is {
			remedy = "have the operator do what the reason says, or ask another server; GET /api/v1/cluster names the one that leads"
		}
		return wire.Following.With("", fmt.Sprintf("server %s leads, and cannot be reached from here: %s", l.name, why), remedy)
	}
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return wire.Following.With("", fmt.Sprintf("server %s, which led, has not answered: %s", l.name, why),
			"try again: another one leads soon; GET /api/v1/cluster names it")
	}
	return wire.Uncertain.With("", fmt.Sprintf("the request was handed on to server %s, which led, and no answer has come: %s", l.name, why),
		wire.Uncertain.Remedy)
}

// A body gives its request's seat back at its end.
type body struct {
	io.ReadCloser
	leave func()
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}
