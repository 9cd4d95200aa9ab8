package snapshot

import (
	"context"
	"time"
)

// A pace keeps what is sent to so many bytes a second.
type pace struct {
	rate int64 // bytes a second; zero: as many as go
	now  func() time.Time
	rest func(ctx context.Context, d time.Duration) error

	from time.Time // since when sent is counted
	sent int64
}

func newPace(rate int64) *pace { return &pace{rate: rate, now: time.Now, rest: rest} }

// restMin is the shortest rest: shorter ones are put off until they come to it.
const restMin = 5 * time.Millisecond

// took notes that n bytes were sent, and rests until that many may have been.
func (p *pace) took(ctx context.Context, n int) error {
	if p.rate <= 0 {
		return ctx.Err()
	}
	now := p.now()
	if p.from.IsZero() {
		p.from = now
	}
	p.sent += int64(n)
	due := p.from.Add(time.Duration(float64(p.sent) / float64(p.rate) * float64(time.Second)))
	switch early := due.Sub(now); {
	case early >= restMin:
		return p.rest(ctx, early)
	case early < -time.Second:
		// It was held up by something else; that is not made up for later.
		p.from, p.sent = now, 0
	}
	return ctx.Err()
}

// rest waits, or until ctx ends.
func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
