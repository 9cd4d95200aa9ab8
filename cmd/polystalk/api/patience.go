package api

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"time"
)

// errSlow is why a request ends to which the server says nothing.
var errSlow = errors.New("it does not answer in time")

// progress is how much of a body must come or go until the server has the whole time again. In
// bytes.
const progress = 64 << 10

// A Patience ends a request when its time is over. Only the progress of bodies gives it more
// time: a server that sends a byte now and then does not.
type Patience struct {
	Ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	wait   time.Duration
}

// NewPatience begins the time of a request.
func NewPatience(ctx context.Context, d time.Duration) *Patience {
	p := &Patience{wait: d}
	p.Ctx, p.cancel = context.WithCancelCause(ctx)
	p.timer = time.AfterFunc(d, func() { p.cancel(errSlow) })
	return p
}

// End gives the timer up.
func (p *Patience) End() {
	p.timer.Stop()
	p.cancel(nil)
}

// Cause returns why a request has failed.
func (p *Patience) Cause(err error) error {
	if cause := context.Cause(p.Ctx); cause != nil && p.Ctx.Err() != nil {
		return cause
	}
	return err
}

// Reader returns a reader of r. If bulk is set, r holds bodies, and their progress gives the
// request more time.
func (p *Patience) Reader(r io.Reader, bulk bool) io.Reader {
	return &patientReader{p: p, r: r, bulk: bulk}
}

type patientReader struct {
	p    *Patience
	r    io.Reader
	bulk bool
	n    int // bytes since the last restart of the time
}

func (r *patientReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if r.n += n; r.bulk && r.n >= progress {
		r.n = 0
		r.p.timer.Reset(r.p.wait)
	}
	if err != nil && err != io.EOF {
		err = r.p.Cause(err)
	}
	return n, err
}

// newKey is a name for one request, by which the server knows it when it comes again.
func newKey() string { return rand.Text() }
