package client

import (
	"context"
	"errors"
	"io"
	"time"
)

// errSlow is the cause of a request that ended by timeout.
var errSlow = errors.New("it does not answer in time")

// progress is the number of bytes of a body that restart the timeout.
const progress = 64 << 10

// A Patience cancels a request after a timeout. Only the progress of bodies restarts it, so a
// server cannot extend it with a few bytes from time to time.
type Patience struct {
	Ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	wait   time.Duration
}

// NewPatience starts the timeout of a request. The caller must call End.
func NewPatience(ctx context.Context, d time.Duration) *Patience {
	p := &Patience{wait: d}
	p.Ctx, p.cancel = context.WithCancelCause(ctx)
	p.timer = time.AfterFunc(d, func() { p.cancel(errSlow) })
	return p
}

// End stops the timer.
func (p *Patience) End() {
	p.timer.Stop()
	p.cancel(nil)
}

// Cause returns why a request has failed: its timeout, the end of its context, or err.
func (p *Patience) Cause(err error) error {
	if cause := context.Cause(p.Ctx); cause != nil && p.Ctx.Err() != nil {
		return cause
	}
	return err
}

// Reader returns a reader of r. With bulk, r holds bodies, and their progress restarts the timeout.
func (p *Patience) Reader(r io.Reader, bulk bool) io.Reader {
	return &patientReader{p: p, r: r, bulk: bulk}
}

type patientReader struct {
	p    *Patience
	r    io.Reader
	bulk bool
	n    int // bytes since the timeout was restarted
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
