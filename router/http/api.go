package http

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/router/trend"
)

// Options configures an API.
type Options struct {
	Operator *admin.Operator
	Log      *slog.Logger
	Level    *slog.LevelVar // of the log
	Version  string         // of the program
	Speaks   string         // versions of the protocols, as text

	Tokens *access.Tokens // nil: the server has no tokens
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

	// Settings returns the settings in effect, without secrets.
	Settings func() []wire.Setting
	// Reload reads the configuration again, and applies all of it or nothing.
	Reload func() (*wire.Reloaded, error)
}

// An API is the HTTP server with all its routes.
type API struct {
	*server
	operations *admin.Operations
	watch      *trend.Watch
	unwatch    func()        // ends the watch, and waits for its end
	shown      *trend.Choice // the tubes that /metrics shows
	rendering  sync.Mutex    // held while events are rendered: event loops need the processors
	boot       string        // random: marks tags and cursors of this process
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
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	a := &API{
		server: s, operations: admin.NewOperations(o.Operator), watch: trend.New(o.Operator, streamsMax, o.HistoryTubes),
		shown: trend.NewChoice(o.MetricsTubes, match), boot: rand.Text(),
	}
	a.metrics = newMetrics(a)
	a.handle(a.routes())
	ctx, cancel := context.WithCancel(a.ended)
	done := make(chan struct{})
	go func() {
		a.watch.Run(ctx)
		close(done)
	}()
	a.unwatch = func() { cancel(); <-done }
	return a, nil
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
