package http

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
)

// Limits of clients.
const (
	connectionsMax = 128
	headerMax      = 16 << 10 // bytes; net/http reads somewhat more
	headerWithin   = 5 * time.Second
	bodyWithin     = 30 * time.Second
	answerWithin   = 60 * time.Second // after the request's header
	idleMax        = time.Minute
	// publicWithin is answerWithin for a client without a token. The answer is small, and the
	// body of a login may take headerWithin of that time.
	publicWithin = headerWithin + 5*time.Second
	// operationWithin is the timeout of one operation, which may wait for other operations, for
	// space, and for the journal.
	operationWithin = 20 * time.Second
)

// Descriptors is the largest number of file descriptors of a server: its connections, and some
// that it has accepted and is about to close.
const Descriptors = connectionsMax + 8

// Rules are the trusted names and addresses, and what clients may see. API.Prepare sets them.
type Rules struct {
	Hosts   []string       // allowed host names; localhost and addresses are always allowed
	Origins []string       // sites with pages that may make changes, as https://HOST:PORT
	Proxies []netip.Prefix // trusted proxies: the server uses their X-Forwarded-For and -Proto
	Prefix  string         // removed from paths that begin with it
	Bodies  access.Bodies  // how much of job bodies operators see

	origins *http.CrossOriginProtection // made of Origins
}

// Prepare checks new rules; apply sets them for all later requests. The error is about
// r.Origins.
func (s *server) Prepare(r Rules) (apply func(), err error) {
	r.origins = http.NewCrossOriginProtection()
	for _, origin := range r.Origins {
		if err := r.origins.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	return func() { s.rules.Store(&r) }, nil
}

// A server accepts requests, checks them and calls their routes.
type server struct {
	opts     Options
	op       *admin.Operator
	metrics  *metrics
	mux      *http.ServeMux
	routes   map[string]*route // by pattern
	rules    atomic.Pointer[Rules]
	sessions *access.Sessions // nil: there are no tokens
	cookie   string           // name of the session cookie
	heavy    slots            // for requests that take time
	scrapes  slots
	uploads  slots // for large bodies
	keys     keyStore
	audit    auditLog
	rate     *rate.Limiter // of requests without a token

	http        *http.Server
	connections connections
	running     sync.WaitGroup // operations
	stop        context.CancelFunc
	ended       context.Context // of all operations
	leave       context.CancelFunc
	leaving     context.Context // of all streams: they end first
	mu          sync.Mutex      // guards stopping, with running.Add
	stopping    bool
}

// newServer makes a server without routes. The error is about Options.Rules.
func newServer(o Options) (*server, error) {
	s := &server{
		opts: o, op: o.Operator, mux: http.NewServeMux(), routes: make(map[string]*route), cookie: newCookieName(),
		heavy: make(slots, 1), scrapes: make(slots, 1), uploads: make(slots, 2), rate: rate.NewLimiter(requestRate, atOnce),
	}
	apply, err := s.Prepare(o.Rules)
	if err != nil {
		return nil, err
	}
	apply()
	if o.Tokens != nil {
		s.sessions = access.NewSessions(o.Tokens)
	}
	s.ended, s.stop = context.WithCancel(context.Background())
	s.leaving, s.leave = context.WithCancel(s.ended)
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerWithin,
		ReadTimeout:       bodyWithin,
		WriteTimeout:      answerWithin,
		IdleTimeout:       idleMax,
		MaxHeaderBytes:    headerMax,
		ConnState:         s.connections.changed,

		DisableGeneralOptionsHandler: true,
		// Its errors are about single connections, and clients can cause any number of them.
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		BaseContext: func(l net.Listener) context.Context {
			return context.WithValue(context.Background(), listenerKey{}, &l.(*listener).door)
		},
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		// Each connection has one request at a time, so all requests are bounded, too.
		Protocols: new(http.Protocols),
	}
	s.http.Protocols.SetHTTP1(true)
	return s, nil
}

// handle adds routes, before Serve. A second route with the same pattern panics.
func (s *server) handle(routes []route) {
	for i := range routes {
		rt := &routes[i]
		s.routes[rt.pattern] = rt
		s.mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(rt, w, r) })
	}
}

// listenerKey and connKey are the context keys of a request's Door and connection.
type (
	listenerKey struct{}
	connKey     struct{}
)

// Serve serves the clients of a listener until Close. It may be called for several listeners.
// The error is nil after Close.
func (s *server) Serve(l net.Listener, d Door) error {
	err := s.http.Serve(&listener{Listener: l, door: d, rate: rate.NewLimiter(acceptRate, atOnce)})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// begin counts a running operation, which must call running.Done at its end. The error says that
// the server stops.
func (s *server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return wire.Stopping.Problem("")
	}
	s.running.Add(1)
	return nil
}

// background begins an operation that continues after its answer. The operation must call done
// at its end. ctx ends with the server.
func (s *server) background() (ctx context.Context, done func(), err error) {
	if err := s.begin(); err != nil {
		return nil, nil, err
	}
	return s.ended, s.running.Done, nil
}
