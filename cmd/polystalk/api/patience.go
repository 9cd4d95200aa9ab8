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

// A patience ends a request when nothing has come or gone for a while. A time for all of it
// would be too short for large bodies, or too long for a server that hangs.
type patience struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	wait   time.Duration
}

func newPatience(ctx context.Context, d time.Duration) *patience {
	p := &patience{wait: d}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	p.timer = time.AfterFunc(d, func() { p.cancel(errSlow) })
	return p
}

func (p *patience) end() {
	p.timer.Stop()
	p.cancel(nil)
}

// cause is why a request has failed.
func (p *patience) cause(err error) error {
	if cause := context.Cause(p.ctx); cause != nil && p.ctx.Err() != nil {
		return cause
	}
	return err
}

// reader is r, which begins the waiting anew with each part that is read.
func (p *patience) reader(r io.Reader) io.Reader { return &patientReader{p, r} }

type patientReader struct {
	p *patience
	r io.Reader
}

func (r *patientReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if n > 0 {
		r.p.timer.Reset(r.p.wait)
	}
	if err != nil && err != io.EOF {
		err = r.p.cause(err)
	}
	return n, err
}

// newKey is a name for one request, by which the server knows it when it comes again.
func newKey() string { return rand.Text() }
