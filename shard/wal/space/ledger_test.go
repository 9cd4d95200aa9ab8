package space

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// TestClaims has some callers claim, record and give up at random, and a keeper that finds
// space or does not. At every step promised and wanted are the sums of what the claims say,
// nothing is promised that is not there, and nobody is refused unless a try that began
// after he asked has found no space.
func TestClaims(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		l := New(segment)
		l.AddFree(segment + rng.Int64N(6*segment))
		claims := make([]Claim, 1+rng.IntN(5))
		asked := make([]uint64, len(claims)) // l.refused when the question was first put
		for step := range 400 {
			i := rng.IntN(len(claims))
			c := &claims[i]
			switch rng.IntN(8) {
			case 0:
				l.Release(c)
			case 1:
				n := c.Body // goes into a Log, and is written
				l.Append(n)
				l.Release(c)
				l.Take(n, Growth{})
				l.Write(n + n/300)
				l.Written()
			case 2:
				if try := l.Try(); rng.IntN(2) == 0 {
					l.AddFree(segment)
				} else {
					l.Refuse(try)
				}
			default:
				before, had := l.Sums(), *c
				if c.Wanted == 0 {
					asked[i] = l.refused
				}
				p, changed := l.Claim(c, c.Body+1+rng.Int64N(segment), rng.IntN(10) > 0)
				after := l.Sums()
				if !before.anotherWanted() && after.anotherWanted() && !changed {
					t.Fatalf("seed %d, step %d: the keeper does not hear that another segment is wanted: %+v, then %+v", seed, step, before, after)
				}
				switch p {
				case Open:
					if after.Available() < after.margin() {
						t.Fatalf("seed %d, step %d: promised what is not there: %+v, then %+v", seed, step, before, after)
					}
				case Full:
					if had.Wanted == 0 || l.refused == asked[i] {
						t.Fatalf("seed %d, step %d: refused by what was known before: %+v", seed, step, had)
					}
					if *c != (Claim{}) {
						t.Fatalf("seed %d, step %d: what is refused keeps %+v", seed, step, *c)
					}
				case Wait:
					if c.Body != had.Body || c.Granted != had.Granted || c.Wanted <= 0 {
						t.Fatalf("seed %d, step %d: %+v waits, and was %+v", seed, step, *c, had)
					}
				}
			}
			var promised, wanted int64
			for _, c := range claims {
				promised += c.Granted
				wanted += c.Wanted
			}
			if s := l.Sums(); s.Promised != promised || s.Wanted != wanted || s.Pending != 0 {
				t.Fatalf("seed %d, step %d: %+v, but the claims have %d and want %d", seed, step, s, promised, wanted)
			}
		}
	}
}

// A compaction gets all that it needs or nothing, and leaves no margin.
func TestPromise(t *testing.T) {
	l := New(segment)
	l.AddFree(2 * segment)
	if l.Promise(segment+1) || !l.Promise(segment) || l.Promise(1) {
		t.Errorf("%+v", l.Sums())
	}
	if !l.Promise(0) {
		t.Error("nothing is refused")
	}
	l.GiveBack(segment)
	if s := l.Sums(); s.Available() != segment {
		t.Errorf("%+v", s)
	}
}

// While bytes move from promised to pending to what is written, nobody ever sees more
// available than there is. One body is always on its way, so that to miss it shows; but the
// counters lie so close together that another order of reading them rarely does.
func TestNoByteIsMissed(t *testing.T) {
	const n, rounds = 1000, 100_000
	l := New(segment)
	l.AddFree(segment + n*(rounds+1))
	l.Promise(n)
	var written atomic.Int64 // rounds that had ended before a look
	var wg sync.WaitGroup
	wg.Go(func() {
		for range rounds {
			l.Promise(n) // of the next round
			l.Append(n)
			l.GiveBack(n)
			l.Take(n, Growth{})
			l.Write(n)
			written.Add(1)
		}
	})
	for written.Load() < rounds {
		most := n * (rounds - written.Load())
		if s := l.Sums(); s.Available() > most {
			t.Fatalf("%d bytes are available, and there are at most %d: %+v", s.Available(), most, s)
		}
	}
	wg.Wait()
	if s := l.Sums(); s.Available() != 0 || s.Pending != 0 || s.Promised != n {
		t.Errorf("%+v", s)
	}
}

// To take off more than there is, is a broken invariant, and says what and how much.
func TestMoreThanThereIs(t *testing.T) {
	for what, broken := range map[string]func(l *Ledger){
		"the counter of promised bytes is -1 after 6 bytes were subtracted": func(l *Ledger) { l.Promise(5); l.GiveBack(6) },
		"the counter of pending bytes is -7 after 7 bytes were subtracted":  func(l *Ledger) { l.Take(7, Growth{}); l.Written() },
		"the counter of wanted bytes is -9 after 9 bytes were subtracted":   func(l *Ledger) { l.Release(&Claim{Wanted: 9}) },
	} {
		func() {
			defer func() {
				if got := recover(); got != what {
					t.Errorf("panic %v, want %s", got, what)
				}
			}()
			l := New(segment)
			l.AddFree(2 * segment)
			broken(l)
		}()
	}
}

// TestTakenStaysPending: what a commit has taken is pending until it is written, and what was sent
// until it lands: to the byte, whatever batches weigh, and never missing.
func TestTakenStaysPending(t *testing.T) {
	type step struct {
		name          string
		do            func(l *Ledger)
		pending, free int64
	}
	const free = 1 << 20
	for _, steps := range [][]step{{
		{"taken", func(l *Ledger) { l.Append(1000); l.Take(900, Growth{}); l.Append(50) }, 1050, free},
		{"half written", func(l *Ledger) { l.Write(600) }, 450, free - 600},
		{"written", func(l *Ledger) { l.Write(600); l.Written() }, 150, free - 1200},
		{"the rest", func(l *Ledger) { l.Take(150, Growth{}); l.Written() }, 0, free - 1200},
	}, {
		{"taken", func(l *Ledger) { l.Append(1000); l.Take(1000, Growth{}) }, 1000, free},
		{"an entry with what was known is sent", func(l *Ledger) { l.Send(700) }, 1000, free},
		{"one that holds more than was known", func(l *Ledger) { l.Send(500) }, 1200, free},
		{"the commit is sent", func(l *Ledger) { l.Written() }, 1200, free},
		{"the next commit knew of more than it has", func(l *Ledger) { l.Append(100); l.Take(100, Growth{}); l.Send(60) }, 1300, free},
		{"it is sent", func(l *Ledger) { l.Written() }, 1260, free},
		{"the first lands", func(l *Ledger) { l.Land(700) }, 560, free - 700},
		{"the second lands", func(l *Ledger) { l.Land(500) }, 60, free - 1200},
		{"the third lands", func(l *Ledger) { l.Land(60) }, 0, free - 1260},
		{"something lands that nobody has sent", func(l *Ledger) { l.Land(40) }, 0, free - 1300},
	}} {
		l := New(free)
		l.AddFree(free)
		for _, s := range steps {
			s.do(l)
			if sums := l.Sums(); sums.Pending != s.pending || sums.Free != s.free {
				t.Errorf("%s: %d bytes are pending and %d free, want %d and %d", s.name, sums.Pending, sums.Free, s.pending, s.free)
			}
		}
	}
	l := New(free)
	l.Take(0, Growth{Live: 5, Jobs: 1, Pauses: 3, Largest: 70})
	l.Take(0, Growth{Live: -4, Jobs: 1, Largest: 60})
	if s := l.Sums(); s.Live != 1 || s.Jobs != 2 || s.Pauses != 3 || s.Largest != 70 {
		t.Errorf("%+v", s)
	}
}

// TestElsewhere: changes are refused while others have no room for them besides what deletes and
// compaction need, and are not any more once they have.
func TestElsewhere(t *testing.T) {
	l := New(segment)
	l.AddFree(10 * segment)
	check := func(want Pressure) {
		t.Helper()
		if p, tight := l.Pressure(); p != want || tight != (want == Full) || l.FullElsewhere() != (want == Full) {
			t.Errorf("the pressure is %d, tight %v, full elsewhere %v, want %d", p, tight, l.FullElsewhere(), want)
		}
	}
	check(Open)
	l.SetElsewhere(segment + segment/16)
	check(Open)
	l.SetElsewhere(segment + segment/16 - 1)
	check(Full)
	l.SetElsewhere(2 * segment)
	check(Open)
	l.Take(0, Growth{Jobs: segment / deleteShare})
	check(Full)
	l.SetElsewhere(math.MaxInt64)
	check(Open)

	// What is sent takes from what they had, until they say that they have more.
	l = New(segment)
	l.AddFree(10 * segment)
	send := func() {
		l.Append(segment / 8)
		l.Take(segment/8, Growth{})
		l.Send(segment / 8)
		l.Written()
		l.Land(segment / 8)
	}
	l.SetElsewhere(2 * segment)
	for range 7 {
		send()
		check(Open)
	}
	send()
	check(Full)
	l.SetElsewhere(2 * segment) // perhaps as it was when they first said so
	check(Full)
	l.SetElsewhere(2 * segment) // since the first send, or later
	check(Full)
	l.SetElsewhere(2 * segment) // since then nothing was sent
	check(Open)
	l.SetElsewhere(math.MaxInt64)
	for range 20 {
		send()
		check(Open)
	}
}
