package direct

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"polystalk/shard/commit"
)

// A slowStorage is controlled by the test. It has only the methods that a Gate needs.
type slowStorage struct {
	commit.Storage
	acked, notified atomic.Uint64
	pressure        atomic.Int32
	claims          atomic.Int32 // the result of Claim
	asked, released atomic.Int32
}

func (s *slowStorage) Acked() uint64             { return s.acked.Load() }
func (s *slowStorage) CommitHere()               {}
func (s *slowStorage) Notified() uint64          { return s.notified.Load() }
func (s *slowStorage) Pressure() commit.Pressure { return commit.Pressure(s.pressure.Load()) }
func (s *slowStorage) Release(*commit.Claim)     { s.released.Add(1) }
func (s *slowStorage) Claim(*commit.Claim, int64) commit.Pressure {
	s.asked.Add(1)
	return commit.Pressure(s.claims.Load())
}

// A call waits at a Gate.
type call func(ctx context.Context, g *Gate, s *slowStorage) error

func committed(n uint64) call {
	return func(ctx context.Context, g *Gate, s *slowStorage) error { return g.Committed(ctx, s, n) }
}

func room(ctx context.Context, g *Gate, s *slowStorage) error { return g.Room(ctx, s) }

func claim(ctx context.Context, g *Gate, s *slowStorage) error {
	return g.Claim(ctx, s, new(commit.Claim), 9)
}

// TestGateWaits: each call waits until the storage has changed as it needs, or its context has
// ended, or the Gate has failed. It checks after each Wake, and a claim only if the storage has
// notified it.
func TestGateWaits(t *testing.T) {
	to := func(p commit.Pressure) func(s *slowStorage) {
		return func(s *slowStorage) { s.pressure.Store(int32(p)) }
	}
	claims := func(p commit.Pressure) func(s *slowStorage) { return func(s *slowStorage) { s.claims.Store(int32(p)) } }
	acked := func(n uint64) func(s *slowStorage) { return func(s *slowStorage) { s.acked.Store(n) } }
	notify := func(s *slowStorage) { s.notified.Add(1) }
	same := func(*slowStorage) {}
	type steps []func(s *slowStorage)
	for name, tt := range map[string]struct {
		call   call
		steps  steps // the call ends after the last one
		fails  bool  // in the last step the Gate fails
		cancel bool  // in the last step the context ends
		want   error
	}{
		"no commit":          {committed(0), steps{acked(4)}, false, false, nil},
		"an old commit":      {committed(4), steps{acked(4)}, false, false, nil},
		"an old one, failed": {committed(4), steps{acked(4)}, true, false, nil},
		"a commit":           {committed(6), steps{acked(4), acked(5), acked(7)}, false, false, nil},
		"a cancelled commit": {committed(6), steps{acked(4), same}, false, true, context.Canceled},
		"a failed commit":    {committed(6), steps{acked(4), same}, true, false, errFailed},
		"room":               {room, steps{to(commit.Open)}, false, false, nil},
		"no room":            {room, steps{to(commit.Full)}, false, false, ErrFull},
		"room later":         {room, steps{to(commit.Wait), same, to(commit.Open)}, false, false, nil},
		"no room later":      {room, steps{to(commit.Wait), same, to(commit.Full)}, false, false, ErrFull},
		"no room after fail": {room, steps{to(commit.Wait), same}, true, false, errFailed},
		"a claim":            {claim, steps{claims(commit.Wait), claims(commit.Open), notify}, false, false, nil},
		"no claim":           {claim, steps{claims(commit.Wait), claims(commit.Full), notify}, false, false, ErrFull},
		"a cancelled claim":  {claim, steps{claims(commit.Wait), same}, false, true, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g Gate
				s := new(slowStorage)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan error, 1)
				for i, step := range tt.steps {
					asked := s.asked.Load()
					step(s)
					last := i == len(tt.steps)-1
					if last && tt.fails {
						g.Fail()
					}
					if last && tt.cancel {
						cancel()
					}
					if i == 0 {
						go func() { done <- tt.call(ctx, &g, s) }()
					}
					g.Wake()
					synctest.Wait()
					if !last && len(done) > 0 {
						t.Fatalf("step %d: it did not wait: %v", i, <-done)
					}
					if n := s.asked.Load() - asked; i > 0 && !last && n != 0 {
						t.Errorf("step %d: it has asked %d times", i, n)
					}
				}
				if err := <-done; !errors.Is(err, tt.want) {
					t.Errorf("%v, want %v", err, tt.want)
				}
				if name == "a cancelled claim" && s.released.Load() != 1 {
					t.Errorf("released %d times", s.released.Load())
				}
				if g.waiting.Load() != 0 || len(g.bells) != 0 {
					t.Errorf("%d wait, %d bells", g.waiting.Load(), len(g.bells))
				}
			})
		})
	}
	var g Gate
	if g.Committed(t.Context(), nil, 9) != nil || g.Room(t.Context(), nil) != nil || g.Claim(t.Context(), nil, nil, 9) != nil {
		t.Error("it waits without a journal")
	}
}

// TestNoWakeIsMissed: a waiting call ends, at whatever moment its commit is acknowledged.
func TestNoWakeIsMissed(t *testing.T) {
	var g Gate
	s := new(slowStorage)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for n := uint64(1); n <= 3000; n++ {
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				if err := g.Committed(ctx, s, n); err != nil {
					t.Errorf("commit %d: %v", n, err)
				}
			})
		}
		s.acked.Store(n)
		g.Wake()
		wait.Wait()
	}
}
