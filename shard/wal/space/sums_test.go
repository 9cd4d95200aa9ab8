package space

import (
	"math/rand/v2"
	"testing"
)

const segment = 256 << 10

// The reserve pays for one segment's copies, a Delete of every job and the end of every
// pause, and for what copies leave empty once there is about a segment of them.
func TestReserve(t *testing.T) {
	for _, tt := range []struct {
		name string
		sums Sums
		want int64
	}{
		{"nothing lives", Sums{}, segment},
		{"jobs", Sums{Jobs: 1000}, segment + 1000*deleteShare},
		{"pauses", Sums{Pauses: 77}, segment + 77},
		{"little to copy", Sums{Live: 1000, Largest: 100}, segment},
		{"somewhat less than a segment", Sums{Live: segment - 1000, Largest: 1000}, segment + 3000},
		{"much", Sums{Live: 9 * segment, Largest: 1000}, segment + 4000},
		{"a record was large, and is gone", Sums{Live: 0, Largest: 60_000}, segment},
		{"all of it", Sums{Live: 9 * segment, Largest: 1000, Jobs: 2, Pauses: 5}, segment + 4000 + 2*deleteShare + 5},
	} {
		tt.sums.Segment = segment
		if got := tt.sums.Reserve(); got != tt.want {
			t.Errorf("%s: %d bytes, want %d", tt.name, got, tt.want)
		}
	}
}

func TestAvailable(t *testing.T) {
	s := Sums{Segment: segment, Free: 5 * segment}
	if got := s.Available(); got != 4*segment {
		t.Errorf("%d bytes with nothing but free ones, want %d", got, 4*segment)
	}
	s.Promised, s.Pending, s.Jobs = 100, 20, 3
	if got, want := s.Available(), int64(4*segment-120-3*deleteShare); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	if got, want := s.ahead(), int64(4*segment-100-3*deleteShare); got != want {
		t.Errorf("%d bytes ahead, want %d: what is pending is about to be written", got, want)
	}
}

func TestPressure(t *testing.T) {
	for _, tt := range []struct {
		name      string
		available int64
		pending   int64
		full      bool
		want      Pressure
		tight     bool
	}{
		{"room", segment, 0, false, Open, false},
		{"room, and the disk is full", segment, 0, true, Open, false},
		{"just enough", segment / 16, 0, false, Open, false},
		{"just too little", segment/16 - 1, 0, false, Wait, false},
		{"too little for good", segment/16 - 1, 0, true, Full, true},
		{"nothing", 0, 0, false, Wait, false},
		{"the reserve is used", -1, 0, false, Wait, true},
		{"the disk is behind", segment, segment/4 + 1, false, Wait, false},
		{"the disk is behind and full, but there is room", segment, segment/4 + 1, true, Wait, false},
	} {
		s := Sums{Segment: segment, Pending: tt.pending}
		s.Free = tt.available + s.Pending + s.Reserve()
		if p, tight := s.Pressure(tt.full); p != tt.want || tight != tt.tight {
			t.Errorf("%s: pressure %d, tight %v", tt.name, p, tight)
		}
	}
}

// randomSums returns the sums of a random journal with whole closed segments, and spares at most.
func randomSums(rng *rand.Rand, spares int64) Sums {
	s := Sums{
		Segment: segment,
		Closed:  segment * rng.Int64N(40),
		Largest: rng.Int64N(70_000),
		Jobs:    rng.Int64N(5000),
		Pauses:  rng.Int64N(1000),
	}
	s.Live = rng.Int64N(s.Closed + segment)
	if rng.IntN(3) == 0 {
		s.Promised = rng.Int64N(4 * segment)
	}
	s.Size = s.Closed + segment*(1+rng.Int64N(spares+1))
	return s
}

// Whenever the bound forbids another segment, giving up the oldest one is worth it, as long
// as there is no more than one spare: so a journal can always go on within its bound. With
// more spares than that there is room, unless a great many jobs reserve it; then the keeper
// prefers to break the bound.
func TestNeverStuck(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	forbidden := 0
	for range 200_000 {
		s := randomSums(rng, 1)
		if s.AnotherAllowed() {
			continue
		}
		if forbidden++; !s.Compactable(true) {
			t.Fatalf("no segment may come and none may go: %+v", s)
		}
	}
	if forbidden < 1000 {
		t.Errorf("the bound was met only %d times", forbidden)
	}
}

// What is not urgent is never done sooner than what is.
func TestUrgencyCompactsSooner(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		if s := randomSums(rng, 3); s.Compactable(false) && !s.Compactable(true) {
			t.Fatalf("%+v", s)
		}
	}
}

// A claim fits if its footprint is available, however the records of its body fall into
// segments and batches.
func TestFootprintIsEnough(t *testing.T) {
	const (
		largest  = 65536 + 1<<10
		batchMax = 1 << 20
		overhead = 48 + 15 // of a batch: its head, and what aligns the next
		header   = 64      // of a segment
	)
	rng := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		s := Sums{Segment: segment << rng.IntN(6)}
		most := 20_000 + rng.Int64N(largest-20_000)
		var n, taken, at, batch int64
		at = s.Segment - rng.Int64N(s.Segment-header) // where the first goes in the current segment
		for range 1 + rng.IntN(400) {
			size := most - rng.Int64N(most/4)
			n += size
			if batch == 0 || batch+size > batchMax {
				batch, taken, at = 0, taken+overhead, at+overhead
			}
			if at+size > s.Segment {
				taken += s.Segment - min(at, s.Segment) // which stays empty
				taken, at, batch = taken+header+overhead, header+overhead, 0
			}
			taken, at, batch = taken+size, at+size, batch+size
		}
		// The end of the current segment, which may stay empty first, is in the slack.
		if most := s.Footprint(n) + largest; taken > most {
			t.Fatalf("%d bytes of records took %d in segments of %d, want at most %d", n, taken, s.Segment, most)
		}
	}
}
