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

// slots bounds the number of requests that run at the same time. Slow requests share one slot:
// the event loops leave about one processor free, and a second request would delay a loop.
// Scrapes have another slot, because a monitor that gets no answer raises an alarm.
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

// A held answer stays in memory until it is complete, so that a slow client occupies no slot.
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

// alone runs a route, which must be a GET, in a slot. It frees the slot before it sends the
// answer.
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
