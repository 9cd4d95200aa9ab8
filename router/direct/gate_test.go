package direct

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/shard/commit"
)

// A slowStorage is a storage that does what a test says. It has only what a Gate asks for.
type slowStorage struct {
	commit.Storage
	acked, notified atomic.Uint64
	pressure        atomic.Int32
	claims          atomic.Int32 // what Claim answers
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

// ends wants a call to end, with that error.
func ends(t *testing.T, done <-chan error, want error) {
	t.Helper()
	select {
	case err := <-done:
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for ever")
	}
}

// waits wants a call not to end yet.
func waits(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
}

func run(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

func TestCommittedWaitsForItsCommit(t *testing.T) {
	var g Gate
	s := new(slowStorage)
	s.acked.Store(4)
	for n, j := range map[uint64]commit.Storage{0: s, 4: s, 9: nil} {
		if err := g.Committed(t.Context(), j, n); err != nil {
			t.Errorf("commit %d: %v", n, err)
		}
	}
	done := run(func() error { return g.Committed(t.Context(), s, 6) })
	waits(t, done)
	s.acked.Store(5)
	g.Wake()
	waits(t, done)
	s.acked.Store(7)
	g.Wake()
	ends(t, done, nil)

	ctx, cancel := context.WithCancel(t.Context())
	done = run(func() error { return g.Committed(ctx, s, 8) })
	waits(t, done)
	cancel()
	ends(t, done, context.Canceled)
	if g.waiting.Load() != 0 || len(g.bells) != 0 {
		t.Errorf("%d wait, %d bells", g.waiting.Load(), len(g.bells))
	}
}

func TestRoomIsWaitedFor(t *testing.T) {
	var g Gate
	s := new(slowStorage)
	if err := g.Room(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := g.Room(t.Context(), s); err != nil {
		t.Error(err)
	}
	s.pressure.Store(int32(commit.Full))
	if err := g.Room(t.Context(), s); !errors.Is(err, ErrFull) {
		t.Errorf("full: %v", err)
	}
	for then, want := range map[commit.Pressure]error{commit.Open: nil, commit.Full: ErrFull} {
		s.pressure.Store(int32(commit.Wait))
		done := run(func() error { return g.Room(t.Context(), s) })
		waits(t, done)
		g.Wake()
		waits(t, done)
		s.pressure.Store(int32(then))
		g.Wake()
		ends(t, done, want)
	}
}

func TestClaimAsksAgainOnlyWhenNotified(t *testing.T) {
	var g Gate
	s := new(slowStorage)
	var c commit.Claim
	for then, want := range map[commit.Pressure]error{commit.Open: nil, commit.Full: ErrFull} {
		s.claims.Store(int32(commit.Wait))
		before := s.asked.Load()
		done := run(func() error { return g.Claim(t.Context(), s, &c, 9) })
		waits(t, done)
		s.claims.Store(int32(then))
		g.Wake()
		waits(t, done)
		if n := s.asked.Load() - before; n != 1 {
			t.Errorf("it has asked %d times", n)
		}
		s.notified.Add(1)
		g.Wake()
		ends(t, done, want)
	}
	s.claims.Store(int32(commit.Wait))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := g.Claim(ctx, s, &c, 9); !errors.Is(err, context.DeadlineExceeded) || s.released.Load() != 1 {
		t.Errorf("%v, released %d times", err, s.released.Load())
	}
}

// TestNoWakeIsMissed: whatever the moment at which the commit is acknowledged.
func TestNoWakeIsMissed(t *testing.T) {
	var g Gate
	s := new(slowStorage)
	const rounds, waiters = 3000, 4
	var next [waiters]chan uint64
	var wait sync.WaitGroup
	var done sync.WaitGroup
	for i := range next {
		next[i] = make(chan uint64)
		wait.Go(func() {
			for n := range next[i] {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				if err := g.Committed(ctx, s, n); err != nil {
					t.Errorf("commit %d: %v", n, err)
				}
				cancel()
				done.Done()
			}
		})
	}
	for n := range uint64(rounds) {
		done.Add(waiters)
		for i := range next {
			next[i] <- n + 1
		}
		s.acked.Store(n + 1)
		g.Wake()
		done.Wait()
	}
	for i := range next {
		close(next[i])
	}
	wait.Wait()
}

// TestFailureEndsEveryWait, also those that begin later; what is acknowledged already stays so.
func TestFailureEndsEveryWait(t *testing.T) {
	var g Gate
	s := new(slowStorage)
	s.acked.Store(4)
	s.pressure.Store(int32(commit.Wait))
	before := run(func() error { return g.Committed(t.Context(), s, 5) })
	room := run(func() error { return g.Room(t.Context(), s) })
	waits(t, before)
	g.Fail()
	ends(t, before, ErrFailed)
	ends(t, room, ErrFailed)
	ends(t, run(func() error { return g.Committed(t.Context(), s, 6) }), ErrFailed)
	if err := g.Committed(t.Context(), s, 4); err != nil {
		t.Error(err)
	}
}
