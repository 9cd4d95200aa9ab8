package http

import (
	"bytes"
	"context"
	"net/http"
	"time"

	wire "polystalk/codec/admin"
)

// heavyWait is how long a request waits for a slot.
const heavyWait = 2 * time.Second

// slots bounds the requests that run at a time. Requests that take time have one slot: there
// is about one processor more than event loops, so with two, loops would wait for a processor.
// Scrapes have a slot of their own: a monitor without an answer raises an alarm.
type slots chan struct{}

// take waits for a slot, at most heavyWait; leave frees it.
func (p slots) take(ctx context.Context) (leave func(), err error) {
	timer := time.NewTimer(heavyWait)
	defer timer.Stop()
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, wire.Busy.Problem("")
}

// A held answer is kept in memory until it is complete, so that a slow client holds no slot.
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

// send sends the answer, if there is one.
func (w *held) send() {
	if w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
		w.ResponseWriter.Write(w.body.Bytes())
	}
	if w.status == http.StatusNoContent { // see call.done
		http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// alone runs a route, which is a GET, in a slot. It sends the answer without the slot.
func alone(rt *route, c *call, p slots) error {
	w := &held{ResponseWriter: c.W}
	c.W = w
	leave, err := p.take(c.Ctx)
	if err != nil {
		return err
	}
	err = func() error {
		defer leave()
		return rt.run(c)
	}()
	w.send()
	return err
}
