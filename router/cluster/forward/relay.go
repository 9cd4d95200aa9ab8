package forward

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
	"polystalk/router/cluster/transport"
)

const (
	// RelayMax bounds the requests under way, and so the connections to the leader. More requests
	// are refused at once.
	RelayMax = 32
	// RelayStreamsMax bounds endless answers, which last as long as a page is open. The other seats
	// are for requests that end.
	RelayStreamsMax = RelayMax / 2
	// handOverWithin is how long a deposed leader may take to answer its last requests.
	handOverWithin = 5 * time.Second
)

// RelayOptions configures a Relay.
type RelayOptions struct {
	// Self is the number of this server.
	Self uint64
	// Open opens a stream to a server.
	Open func(ctx context.Context, node uint64) (net.Conn, error)
}

// A Relay sends operators' requests to the leader. Its methods are safe for concurrent use.
type Relay struct {
	o       RelayOptions
	seats   chan struct{} // one element for each request
	streams chan struct{} // one element for each AskStream
	within  time.Duration // handOverWithin

	mu     sync.Mutex
	leader *leader // nil: none is known, or this server leads
	last   *leader // the latest leader that is another server, or nil
	closed bool
}

// NewRelay returns a Relay without a leader.
func NewRelay(o RelayOptions) *Relay {
	return &Relay{o: o, seats: make(chan struct{}, RelayMax), streams: make(chan struct{}, RelayStreamsMax), within: handOverWithin}
}

// A leader is one server, until another leads.
type leader struct {
	node uint64
	name string
	ctx  context.Context // of all requests
	end  context.CancelCauseFunc
}

var (
	errAnother = errors.New("another server leads")
	errClosed  = errors.New("this server ends")
)

// SetLeader sets the leader; 0: there is none. Requests to the previous leader continue for
// handOverWithin: one of them may have deposed it. Without a leader requests continue too: the same
// server may be elected again.
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
		time.AfterFunc(r.within, func() { was.end(errAnother) })
	}
	r.leader, r.last = nil, nil
	if node != r.o.Self {
		r.leader = &leader{node: node, name: name}
		r.leader.ctx, r.leader.end = context.WithCancelCause(context.Background())
		r.last = r.leader
	}
}

// Close ends all requests, also later ones.
func (r *Relay) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil {
		r.last.end(errClosed)
	}
	r.leader, r.closed = nil, true
}

// Ask sends a request to the leader, and returns the answer and the leader's name. The caller closes
// the answer's body, and must not reuse the request. Scheme and host of its URL do not matter. The
// error is an *admin.Problem. Without another leader Ask returns no answer and no error.
func (r *Relay) Ask(req *http.Request) (res *http.Response, by string, err error) {
	r.mu.Lock()
	l := r.leader
	r.mu.Unlock()
	if l == nil {
		return nil, "", nil
	}
	if !take(r.seats) {
		return nil, l.name, wire.Busy.With("", fmt.Sprintf("%d requests are being forwarded to server %s, which leads, and that is the limit", RelayMax, l.name),
			"try again after the seconds in the header Retry-After, or ask "+l.name)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	leave := sync.OnceFunc(func() {
		stop()
		cancel(nil)
		<-r.seats
	})
	to := *req.URL
	to.Scheme, to.Host = "http", "leader"
	req = req.WithContext(ctx)
	req.URL = &to
	c, err := r.o.Open(ctx, l.node)
	reached := err == nil
	if reached {
		res, err = transport.RoundTrip(c, req)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		leave()
		return nil, l.name, l.problem(req, reached, err)
	}
	res.Body = &body{ReadCloser: res.Body, leave: leave}
	return res, l.name, nil
}

// AskStream is Ask for an endless answer.
func (r *Relay) AskStream(req *http.Request) (res *http.Response, by string, err error) {
	if !take(r.streams) {
		return nil, "", wire.Busy.With("", fmt.Sprintf("%d streams from the leader pass through this server, and that is the limit", RelayStreamsMax),
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

// take takes a seat, if one is free.
func take(seats chan struct{}) bool {
	select {
	case seats <- struct{}{}:
		return true
	default:
		return false
	}
}

// problem explains why a request was not answered, and whether it may have been executed.
func (l *leader) problem(req *http.Request, reached bool, err error) error {
	why := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		why = "it did not answer in time"
	case errors.Is(err, context.Canceled):
		why = "the request was canceled"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		why = "it has closed the connection"
	}
	switch {
	case !reached:
		return wire.Following.With("", fmt.Sprintf("server %s leads, and cannot be reached from here: %s", l.name, why),
			"do what the reason says, or try again: it will be reached soon, or another server leads; GET /api/v1/cluster names it")
	case req.Method == http.MethodGet, req.Method == http.MethodHead:
		return wire.Following.With("", fmt.Sprintf("server %s, which led, has not answered: %s", l.name, why),
			"try again: another server leads soon; GET /api/v1/cluster names it")
	}
	return wire.Uncertain.With("", fmt.Sprintf("the request was forwarded to server %s, which led, and no answer came: %s", l.name, why),
		wire.Uncertain.Remedy)
}

// A body gives back the seat of its request when it is closed.
type body struct {
	io.ReadCloser
	leave func()
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}
