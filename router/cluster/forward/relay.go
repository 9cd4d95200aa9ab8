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
)

// Limits of a Relay.
const (
	// RelayMax bounds the requests under way. More are refused at once.
	RelayMax = 32
	// RelayStreamsMax bounds endless answers, which last as long as a page is open. The other seats
	// are for requests that end.
	RelayStreamsMax = RelayMax / 2
	// RelayIdleMax is how long an unused connection is kept. The leader keeps it longer, so that it
	// does not end just when it is reused.
	RelayIdleMax = 10 * time.Second
	// RelayConnectionsMax bounds the connections to the leader.
	RelayConnectionsMax = RelayMax + relayIdle
	// RelayDescriptors is the number of file descriptors of a Relay: net/http continues to connect
	// for a canceled request, while another request has its seat.
	RelayDescriptors = RelayConnectionsMax + dialsMax

	relayIdle = 4 // unused connections
	dialsMax  = RelayConnectionsMax
	headMax   = 64 << 10 // bytes of an answer's header
)

// handOverWithin is how long a deposed leader may take to answer its last requests.
const handOverWithin = 5 * time.Second

// RelayOptions configures a Relay.
type RelayOptions struct {
	// Self is the number of this server.
	Self uint64
	// Open opens a stream to a server. ctx does not end with the request: Open needs its own
	// timeout.
	Open func(ctx context.Context, node uint64) (net.Conn, error)
}

// A Relay sends operators' requests to the leader. Its methods are safe for concurrent use.
type Relay struct {
	o       RelayOptions
	seats   chan struct{} // one element for each request
	streams chan struct{} // one element for each AskStream
	dials   chan struct{} // one element for each connection being made
	within  time.Duration // handOverWithin

	mu     sync.Mutex
	leader *leader // nil: none is known, or this server leads
	last   *leader // the latest leader that is another server, or nil
	closed bool
}

// NewRelay returns a Relay without a leader.
func NewRelay(o RelayOptions) *Relay {
	return &Relay{
		o: o, seats: make(chan struct{}, RelayMax), streams: make(chan struct{}, RelayStreamsMax),
		dials: make(chan struct{}, dialsMax), within: handOverWithin,
	}
}

// A leader is one server, until another leads.
type leader struct {
	node    uint64
	name    string
	reads   *http.Transport
	changes *http.Transport // a new connection for each request
	ctx     context.Context // of all requests
	end     context.CancelCauseFunc
}

var (
	errAnother = errors.New("another server leads")
	errDials   = fmt.Errorf("%d connections to it are being made already", dialsMax)
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
		was.reads.CloseIdleConnections()
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
	l.reads = &http.Transport{
		DialContext: dial, DisableCompression: true, MaxResponseHeaderBytes: headMax,
		MaxIdleConns: relayIdle, MaxIdleConnsPerHost: relayIdle, IdleConnTimeout: RelayIdleMax,
	}
	l.changes = &http.Transport{DialContext: dial, DisableCompression: true, MaxResponseHeaderBytes: headMax, DisableKeepAlives: true}
	return l
}

// Close ends all requests, also later ones.
func (r *Relay) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil {
		r.last.end(errClosed)
		r.last.reads.CloseIdleConnections()
	}
	r.leader, r.closed = nil, true
}

// An unreached error says that no connection was made: nothing was executed.
type unreached struct{ err error }

func (u *unreached) Error() string { return u.err.Error() }

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
	req.URL, req.GetBody = &to, nil // without GetBody net/http cannot repeat the request
	transport := l.changes
	if reads(req) {
		transport = l.reads
	}
	res, err = transport.RoundTrip(req)
	if err != nil {
		if _, never := errors.AsType[*unreached](err); !never && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		leave()
		return nil, l.name, l.problem(req, err)
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

func reads(req *http.Request) bool {
	return req.Method == http.MethodGet || req.Method == http.MethodHead
}

// problem explains why a request was not answered, and whether it may have been executed.
func (l *leader) problem(req *http.Request, err error) error {
	why := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		why = "it did not answer in time"
	case errors.Is(err, context.Canceled):
		why = "the request was canceled"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		why = "it has closed the connection"
	}
	if u, never := errors.AsType[*unreached](err); never {
		remedy := "try again: it will be reached soon, or another server leads; GET /api/v1/cluster names it"
		if _, lasts := errors.AsType[interface {
			error
			Lasts()
		}](u.err); lasts {
			remedy = "have the operator do what the reason says, or ask another server; GET /api/v1/cluster names the one that leads"
		}
		return wire.Following.With("", fmt.Sprintf("server %s leads, and cannot be reached from here: %s", l.name, why), remedy)
	}
	if reads(req) {
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
