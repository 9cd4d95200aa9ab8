package http

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/router/trend"
)

// Options say how an API is made. What is not there is not served, or not asked for.
type Options struct {
	Operator *admin.Operator
	Log      *slog.Logger
	Level    *slog.LevelVar // of the log
	Version  string         // of the program
	Speaks   string         // the versions of the protocols, for people

	Tokens *access.Tokens // nil: there are none
	Rules  Rules

	// MetricsTubes is how many tubes /metrics shows; those first whose names match one of
	// MetricsMatch.
	MetricsTubes int
	MetricsMatch []string
	// HistoryTubes is how many tubes have a history; 0: there is none, of the server neither.
	HistoryTubes int

	// Elsewhere is the server that leads, of one that follows; nil: the server is alone.
	Elsewhere Elsewhere
	// Peers are other servers, which the console links to.
	Peers []wire.Peer
	// Console finds the console's files; nil: it is that of the program.
	Console func(name string) *File

	// Settings are those in effect, without secrets.
	Settings func() []wire.Setting
	// Reload reads the configuration again: all of it is used, or nothing.
	Reload func() (*wire.Reloaded, error)
}

// An API is all that is served by HTTP, with the server that serves it.
type API struct {
	*server
	opts       Options
	op         *admin.Operator
	operations *admin.Operations
	metrics    *metrics
	watch      *trend.Watch
	unwatch    func()        // ends it, and waits for that
	shown      *trend.Choice // of /metrics
	rendering  sync.Mutex    // held while a stream's events are made: event loops need the processors
	boot       string        // of this process alone, in tags and cursors
}

// New makes an API. The error is about Options.Rules, or about MetricsMatch.
func New(o Options) (*API, error) {
	match, err := anyGlob(o.MetricsMatch)
	if err != nil {
		return nil, err
	}
	if o.Console == nil {
		o.Console = Find
	}
	a := &API{
		opts: o, op: o.Operator, operations: admin.NewOperations(o.Operator),
		watch: trend.New(o.Operator, streamsMax, o.HistoryTubes),
		shown: trend.NewChoice(o.MetricsTubes, match), boot: rand.Text(),
	}
	a.server, err = newServer(serverOptions{
		Log: o.Log, Tokens: o.Tokens, Rules: o.Rules,
		Ready: o.Operator.Ready, Confirm: o.Operator.Confirm, MaxJobSize: o.Operator.MaxJobSize, Follows: o.Operator.Follows, Elsewhere: o.Elsewhere,
		Observe: func(route, method string, status int, took time.Duration) {
			a.metrics.served(route, method, status, took)
		},
	})
	if err != nil {
		return nil, err
	}
	a.metrics = newMetrics(a)
	a.Handle(a.routes())
	ctx, cancel := context.WithCancel(a.Ended())
	done := make(chan struct{})
	go func() {
		a.watch.Run(ctx)
		close(done)
	}()
	a.unwatch = func() { cancel(); <-done }
	return a, nil
}

// PrepareMetrics looks at another number of tubes for /metrics, and at patterns of those that
// come first, which it shows once apply was called. The error is about the patterns; nothing
// has changed then.
func (a *API) PrepareMetrics(tubes int, match []string) (apply func(), err error) {
	matches, err := anyGlob(match)
	if err != nil {
		return nil, err
	}
	return func() { a.shown.Set(tubes, matches) }, nil
}

// SetHistory changes how many tubes have a history; 0: there is none any more.
func (a *API) SetHistory(tubes int) { a.watch.SetHistory(tubes) }

// Stop has operations refused from now on, and waits for those under way, which are broken
// off when ctx ends. Probes are answered on, and say that the server stops.
func (a *API) Stop(ctx context.Context) {
	a.op.Life().Stop()
	a.unwatch()
	a.server.Stop(ctx)
}

// Close ends all connections at once.
func (a *API) Close() {
	a.unwatch()
	a.server.Close()
}
