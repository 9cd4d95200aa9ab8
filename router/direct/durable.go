package direct

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"polystalk/shard/commit"
)

// ErrFull says that the disk has no room for a change. Nothing was changed.
var ErrFull = errors.New("the disk is full")

// ErrFailed says that the journal has failed: nothing is acknowledged any more.
var ErrFailed = errors.New("the journal has failed")

// A Gate is where goroutines wait for the journal: until what they did is durable, or until
// there is room for what they are about to do. The zero value is ready.
//
// Who looks after the journal calls Wake whenever Acked or Pressure has changed. With
// nobody waiting that is one load.
type Gate struct {
	failed  atomic.Bool
	waiting atomic.Int64 // len(bells), to be read without mu
	mu      sync.Mutex
	bells   map[chan struct{}]struct{}
}

// Wake has those who wait look again. It never blocks; from any goroutine.
func (g *Gate) Wake() {
	if g.waiting.Load() == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for bell := range g.bells {
		select {
		case bell <- struct{}{}:
		default: // it has not heard the last one yet
		}
	}
}

// Fail ends every wait, now and later, that is not over by itself.
func (g *Gate) Fail() {
	g.failed.Store(true)
	g.Wake()
}

// await waits until ready returns true. It asks first, and after each Wake. The error is ErrFailed, or
// that of ctx.
func (g *Gate) await(ctx context.Context, ready func() bool) error {
	bell := make(chan struct{}, 1)
	g.mu.Lock()
	if g.bells == nil {
		g.bells = make(map[chan struct{}]struct{})
	}
	g.bells[bell] = struct{}{}
	g.waiting.Add(1)
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.bells, bell)
		g.waiting.Add(-1)
		g.mu.Unlock()
	}()
	for !ready() { // after the bell was hung up, so no Wake is missed
		if g.failed.Load() {
			return ErrFailed
		}
		select {
		case <-bell:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Committed waits until commit n is as safe as the journal makes it: see core.Reply.Commit.
// No journal, or no number, is nothing to wait for. After an error the change is made, and may
// or may not be kept.
func (g *Gate) Committed(ctx context.Context, j commit.Storage, n uint64) error {
	if j == nil || n == 0 || j.Acked() >= n {
		return nil
	}
	return g.await(ctx, func() bool {
		j.CommitHere()
		return j.Acked() >= n
	})
}

// Room waits until the journal takes a change that comes in one piece. The error is ErrFull,
// ErrFailed, or that of ctx.
func (g *Gate) Room(ctx context.Context, j commit.Storage) error {
	if j == nil {
		return nil
	}
	p := j.Pressure()
	if p == commit.Wait {
		err := g.await(ctx, func() bool {
			p = j.Pressure()
			return p != commit.Wait
		})
		if err != nil {
			return err
		}
	}
	if p == commit.Full {
		return ErrFull
	}
	return nil
}

// Claim waits until n bytes of records are promised, for a large body, which c has then
// until Storage.Release. The error is ErrFull, ErrFailed, or that of ctx; c has nothing then.
func (g *Gate) Claim(ctx context.Context, j commit.Storage, c *commit.Claim, n int64) error {
	if j == nil {
		return nil
	}
	var p commit.Pressure
	asked, first := uint64(0), true
	err := g.await(ctx, func() bool {
		now := j.Notified()
		if !first && now == asked {
			return false // the answer cannot have changed
		}
		asked, first = now, false
		p = j.Claim(c, n)
		return p != commit.Wait
	})
	switch {
	case err != nil:
		j.Release(c)
		return err
	case p == commit.Full:
		return ErrFull
	}
	return nil
}
