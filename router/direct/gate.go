package direct

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"polystalk/shard/commit"
)

// ErrFull means that the disk has no room for a change. Nothing was changed.
var ErrFull = errors.New("the disk is full")

// errFailed means that the journal has failed, and acknowledges nothing any more.
var errFailed = errors.New("the journal has failed")

// A Gate makes goroutines wait for the journal: until their change is durable, or until there is
// room for one. The zero value is ready for use.
//
// The journal's owner calls Wake after each change of Acked or Pressure. While nothing waits,
// that costs one load.
type Gate struct {
	failed  atomic.Bool
	waiting atomic.Int64 // len(bells), to be read without mu
	mu      sync.Mutex
	bells   map[chan struct{}]struct{}
}

// Wake makes all waiting goroutines check again. Any goroutine may call it; it never blocks.
func (g *Gate) Wake() {
	if g.waiting.Load() == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for bell := range g.bells {
		select {
		case bell <- struct{}{}:
		default: // the last signal was not received yet
		}
	}
}

// Fail ends all current and later waits with an error, unless their condition is already true.
func (g *Gate) Fail() {
	g.failed.Store(true)
	g.Wake()
}

// await waits until ready returns true. It calls ready at once and after each Wake. Its error is
// errFailed or the error of ctx.
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
	for !ready() { // the bell is in the list already, so no Wake is missed
		if g.failed.Load() {
			return errFailed
		}
		select {
		case <-bell:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Committed waits until the journal acknowledges commit n: see core.Reply.Commit. It returns at
// once if j is nil or n is zero. After an error, the change was made, but may be lost.
func (g *Gate) Committed(ctx context.Context, j commit.Storage, n uint64) error {
	if j == nil || n == 0 || j.Acked() >= n {
		return nil
	}
	return g.await(ctx, func() bool {
		j.CommitHere()
		return j.Acked() >= n
	})
}

// Room waits until the journal has room for changes with small records. It returns ErrFull,
// errFailed, or the error of ctx.
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

// Claim waits until the journal reserves n bytes for a large body; c holds the reservation until
// Storage.Release. On ErrFull, errFailed, or the error of ctx, c holds nothing.
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
