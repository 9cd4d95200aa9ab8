package trend

import (
	"context"
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
	// Every is the time between two samples of the server.
	Every = time.Second
	// sampleWithin is the timeout for a sample, which waits for other operations.
	sampleWithin = 10 * time.Second
)

// UntilNext returns the time until the next sample, at least a quarter of a second. Samples are
// taken in the middle of seconds, so that a late sample still belongs to the same slot of the
// history, and so that all callers share a sample.
func UntilNext(now time.Time) time.Duration {
	d := now.Truncate(Every).Add(Every / 2).Sub(now)
	if d < Every/4 {
		d += Every
	}
	return d
}

// A Watch samples a source for its history, and finds what changes in lists of tubes. All methods
// may be called concurrently.
type Watch struct {
	source  Source
	history *history
	choice  *Choice       // of the tubes with a history
	wake    chan struct{} // has an element if Run must sample now
	views   views

	// The time of the last choice, and the limit of the history at that time. They belong to Run.
	chosen     time.Time
	chosenMost int
}

// New makes a Watch. tubes is the largest number of tubes with a history; 0: it keeps no history.
func New(source Source, tubes int) *Watch {
	return &Watch{source: source, history: newHistory(ServerLayout, TubeLayout, tubes), choice: NewChoice(tubes, nil), wake: make(chan struct{}, 1)}
}

// History returns the history, in the order of ServerLayout and TubeLayout.
func (w *Watch) History() *history { return w.history }

// SetHistory changes the number of tubes with a history; 0: no history is kept.
func (w *Watch) SetHistory(tubes int) {
	w.choice.Set(tubes, nil)
	w.history.limit(tubes) // last: Run then chooses again
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Steady returns the largest age of the tubes that are sampled for the history; 0 without a
// history. A caller that accepts this age needs no other sample.
func (w *Watch) Steady() time.Duration {
	if w.history.Most() == 0 {
		return 0
	}
	return FineStep*time.Second + Every // a sample may be late
}

// Run samples for the history until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	var last time.Time // sample of tubes
	for {
		var next <-chan time.Time // nil: there is no history
		if w.history.Most() > 0 {
			w.sample(ctx, &last)
			next = time.After(UntilNext(time.Now()))
		}
		select {
		case <-next:
		case <-w.wake:
		case <-ctx.Done():
			return
		}
	}
}

// sample samples the server, and the tubes once in each slot of the history. A failure, such as a
// busy or stopping server, leaves a gap.
func (w *Watch) sample(ctx context.Context, last *time.Time) {
	ctx, cancel := context.WithTimeout(ctx, sampleWithin)
	defer cancel()
	server, err := w.source.Sample(ctx, Every/2)
	if err != nil {
		return
	}
	var tubes *admin.TubeSample // nil: there are no newer ones
	slot := func(t time.Time) int64 { return (t.Unix() - FineStep/2) / FineStep }
	if now := time.Now(); slot(now) != slot(*last) {
		if tubes, err = w.source.Tubes(ctx, Every); err == nil {
			*last = now
		}
	}
	w.history.add(nil, serverReading(server, tubes))
	if tubes != nil {
		w.recordTubes(ctx, tubes)
	}
}
