package web

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
	"polystalk/router/admin"
	"polystalk/router/exposition"
)

// Limits of what a client may do to the server.
const (
	connectionsMax = 128
	headerMax      = 16 << 10 // bytes; net/http reads some more before it says so
	headerWithin   = 5 * time.Second
	bodyWithin     = 30 * time.Second
	answerWithin   = 60 * time.Second // from the header on, for who reads slowly
	idleMax        = time.Minute
	// operationWithin bounds one operation: to wait for others, for room, for the journal.
	operationWithin = 20 * time.Second
)

// Descriptors are as many as a Server needs for its connections, with those that it has
// just accepted and is about to close.
const Descriptors = connectionsMax + 8

// Options say how a Server is made. What is not there is not served, or not asked for.
type Options struct {
	Operator *admin.Operator
	Log      *slog.Logger
	Version  string // of the program
	Speaks   string // the versions of the protocols, for people

	Tokens *access.Tokens // nil: there are none
	Rules  Rules

	// MetricsTubes is how many tubes /metrics shows; those first whose names match one of
	// MetricsMatch.
	MetricsTubes int
	MetricsMatch []string

	// Settings are those in effect, without secrets.
	Settings func() []wire.Setting
	// Reload reads the configuration again: all of it is used, or nothing.
	Reload func() (*wire.Reloaded, error)
	Level  *slog.LevelVar // of the log
}

// Rules say whom to believe about names and addresses; see Server.Prepare.
type Rules struct {
	// Hosts are names by which the server may be asked for, besides localhost and
	// addresses; Origins are sites whose pages may change something, as https://HOST:PORT.
	Hosts, Origins []string
	// Proxies are the addresses of proxies whose X-Forwarded-For and -Proto are believed.
	Proxies []netip.Prefix

	origins *http.CrossOriginProtection // made of Origins
}

// Prepare looks at other rules, by which requests are judged once apply was called. The
// error is about Origins; nothing has changed then.
func (s *Server) Prepare(r Rules) (apply func(), err error) {
	r.origins = http.NewCrossOriginProtection()
	for _, origin := range r.Origins {
		if err := r.origins.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	return func() { s.rules.Store(&r) }, nil
}

// A Server is the handler, and what runs it.
type Server struct {
	opts       Options
	op         *admin.Operator
	log        *slog.Logger
	mux        *http.ServeMux
	routes     map[string]*route // by pattern
	rules      atomic.Pointer[Rules]
	sessions   *access.Sessions // nil: there are no tokens
	heavy      places           // of requests that take time
	uploads    places           // of large bodies
	keys       keyStore
	operations *admin.Operations
	audit      auditRing
	metrics    *metrics
	shown      *exposition.Choice // of /metrics
	boot       string             // of this process alone, in tags

	http        *http.Server
	connections connections
	running     sync.WaitGroup // operations under way
	stop        context.CancelFunc
	ended       context.Context // of all operations
	mu          sync.Mutex      // guards stopping, with running.Add
	stopping    bool
}

// New makes a Server. The error is about Options.Rules, or about MetricsMatch.
func New(o Options) (*Server, error) {
	s := &Server{
		opts: o, op: o.Operator, log: o.Log, mux: http.NewServeMux(),
		boot:   newRequestID(),
		routes: make(map[string]*route),
		heavy:  newPlaces(1), uploads: newPlaces(2),
		operations: admin.NewOperations(o.Operator),
	}
	judge, err := s.Prepare(o.Rules)
	if err != nil {
		return nil, err
	}
	judge()
	if o.Tokens != nil {
		s.sessions = access.NewSessions(o.Tokens)
	}
	match, err := anyGlob(o.MetricsMatch)
	if err != nil {
		return nil, err
	}
	s.shown = exposition.NewChoice(o.MetricsTubes, match)
	s.ended, s.stop = context.WithCancel(context.Background())
	s.metrics = newMetrics(s)
	for i := range table {
		rt := &table[i]
		s.routes[rt.pattern] = rt
		s.mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(rt, w, r) })
	}
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerWithin,
		ReadTimeout:       bodyWithin,
		WriteTimeout:      answerWithin,
		IdleTimeout:       idleMax,
		MaxHeaderBytes:    headerMax,
		ConnState:         s.connections.changed,
		// It is about single connections, and clients can cause it at will.
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		BaseContext: func(l net.Listener) context.Context {
			return context.WithValue(context.Background(), listenerKey{}, l.(*listener).anonymous)
		},
		// HTTP/1.1 alone: with one request at a time on each of a bounded number of
		// connections, all that is under way is bounded as well.
		Protocols: new(http.Protocols),
	}
	s.http.Protocols.SetHTTP1(true)
	return s, nil
}

// listenerKey finds the role of who shows no token to a listener.
type listenerKey struct{}

// A listener knows what may be done by who comes to it without a token.
type listener struct {
	net.Listener
	anonymous access.Role
}

// Serve serves who connects to l, until Close; anonymous is the role of those who show no
// token. Several listeners may be served at once. The error is nil after Close.
func (s *Server) Serve(l net.Listener, anonymous access.Role) error {
	err := s.http.Serve(&listener{l, anonymous})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Stop has the API refuse operations from now on, and waits for those under way, which are
// broken off when ctx ends. Probes are answered on, and say that the server stops.
func (s *Server) Stop(ctx context.Context) {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	s.op.Life().Stop()
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
func (s *Server) Close() {
	s.stop()
	s.http.Close()
}

// begin counts an operation, unless the server stops; it is to be ended by running.Done.
func (s *Server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return wire.Stopping.Problem("")
	}
	s.running.Add(1)
	return nil
}
