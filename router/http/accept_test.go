package http

import (
	"testing"
	"time"
)

// TestConnectionsComeAtAPace: some at once, the others one after the other; who has waited may
// come at once again.
func TestConnectionsComeAtAPace(t *testing.T) {
	p := pace{every: acceptEvery}
	now := time.Unix(1e9, 0)
	for i := range atOnce {
		if d := p.next(now); d != 0 {
			t.Fatalf("number %d waits %v", i, d)
		}
	}
	for i := range 1000 {
		d := p.next(now)
		if d != acceptEvery {
			t.Fatalf("number %d waits %v", atOnce+i, d)
		}
		now = now.Add(d)
	}
	now = now.Add(acceptEvery * atOnce)
	for i := range atOnce {
		if d := p.next(now); d != 0 {
			t.Fatalf("later number %d waits %v", i, d)
		}
	}
}
