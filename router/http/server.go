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

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// Limits of what a client may do to the server.
const (
	ConnectionsMax = 128
	HeaderMax      = 16 << 10 // bytes; net/http reads some more before it says so
	HeaderWithin   = 5 * time.Second
	bodyWithin     = 30 * time.Second
	answerWithin   = 60 * time.Second // from the header on, for who reads slowly
	idleMax        = time.Minute
	// publicWithin is how long the answer to a request that everybody may send may take, from the
	// header on. Such an answer is small, and a login's body may take HeaderWithin of that time.
	publicWithin = HeaderWithin + 5*time.Second
	// operationWithin bounds one operation: to wait for others, for room, for the journal.
	operationWithin = 20 * time.Second
)

// Descriptors are as many as a server needs for its connections, with those that it has
// just accepted and is about to close.
const Descriptors = ConnectionsMax + 8

// serverOptions say how a server is made. All but Tokens must be given.
type serverOptions struct {
	Log    *slog.Logger
	Tokens *access.Tokens // nil: there are none
	Rules  Rules

	// Ready is nil once routes that are not Early may be served; else the problem that they
	// are answered with.
	Ready func() error
	// Confirm is asked after Ready for routes that are not Own: no other server has the queue by now. nil: there
	// is no other.
	Confirm func(ctx context.Context) error
	// MaxJobSize is how many bytes the body of a job may have.
	MaxJobSize func() uint32
	// Follows reports whether another server has the queue, or may, and this one not; nil: never.
	// Elsewhere is that other one; nil: requests are not handed on.
	Follows   func() bool
	Elsewhere Elsewhere
	// Observe hears of each request that was answered; route is "other" for what is none.
	Observe func(route, method string, status int, took time.Duration)
}

// Rules say whom to believe about names and addresses, and what may be seen; see
// server.Prepare.
type Rules struct {
	// Hosts are names by which the server may be asked for, besides localhost and
	// addresses; Origins are sites whose pages may change something, as https://HOST:PORT.
	Hosts, Origins []string
	// Proxies are the addresses of proxies whose X-Forwarded-For and -Proto are believed.
	Proxies []netip.Prefix
	// Prefix is removed from the paths that begin with it: below it, a proxy serves the server.
	Prefix string
	// Bodies is how much of the bodies of jobs operators see.
	Bodies access.Bodies

	origins *http.CrossOriginProtection // made of Origins
}

// Prepare looks at other rules, by which requests are judged once apply was called. The
// error is about Origins; nothing has changed then.
func (s *server) Prepare(r Rules) (apply func(), err error) {
	r.origins = http.NewCrossOriginProtection()
	for _, origin := range r.Origins {
		if err := r.origins.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	return func() { s.rules.Store(&r) }, nil
}

// A server is the handler, and what runs it.
type server struct {
	opts     serverOptions
	log      *slog.Logger
	mux      *http.ServeMux
	routes   map[string]*Route // by pattern
	rules    atomic.Pointer[Rules]
	sessions *access.Sessions // nil: there are no tokens
	cookie   string           // the name of the one that has a session's id
	heavy    places           // of requests that take time
	scrapes  places           // of scrapes
	uploads  places           // of large bodies that are received
	keys     keyStore
	audit    auditLog
	pace     pace // of requests without a token

	http        *http.Server
	connections connections
	running     sync.WaitGroup // operations under way
	stop        context.CancelFunc
	ended       context.Context // of all operations
	leave       context.CancelFunc
	leaving     context.Context // of all streams: they end first
	mu          sync.Mutex      // guards stopping, with running.Add
	stopping    bool
}

// New makes a server without routes. The error is about serverOptions.Rules.
func newServer(o serverOptions) (*server, error) {
	s := &server{
		opts: o, log: o.Log, mux: http.NewServeMux(), routes: make(map[string]*Route), cookie: newCookieName(),
		heavy: newPlaces(1), scrapes: newPlaces(1), uploads: newPlaces(2), pace: pace{every: requestEvery},
	}
	judge, err := s.Prepare(o.Rules)
	if err != nil {
		return nil, err
	}
	judge()
	if o.Tokens != nil {
		s.sessions = access.NewSessions(o.Tokens)
	}
	s.ended, s.stop = context.WithCancel(context.Background())
	s.leaving, s.leave = context.WithCancel(s.ended)
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: HeaderWithin,
		ReadTimeout:       bodyWithin,
		WriteTimeout:      answerWithin,
		IdleTimeout:       idleMax,
		MaxHeaderBytes:    HeaderMax,
		ConnState:         s.connections.changed,

		DisableGeneralOptionsHandler: true, // there is no answer but ours
		// It is about single connections, and clients can cause it at will.
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		BaseContext: func(l net.Listener) context.Context {
			return context.WithValue(context.Background(), listenerKey{}, &l.(*listener).door)
		},
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		// HTTP/1.1 alone: with one request at a time on each of a bounded number of
		// connections, all that is under way is bounded as well.
		Protocols: new(http.Protocols),
	}
	s.http.Protocols.SetHTTP1(true)
	return s, nil
}

// Handle adds routes, before Serve. A pattern that is there already panics.
func (s *server) Handle(routes []Route) {
	for i := range routes {
		rt := &routes[i]
		s.routes[rt.Pattern] = rt
		s.mux.HandleFunc(rt.Pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(rt, w, r) })
	}
}

// Pattern is that of the route that serves r; empty: there is none.
func (s *server) Pattern(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	return pattern
}

// Connections are how many there are, and how many were closed to make room for others.
func (s *server) Connections() (open int, dropped uint64) {
	return s.connections.len(), s.connections.dropped.Load()
}

// listenerKey finds the Door that somebody has come in by, and connKey the connection.
type (
	listenerKey struct{}
	connKey     struct{}
)

// A listener knows what holds of who comes to it. It accepts connections at a pace.
type listener struct {
	net.Listener
	door Door
	pace pace
}

// Serve serves who connects to l, until Close; anonymous is the role of those who show no
// token. Several listeners may be served at once. The error is nil after Close.
func (s *server) Serve(l net.Listener, anonymous access.Role) error {
	return s.ServeDoor(l, Door{Anonymous: anonymous})
}

// ServeDoor is Serve for a listener of which more is to be said.
func (s *server) ServeDoor(l net.Listener, d Door) error {
	err := s.http.Serve(&listener{Listener: l, door: d, pace: pace{every: acceptEvery}})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Stop has operations refused from now on, ends streams, and waits for those under way, which are
// broken off when ctx ends. Probes are answered on, and say that the server stops.
func (s *server) Stop(ctx context.Context) {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	s.leave()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.stop()
}

// Close ends all connections at once.
func (s *server) Close() {
	s.stop()
	s.http.Close()
}

// begin counts an operation, unless the server stops; it is to be ended by running.Done.
func (s *server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return wire.Stopping.Problem("")
	}
	s.running.Add(1)
	return nil
}

// Background begins what goes on when its request was answered: until done is called, or ctx
// ends, which it does with the server. The error is a *admin.Problem: the server stops.
func (s *server) Background() (ctx context.Context, done func(), err error) {
	if err := s.begin(); err != nil {
		return nil, nil, err
	}
	return s.ended, s.running.Done, nil
}

// Ended is done once the server's operations are to end.
func (s *server) Ended() context.Context { return s.ended }
