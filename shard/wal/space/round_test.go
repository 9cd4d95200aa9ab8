package space

import "testing"

// A round is fruitless when it leaves as many closed segments as there were, and so is the next
// until there are more, or what lives has changed by a quarter segment or a quarter of itself.
func TestFruitlessRounds(t *testing.T) {
	const segment = 1000
	var r Round
	if r.Hopeless(1, 0, segment) || r.Hopeless(9, 5000, segment) {
		t.Error("no round has been fruitless, and the next is hopeless")
	}
	run := func(closed, left int, live int64) {
		r.Begin(closed)
		for r.left > 0 {
			r.Begin(closed) // goes on with the same
			r.GivenUp(left, live)
		}
	}
	run(4, 3, 5000)
	if r.Hopeless(3, 5000, segment) {
		t.Error("a round that was of use is hopeless")
	}
	for _, tt := range []struct {
		name   string
		at     int64 // bytes that lived when a round was fruitless
		closed int
		live   int64
		want   bool
	}{
		{"nothing has changed", 5000, 4, 5000, true},
		{"fewer segments", 5000, 3, 5000, true},
		{"another segment", 5000, 5, 5000, false},
		{"a little less lives", 5000, 4, 4751, true},
		{"a quarter segment less", 5000, 4, 4750, false},
		{"a quarter segment more", 5000, 4, 5250, false},
		{"little lived, and nearly as much does", 100, 4, 75, true},
		{"little lived, and a quarter of it is gone", 100, 4, 74, false},
		{"little lived, and all is gone", 100, 4, 0, false},
		{"a byte lived, and is gone", 1, 4, 0, false},
		{"nothing lived, and nothing does", 0, 4, 0, true},
	} {
		r = Round{}
		run(4, 4, tt.at)
		if got := r.Hopeless(tt.closed, tt.live, segment); got != tt.want {
			t.Errorf("%s: hopeless %v", tt.name, got)
		}
	}
}
