package trend

import (
	"context"
	"sync"
	"time"

	"polystalk/router/admin"
	"polystalk/shard/core"
)

// A Source provides the samples: an admin.Operator.
type Source interface {
	Sample(ctx context.Context, age time.Duration) (*admin.Sample, error)
	Tubes(ctx context.Context, age time.Duration) (*admin.TubeSample, error)
	Flows(ctx context.Context, v *admin.TubeSample, rows []int, out []core.Flow) error
}

const (
	// every is the time between two samples. They are taken in the middle of seconds, so that a
	// late sample still belongs to the same slot of the history.
	every = time.Second
	// tubesEvery and tubesHistory are the seconds between two samples of tubes, with and without
	// subscribers that want tubes.
	tubesEvery   = 2
	tubesHistory = FineStep
	// newEnough is the age at which tubes are sampled again at once for a subscriber.
	newEnough = 2 * time.Second
	// sampleWithin is the timeout for a sample, which waits for other operations.
	sampleWithin = 10 * time.Second
)

// A Snapshot is the newest known state. It is immutable.
type Snapshot struct {
	number uint64 // increases with each snapshot; 0: nothing is known yet
	Server *admin.Sample
	Tubes  *admin.TubeSample // nil: not sampled yet, since no subscriber wants tubes
}

// A Watch samples a source for its history and its subscribers. All methods may be called
// concurrently.
type Watch struct {
	source  Source
	history *history
	choice  *Choice       // of the tubes with a history
	most    int           // subscriptions
	wake    chan struct{} // has an element if Run must sample now

	// The time of the last choice, and the limit of the history at that time. They belong to Run.
	chosen     time.Time
	chosenMost int

	mu     sync.Mutex
	newest Snapshot
	news   chan struct{} // closed when there is a newer snapshot
	all    int           // subscriptions
	tubes  int           // subscriptions that want tubes

	views views
}

// New makes a Watch. subscriptions is the largest number of subscriptions, and tubes the largest
// number of tubes with a history; 0: it keeps no history.
func New(source Source, subscriptions, tubes int) *Watch {
	return &Watch{
		source: source, history: newHistory(ServerLayout, TubeLayout, tubes), choice: NewChoice(tubes, nil), most: subscriptions,
		wake: make(chan struct{}, 1), news: make(chan struct{}),
	}
}

// History returns the history, in the order of ServerLayout and TubeLayout.
func (w *Watch) History() *history { return w.history }

// SetHistory changes the number of tubes with a history; 0: no history is kept.
func (w *Watch) SetHistory(tubes int) {
	w.choice.Set(tubes, nil)
	w.history.limit(tubes) // last: Run then chooses again
	w.poke()
}

// Steady returns the largest age of the tubes that are sampled for the history; 0 without a
// history. A caller that accepts this age needs no other sample.
func (w *Watch) Steady() time.Duration {
	if w.history.Most() == 0 {
		return 0
	}
	return tubesHistory*time.Second + every // a sample may be late
}

// Run samples until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time // sample of tubes
	for {
		var next <-chan time.Time
		if w.wanted() {
			w.sample(ctx, &last)
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

// untilNext returns the time to the middle of a second, at least a quarter of a second.
func untilNext(now time.Time) time.Duration {
	d := now.Truncate(every).Add(every / 2).Sub(now)
	if d < every/4 {
		d += every
	}
	return d
}

// poke makes Run sample now.
func (w *Watch) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// wanted reports whether there is a subscriber or a history.
func (w *Watch) wanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all > 0 || w.history.Most() > 0
}

// sample samples once. A failure, such as a busy or stopping server, leaves a gap.
func (w *Watch) sample(ctx context.Context, last *time.Time) {
	ctx, cancel := context.WithTimeout(ctx, sampleWithin)
	defer cancel()
	server, err := w.source.Sample(ctx, every/2)
	if err != nil {
		return
	}
	w.mu.Lock()
	next, subscribed := w.newest, w.tubes > 0
	w.mu.Unlock()
	next.Server = server
	var tubes *admin.TubeSample // nil: there are no newer ones
	if now := time.Now(); w.dueTubes(now, *last, subscribed) {
		if tubes, err = w.source.Tubes(ctx, every); err == nil {
			*last, next.Tubes = now, tubes
		}
	}
	w.publish(next)
	w.record(ctx, server, tubes)
}

// dueTubes reports whether to sample tubes: a new period of the clock has begun, or a subscriber
// waits for tubes and the last sample is old.
func (w *Watch) dueTubes(now, last time.Time, subscribed bool) bool {
	period := int64(tubesEvery)
	if !subscribed {
		if w.history.Most() == 0 {
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

// A subscription waits for snapshots. It belongs to one goroutine.
type subscription struct {
	w     *Watch
	tubes bool
	last  uint64 // number of the last snapshot; 0: there was none
}

// Subscribe begins a subscription, which the caller must close; tubes says whether it wants
// tubes. Subscribe returns nil if there are too many subscriptions.
func (w *Watch) Subscribe(tubes bool) *subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all >= w.most {
		return nil
	}
	s := &subscription{w: w, tubes: tubes}
	s.count(1)
	w.poke()
	return s
}

// count adds to the numbers of subscriptions. The caller must hold w.mu.
func (s *subscription) count(n int) {
	s.w.all += n
	if s.tubes {
		s.w.tubes += n
	}
}

// Close ends the subscription.
func (s *subscription) Close() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.count(-1)
}

// Subscriptions returns the number of open subscriptions.
func (w *Watch) Subscriptions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

// Next waits for a snapshot that is newer than the last one, and returns the newest. The
// error is ctx's.
func (s *subscription) Next(ctx context.Context) (Snapshot, error) {
	for {
		s.w.mu.Lock()
		v, news := s.w.newest, s.w.news
		s.w.mu.Unlock()
		if v.number != s.last && (s.last > 0 || s.fits(&v)) {
			s.last = v.number
			return v, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return Snapshot{}, ctx.Err()
		}
	}
}

// Newest returns the newest snapshot, which may be the last one.
func (s *subscription) Newest() Snapshot {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.last = s.w.newest.number
	return s.w.newest
}

// fits reports whether v can be the first snapshot: it is fresh, and has tubes if s wants them.
func (s *subscription) fits(v *Snapshot) bool {
	fresh := func(at time.Time) bool { return time.Since(at) < 2*newEnough }
	return v.number > 0 && fresh(v.Server.At) && (!s.tubes || v.Tubes != nil && fresh(v.Tubes.At))
}
