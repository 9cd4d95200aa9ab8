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

// Limits of what a client may take.
const (
	connectionsMax = 128
	headerMax      = 16 << 10 // bytes; net/http reads somewhat more
	headerWithin   = 5 * time.Second
	bodyWithin     = 30 * time.Second
	answerWithin   = 60 * time.Second // from the header on
	idleMax        = time.Minute
	// publicWithin bounds the answer to a request that needs no role, from the header on. The
	// answer is small, and a login's body may take headerWithin of that time.
	publicWithin = headerWithin + 5*time.Second
	// operationWithin bounds one operation: waiting for others, for space, for the journal.
	operationWithin = 20 * time.Second
)

// Descriptors is how many files a server may have open: its connections, and those that it
// has accepted and is about to close.
const Descriptors = connectionsMax + 8

// Rules say which names and addresses are trusted, and what clients may see; see API.Prepare.
type Rules struct {
	Hosts   []string       // allowed host names, besides localhost and addresses
	Origins []string       // sites with pages that may make changes, as https://HOST:PORT
	Proxies []netip.Prefix // trusted proxies: their X-Forwarded-For and -Proto are believed
	Prefix  string         // removed from the paths that begin with it
	Bodies  access.Bodies  // how much of job bodies operators see

	origins *http.CrossOriginProtection // made of Origins
}

// Prepare checks new rules; apply makes them the rules of all later requests. The error is
// about Origins.
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
		// It is about single connections, and clients can cause it at will.
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		BaseContext: func(l net.Listener) context.Context {
			return context.WithValue(context.Background(), listenerKey{}, &l.(*listener).door)
		},
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		// With one request at a time on each of a bounded number of connections, all work is
		// bounded as well.
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

// listenerKey finds the Door of a request's listener, and connKey its connection.
type (
	listenerKey struct{}
	connKey     struct{}
)

// Serve serves the clients of a listener until Close. Several listeners may be served. The
// error is nil after Close.
func (s *server) Serve(l net.Listener, d Door) error {
	err := s.http.Serve(&listener{Listener: l, door: d, rate: rate.NewLimiter(acceptRate, atOnce)})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// begin counts an operation, which running.Done ends. The error says that the server stops.
func (s *server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return wire.Stopping.Problem("")
	}
	s.running.Add(1)
	return nil
}

// background begins an operation that goes on after its answer, until done is called or ctx
// ends with the server.
func (s *server) background() (ctx context.Context, done func(), err error) {
	if err := s.begin(); err != nil {
		return nil, nil, err
	}
	return s.ended, s.running.Done, nil
}
