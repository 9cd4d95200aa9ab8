package wal

import (
	"math/rand/v2"
	"testing"
)

// A indexed is what the indexModel has of an entry in a segment.
type indexed struct {
	index, term uint64
	at          place
	size        int64
}

// A indexModel is a log as everybody would write it down: all entries that are in the files, and
// which of them count.
type indexModel struct {
	files []indexed // all, in the order of the files
	log   []indexed // those that count, by index
}

func (m *indexModel) append(f indexed) {
	m.files = append(m.files, f)
	for len(m.log) > 0 && m.log[len(m.log)-1].index >= f.index {
		m.log = m.log[:len(m.log)-1]
	}
	m.log = append(m.log, f)
}

func (m *indexModel) drop(segment uint64) {
	for len(m.files) > 0 && m.files[0].at.Segment < segment {
		m.files = m.files[1:]
	}
	for len(m.log) > 0 && m.log[0].at.Segment < segment {
		m.log = m.log[1:]
	}
}

// read reads a stretch as a reader of the files alone does: from its place on, one by one.
func (m *indexModel) read(s stretch) (got []indexed) {
	for i, f := range m.files {
		if f.at != s.place {
			continue
		}
		for n := s.From; n < s.To && i < len(m.files) && m.files[i].at.Segment == s.Segment; n, i = n+1, i+1 {
			got = append(got, m.files[i])
		}
		return got
	}
	return nil
}

// TestIndexIsTheLog: after any appends that take the place of others, and whatever segments are
// dropped, each entry is found where it is, by what is read from there on, with its term.
func TestIndexIsTheLog(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var x entryIndex
		var m indexModel
		at, term := place{1, 64}, uint64(rng.IntN(3))
		small := rng.IntN(2) == 0
		for step := range 600 {
			next := x.Last() + 1
			if x.empty() {
				next = 1 + uint64(rng.IntN(5))
			}
			switch k := rng.IntN(100); {
			case k < 4 && !x.empty(): // another leader writes over the end
				term++
				next = x.First() + uint64(rng.IntN(int(next-x.First())))
				if rng.IntN(3) > 0 {
					next = max(x.First(), x.Last()-min(x.Last(), uint64(rng.IntN(10))))
				}
			case k < 5:
				next = max(1, x.First()-min(x.First(), uint64(rng.IntN(3)))) // before all there is
			case k < 7:
				term++
			case k < 12:
				at = place{at.Segment + 1, 64}
			case k < 14:
				drop := at.Segment - min(at.Segment, uint64(rng.IntN(8)))
				x.Drop(drop)
				m.drop(drop)
				if next = x.Last() + 1; x.empty() {
					next = 1 + uint64(rng.IntN(50))
				}
			}
			size := int64(64)
			if !small {
				size = int64(16 * (5 + rng.IntN(8000)))
			}
			f := indexed{next, term, at, size}
			x.Append(f.index, f.term, f.at, f.size)
			m.append(f)
			at.Offset += size
			if step%7 == 0 || seed < 20 {
				compareIndex(t, seed, step, &x, &m)
			}
		}
		compareIndex(t, seed, -1, &x, &m)
	}
}

func compareIndex(t *testing.T, seed uint64, step int, x *entryIndex, m *indexModel) {
	t.Helper()
	if x.First() != m.log[0].index || x.Last() != m.log[len(m.log)-1].index {
		t.Fatalf("seed %d, step %d: it has %d to %d, want %d to %d", seed, step, x.First(), x.Last(), m.log[0].index, m.log[len(m.log)-1].index)
	}
	for i := x.First(); i <= x.Last(); {
		s := x.find(i)
		got := m.read(s)
		if s.From != i || s.To <= i || uint64(len(got)) != s.To-s.From || len(got) > pointEvery {
			t.Fatalf("seed %d, step %d: entry %d is in %+v, where %d are", seed, step, i, s, len(got))
		}
		if last := got[len(got)-1].at.Offset - s.Offset; last >= stretchBytes {
			t.Fatalf("seed %d, step %d: the last of %+v is %d bytes behind", seed, step, s, last)
		}
		for k, f := range got {
			n := i + uint64(k)
			want := m.log[n-m.log[0].index]
			term, ok := x.Term(n)
			if f != want || !ok || term != want.term || x.find(n) != s {
				t.Fatalf("seed %d, step %d: entry %d is %+v of term %d, %v, want %+v", seed, step, n, f, term, ok, want)
			}
		}
		i = s.To
	}
	for _, i := range []uint64{x.First() - 1, x.Last() + 1, 0} {
		if term, ok := x.Term(i); ok {
			t.Fatalf("seed %d, step %d: entry %d has term %d, and is not there", seed, step, i, term)
		}
	}
	for _, f := range m.log {
		first := m.log[len(m.log)-1].index + 1
		for _, g := range m.log {
			if g.at.Segment >= f.at.Segment {
				first = g.index
				break
			}
		}
		if got := x.firstIn(f.at.Segment); got != first {
			t.Fatalf("seed %d, step %d: entry %d is the first from segment %d on, want %d", seed, step, got, f.at.Segment, first)
		}
	}
	if got := x.firstIn(1 << 40); got != x.Last()+1 {
		t.Fatalf("seed %d, step %d: entry %d is in no segment", seed, step, got)
	}
}

// TestSmallIndex: a million small entries take little.
func TestSmallIndex(t *testing.T) {
	var x entryIndex
	for i := range uint64(1_000_000) {
		x.Append(i+1, 1, place{1 + i/50_000, int64(64 + i%50_000*128)}, 128)
	}
	if n := cap(x.points)*24 + cap(x.runs)*16; n > 1_000_000 {
		t.Errorf("a million entries take %d bytes", n)
	}
}

// TestGapIsRefused: a hole in the log is the fault of its writer.
func TestGapIsRefused(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("entry 7 follows on entry 5")
		}
	}()
	var x entryIndex
	x.Append(5, 1, place{1, 64}, 64)
	x.Append(7, 1, place{1, 128}, 64)
}
