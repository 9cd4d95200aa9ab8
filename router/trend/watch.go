package trend

import (
	"context"
	"sync"
	"time"

	"polystalk/router/admin"
	"polystalk/shard/core"
)

// A Source is what is looked at: an admin.Operator.
type Source interface {
	SampleWithin(ctx context.Context, age time.Duration) (*admin.Sample, error)
	TubesWithin(ctx context.Context, age time.Duration) (*admin.TubeSample, error)
	Flows(ctx context.Context, v *admin.TubeSample, rows []int, out []core.Flow) error
}

const (
	// every is the time between two looks, which are in the middle of seconds.
	every = time.Second
	// tubesEvery is how often subscribers are shown tubes, in seconds; tubesHistory how often
	// tubes are read for the history.
	tubesEvery   = 2
	tubesHistory = FineStep
	// newEnough is how old a snapshot may be for who has just subscribed.
	newEnough = 2 * time.Second
	// lookWithin bounds a look, which waits for other operations.
	lookWithin = 10 * time.Second
)

// A Snapshot is the newest that is known; it is never changed.
type Snapshot struct {
	number uint64 // counts them; 0: nothing is known yet
	Server *admin.Sample
	Tubes  *admin.TubeSample // nil: nobody has asked for them yet
}

// A Watch may be used by anyone at any time.
type Watch struct {
	source Source
	keep   *keeper
	most   int           // subscriptions
	wake   chan struct{} // has an entry if somebody wants a snapshot now

	mu     sync.Mutex
	newest Snapshot
	news   chan struct{} // closed when there is another snapshot
	all    int           // subscriptions
	tubes  int           // those of them that want tubes

	views views
}

// New makes a Watch for at most so many subscriptions, which keeps the history of a number of
// tubes; of none, it keeps no history.
func New(source Source, subscriptions, tubes int) *Watch {
	return &Watch{
		source: source, keep: newKeeper(source, tubes), most: subscriptions,
		wake: make(chan struct{}, 1), news: make(chan struct{}),
	}
}

// History is what was; in the order of ServerLayout and TubeLayout.
func (w *Watch) History() *History { return w.keep.history }

// SetHistory changes of how many tubes the history is kept; none: there is none.
func (w *Watch) SetHistory(tubes int) {
	w.keep.limit(tubes)
	w.poke()
}

// Steady is how old tubes are at most that are looked at in any case, for the history; zero
// if there is none. Who is content with them costs nothing.
func (w *Watch) Steady() time.Duration {
	if w.keep.history.Most() == 0 {
		return 0
	}
	return tubesHistory*time.Second + every // a look may be somewhat late
}

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time // when tubes were looked at
	for {
		w.look(ctx, &last)
		var next <-chan time.Time
		if w.wanted() {
			timer.Reset(untilNext(time.Now()))
			next = timer.C
		}
		select {
		case <-next:
		case <-w.wake:
		case <-ctx.Done():
			return
		}
	}
}

// untilNext is how long it is until the middle of a second; if that is near, of the next one.
func untilNext(now time.Time) time.Duration {
	d := now.Truncate(every).Add(every / 2).Sub(now)
	if d < every/4 {
		d += every
	}
	return d
}

// poke has Run look now, and again as long as it is wanted.
func (w *Watch) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// wanted reports whether there is anyone to look for.
func (w *Watch) wanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all > 0 || w.keep.history.Most() > 0
}

// look looks once, if that is wanted. What it cannot see, since the server has no time or is
// about to end, is not there in the history, and no news.
func (w *Watch) look(ctx context.Context, last *time.Time) {
	if !w.wanted() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	server, err := w.source.SampleWithin(ctx, every/2)
	if err != nil {
		return
	}
	w.mu.Lock()
	next := w.newest
	subscribed := w.tubes > 0
	w.mu.Unlock()
	next.Server = server
	var tubes *admin.TubeSample // if they are new
	if now := time.Now(); w.dueTubes(now, *last, subscribed) {
		if tubes, err = w.source.TubesWithin(ctx, every); err == nil {
			*last = now
			next.Tubes = tubes
		}
	}
	w.publish(next)
	w.keep.read(ctx, server, tubes)
}

// dueTubes reports whether it is time to look at tubes again: another period has begun, by
// the clock, in which nobody has, or somebody waits for them who has none.
func (w *Watch) dueTubes(now, last time.Time, subscribed bool) bool {
	period := int64(tubesEvery)
	if !subscribed {
		if w.keep.history.Most() == 0 {
			return false
		}
		period = tubesHistory
	}
	since := now.Sub(last)
	begun := (now.Unix()-period/2)/period != (last.Unix()-period/2)/period
	return begun && since >= every/2 || subscribed && since >= newEnough
}

// publish makes a snapshot the newest.
func (w *Watch) publish(next Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if next == w.newest {
		return
	}
	next.number++
	w.newest = next
	close(w.news)
	w.news = make(chan struct{})
}
