package http

import (
	"bytes"
	"context"
	"net/http"
	"time"

	wire "polystalk/codec/admin"
)

// HeavyWait is how long a heavy request waits for those before it.
const HeavyWait = 2 * time.Second

// places are for requests of which few may be served at a time. Requests that take time have one
// place, since there is about one processor more than event loops: with two of them, loops would
// wait for a processor. Scrapes have a place of their own, since a monitor that gets no answer
// raises an alarm: requests that take longer must not keep it from scraping.
type places chan struct{}

func newPlaces(n int) places { return make(chan struct{}, n) }

// enter waits for a place, for HeavyWait at most.
func (p places) enter(ctx context.Context) error {
	timer := time.NewTimer(HeavyWait)
	defer timer.Stop()
	select {
	case p <- struct{}{}:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return wire.Busy.Problem("")
}

func (p places) leave() { <-p }

// take enters, and returns what leaves.
func (p places) take(ctx context.Context) (leave func(), err error) {
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	return p.leave, nil
}

// A held answer is kept until it is complete, so that a client that reads it slowly keeps
// no place meanwhile.
type held struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *held) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *held) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// send sends it, if there is one.
func (w *held) send() {
	if w.status == 0 {
		return
	}
	w.ResponseWriter.WriteHeader(w.status)
	w.ResponseWriter.Write(w.body.Bytes())
}

// Heavy takes the place of a request that takes time; leave gives it back. The error is a
// *admin.Problem. A Large route has the place all the time; others take it for as long as they need
// it, and not while they send what a client reads.
func (s *server) Heavy(ctx context.Context) (leave func(), err error) { return s.heavy.take(ctx) }

// Scrape takes the place of a scrape in the same way.
func (s *server) Scrape(ctx context.Context) (leave func(), err error) { return s.scrapes.take(ctx) }
