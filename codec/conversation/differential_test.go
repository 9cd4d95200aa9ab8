package conversation

import (
	"errors"
	"testing"
)

// TestSessionsSettle keeps the generator honest: a server agrees with itself
// on every session, whatever the timing.
func TestSessionsSettle(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	program, unquoted := reference(t)
	report, _, err := Compare(program, program, nil, unquoted, 1, 40, 150)
	if err != nil {
		t.Fatal(err)
	}
	if report != "" {
		t.Error(report)
	}
}

// TestSessionsAreSeeded makes sure that a seed names one session.
func TestSessionsAreSeeded(t *testing.T) {
	for seed := range uint64(20) {
		a, b := NewSession(seed, 150), NewSession(seed, 150)
		if len(a.Events) != len(b.Events) {
			t.Fatalf("seed %d: %d and %d events", seed, len(a.Events), len(b.Events))
		}
		for i := range a.Events {
			if a.Events[i].Conn != b.Events[i].Conn || len(a.Events[i].Actions) != len(b.Events[i].Actions) {
				t.Fatalf("seed %d, event %d differs", seed, i)
			}
		}
	}
}

// TestShrinkFindsTheCulprit leaves the two events that matter.
func TestShrinkFindsTheCulprit(t *testing.T) {
	s := NewSession(7, 150)
	first, second := &s.Events[10], &s.Events[90]
	first.Kind, second.Kind = EventQuit, EventDieInBody
	fails := func(s Session) bool {
		var quit, die bool
		for _, e := range s.Events {
			quit = quit || e.Kind == EventQuit
			die = die || quit && e.Kind == EventDieInBody
		}
		return die
	}
	got := Shrink(s, 1000, fails)
	if len(got.Events) != 2 || !fails(got) {
		t.Errorf("shrunk to %d events", len(got.Events))
	}
}

// TestADifferenceIsFound plays two servers with different limits.
func TestADifferenceIsFound(t *testing.T) {
	program, unquoted := reference(t)
	a, err := StartServer(program)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Stop()
	b, err := StartServer(program, "-z", "100")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Stop()
	p, err := NewPair(a.Address, b.Address, unquoted)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var d *Difference
	if err := p.Play(NewSession(3, 150)); !errors.As(err, &d) {
		t.Errorf("got %v, want a difference", err)
	}
}
