package trend

import (
	"context"
	"time"
)

// A Subscription is that of one who is told of what is new. It belongs to one goroutine.
type Subscription struct {
	w     *Watch
	tubes bool
	last  uint64 // the number of the newest snapshot that was given; 0: none was
}

// Subscribe begins one, with tubes or without. It is to be closed. nil: there are as many
// as may be.
func (w *Watch) Subscribe(tubes bool) *Subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all >= w.most {
		return nil
	}
	w.all++
	if tubes {
		w.tubes++
	}
	w.poke()
	return &Subscription{w: w, tubes: tubes}
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.all--
	if s.tubes {
		s.w.tubes--
	}
}

// Subscriptions are how many there are.
func (w *Watch) Subscriptions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

// Next waits for a snapshot that is newer than the last one, and gives the newest: for who
// has not looked for a while, others were between. The error is ctx's, which has ended.
func (s *Subscription) Next(ctx context.Context) (Snapshot, error) {
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

// Newest gives the newest snapshot again, or one that is newer by now.
func (s *Subscription) Newest() Snapshot {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.last = s.w.newest.number
	return s.w.newest
}

// fits reports whether a snapshot can be the first: it has what was subscribed to, and is not
// of a time before, after which nobody has looked for a while.
func (s *Subscription) fits(v *Snapshot) bool {
	fresh := func(at time.Time) bool { return time.Since(at) < 2*newEnough }
	return v.number > 0 && fresh(v.Server.At) && (!s.tubes || v.Tubes != nil && fresh(v.Tubes.At))
}
