package snapshot

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestPace sends by a clock that only rests move, and that is held up once.
func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	begun := now
	p := &pace{rate: 1 << 20, now: func() time.Time { return now }}
	p.rest = func(_ context.Context, d time.Duration) error {
		if d < restMin {
			t.Errorf("it rests for %v", d)
		}
		now = now.Add(d)
		return nil
	}
	send := func(bytes, piece int) {
		for ; bytes > 0; bytes -= piece {
			if err := p.took(context.Background(), piece); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(10<<20, 1000)
	if took := now.Sub(begun); took < 9990*time.Millisecond || took > 10010*time.Millisecond {
		t.Errorf("ten times what goes in a second took %v", took)
	}
	now = now.Add(time.Hour)
	held := now
	send(2<<20, 4096)
	if took := now.Sub(held); took < 1900*time.Millisecond {
		t.Errorf("twice what goes in a second took %v, after it was held up", took)
	}
}

func TestPaceEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	for _, rate := range []int64{0, 1} {
		p := newPace(rate)
		p.rest = func(ctx context.Context, d time.Duration) error {
			cancel()
			return rest(ctx, d)
		}
		if rate == 0 {
			cancel()
		}
		if err := p.took(ctx, 1000); !errors.Is(err, context.Canceled) {
			t.Errorf("rate %d: %v", rate, err)
		}
		ctx, cancel = context.WithCancel(context.Background())
	}
	cancel()
}
