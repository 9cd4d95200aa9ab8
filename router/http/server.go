package http

import (
	"context"
	"crypto/rand"
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
	"polystalk/router/trend"
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
func (a *API) Prepare(r Rules) (apply func(), err error) {
	r.origins = http.NewCrossOriginProtection()
	for _, origin := range r.Origins {
		if err := r.origins.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	return func() { a.rules.Store(&r) }, nil
}

// An API is the HTTP server with all its routes. It accepts requests, checks them and calls their
// routes.
type API struct {
	opts       Options
	op         *admin.Operator
	operations *admin.Operations
	watch      *trend.Watch
	unwatch    func()        // ends the watch, and waits for its end
	shown      *trend.Choice // the tubes that /metrics shows
	rendering  sync.Mutex    // held while events are rendered: event loops need the processors
	boot       string        // random: marks tags and cursors of this process
	metrics    *metrics
	mux        *http.ServeMux
	routes     map[string]*route // by pattern
	rules      atomic.Pointer[Rules]
	sessions   *access.Sessions // nil: there are no tokens
	cookie     string           // name of the session cookie
	heavy      slots            // for requests that take time
	scrapes    slots
	uploads    slots // for large bodies
	streams    slots // open event streams
	keys       keyStore
	audit      auditLog
	rate       *rate.Limiter // of requests without a token

	http        *http.Server
	connections connections
	lifetime
}

// A lifetime counts what runs, and ends it.
type lifetime struct {
	running  sync.WaitGroup // operations
	stop     context.CancelFunc
	ended    context.Context // of all operations
	leave    context.CancelFunc
	leaving  context.Context // of all streams: they end first
	mu       sync.Mutex      // guards stopping, with running.Add
	stopping bool
}

// New makes an API. The error is about Options.Rules or Options.MetricsMatch.
func New(o Options) (*API, error) {
	match, err := anyGlob(o.MetricsMatch)
	if err != nil {
		return nil, err
	}
	if o.Console == nil {
		o.Console = findAsset
	}
	a := &API{
		opts: o, op: o.Operator, operations: admin.NewOperations(o.Operator), watch: trend.New(o.Operator, o.HistoryTubes),
		shown: trend.NewChoice(o.MetricsTubes, match), boot: rand.Text(), mux: http.NewServeMux(), routes: make(map[string]*route), cookie: newCookieName(),
		heavy: make(slots, 1), scrapes: make(slots, 1), uploads: make(slots, 2), streams: make(slots, streamsMax), rate: rate.NewLimiter(requestRate, atOnce),
	}
	apply, err := a.Prepare(o.Rules)
	if err != nil {
		return nil, err
	}
	apply()
	if o.Access != nil {
		a.sessions = access.NewSessions(o.Access)
	}
	a.ended, a.stop = context.WithCancel(context.Background())
	a.leaving, a.leave = context.WithCancel(a.ended)
	a.http = &http.Server{
		Handler:           a,
		ReadHeaderTimeout: headerWithin,
		ReadTimeout:       bodyWithin,
		WriteTimeout:      answerWithin,
		IdleTimeout:       idleMax,
		MaxHeaderBytes:    headerMax,
		ConnState:         a.connections.changed,

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
	a.http.Protocols.SetHTTP1(true)
	a.metrics = newMetrics(a)
	a.handle(a.allRoutes())
	ctx, cancel := context.WithCancel(a.ended)
	done := make(chan struct{})
	go func() {
		a.watch.Run(ctx)
		close(done)
	}()
	a.unwatch = func() { cancel(); <-done }
	return a, nil
}

// handle adds routes, before Serve. A second route with the same pattern panics.
func (a *API) handle(routes []route) {
	for i := range routes {
		rt := &routes[i]
		a.routes[rt.pattern] = rt
		a.mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) { a.serve(rt, w, r) })
	}
}

// listenerKey and connKey are the context keys of a request's Door and connection.
type (
	listenerKey struct{}
	connKey     struct{}
)

// Serve serves the clients of a listener until Close. It may be called for several listeners.
// The error is nil after Close.
func (a *API) Serve(l net.Listener, d Door) error {
	err := a.http.Serve(&listener{Listener: l, door: d, rate: rate.NewLimiter(acceptRate, atOnce)})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// begin counts a running operation, which must call running.Done at its end. The error says that
// the server stops.
func (l *lifetime) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopping {
		return wire.Stopping.Problem("")
	}
	l.running.Add(1)
	return nil
}

// Options configures an API.
type Options struct {
	Operator *admin.Operator
	Log      *slog.Logger
	Level    *slog.LevelVar // of the log
	Version  string         // of the program
	Speaks   string         // versions of the protocols, as text

	Access *access.Identities // nil: the server has no access file
	Rules  Rules

	// MetricsTubes is the number of tubes that /metrics shows. Tubes with a name that matches
	// one of MetricsMatch come first.
	MetricsTubes int
	MetricsMatch []string
	// HistoryTubes is the number of tubes with a history; 0: no history, not even the server's.
	HistoryTubes int

	// Elsewhere sends requests to the leader of the cluster; nil: there is no cluster.
	Elsewhere Elsewhere
	// Peers are other servers, which the console links to.
	Peers []wire.Peer
	// Console returns a file of the console; nil: use the files in the program.
	Console func(name string) *File

	// CertificateEnds returns when the certificates of TLS expire, by their use.
	CertificateEnds func() map[string]time.Time
	// Settings returns the settings in effect, without secrets.
	Settings func() []wire.Setting
	// Reload reads the configuration again, and applies all of it or nothing.
	Reload func() (*wire.Reloaded, error)
}

// PrepareMetrics checks new values of Options.MetricsTubes and MetricsMatch; apply sets them.
// The error is about match.
func (a *API) PrepareMetrics(tubes int, match []string) (apply func(), err error) {
	matches, err := anyGlob(match)
	if err != nil {
		return nil, err
	}
	return func() { a.shown.Set(tubes, matches) }, nil
}

// SetHistory changes Options.HistoryTubes.
func (a *API) SetHistory(tubes int) { a.watch.SetHistory(tubes) }

// Stop refuses new operations, ends streams and waits for running operations, which are cancelled
// when ctx ends. Probes are still answered, and report that the server stops.
func (a *API) Stop(ctx context.Context) {
	a.op.Life().Stop()
	a.unwatch()
	a.mu.Lock()
	a.stopping = true
	a.mu.Unlock()
	a.leave()
	done := make(chan struct{})
	go func() {
		a.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	a.stop()
}

// Close closes all connections.
func (a *API) Close() {
	a.unwatch()
	a.stop()
	a.http.Close()
}
