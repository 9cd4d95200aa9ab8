package slab

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// record has about the size and the mixture of a job's record.
type record struct {
	ID       uint64
	Deadline int64
	Pri      uint32
	Body     uint32
	State    uint8
	Reserves [7]uint32
	Pad      [24]byte
}

func wantPanic(t *testing.T, part string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		s, _ := recover().(string)
		if !strings.Contains(s, part) {
			t.Errorf("panic %q, want one with %q", s, part)
		}
	}()
	f()
}

// check walks every invariant of an arena.
func check(t *testing.T, a *arena) {
	t.Helper()
	mapped, empty, least := 0, 0, int32(-1)
	for n, base := range a.bases {
		if hole := len(a.holes.words) > n/64 && a.holes.words[n/64]>>(n%64)&1 == 1; hole != (base == nil) {
			t.Fatalf("region %d: hole %v, base %v", n, hole, base)
		}
		if base == nil {
			continue
		}
		mapped++
		r := a.regions[n]
		first := uint32(0)
		if n == 0 {
			first = 1
		}
		used := uint32(0)
		for slot := range a.mask + 1 {
			if w, bit := a.bit(base, slot); *w&bit != 0 {
				used++
				if slot < first || slot >= r.fresh {
					t.Fatalf("region %d: slot %d in use, first %d fresh %d", n, slot, first, r.fresh)
				}
			}
		}
		free := uint32(0)
		for next := r.free; next != 0; free++ {
			if w, bit := a.bit(base, next-1); *w&bit != 0 || free > a.mask {
				t.Fatalf("region %d: free list holds slot %d, which is in use, or has a cycle", n, next-1)
			}
			next = *(*uint32)(a.at(uint32(n)<<a.shift | (next - 1)))
		}
		if used != r.used || first+used+free != r.fresh {
			t.Fatalf("region %d: %d in use, counted %d; free %d, fresh %d", n, r.used, used, free, r.fresh)
		}
		if used == 0 {
			empty++
		}
		open := len(a.open.words) > n/64 && a.open.words[n/64]>>(n%64)&1 == 1
		if full := first+used == a.mask+1; full == open {
			t.Fatalf("region %d: full %v, open %v", n, full, open)
		}
		if open && least < 0 {
			least = int32(n)
		}
	}
	if mapped != a.mapped || least != a.cur || empty > 1 {
		t.Fatalf("mapped %d, counted %d; current %d, least open %d; %d empty", a.mapped, mapped, a.cur, least, empty)
	}
	if n := len(a.bases); n > 0 && a.bases[n-1] == nil {
		t.Fatalf("the last of %d regions is a hole", n)
	}
}

func TestPoolAgainstMap(t *testing.T) {
	type big struct { // few slots per region: regions come and go
		A uint64
		B [4500]uint16
	}
	p := NewPool[big]()
	defer p.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	model := map[uint32]uint64{}
	var live []uint32
	high := 0
	for step := range 20000 {
		// The load swings, so that regions fill and empty many times.
		grow := 0.65
		if step/2000%2 == 1 {
			grow = 0.35
		}
		if len(live) == 0 || rng.Float64() < grow {
			i, r := p.Alloc()
			if i == 0 || r == nil {
				t.Fatal("no memory")
			}
			if _, dup := model[i]; dup {
				t.Fatalf("index %d given out twice", i)
			}
			if r.A != 0 || r.B != [4500]uint16{} {
				t.Fatalf("record %d is not zeroed", i)
			}
			if r != p.At(i) {
				t.Fatalf("At(%d) is not what Alloc returned", i)
			}
			v := rng.Uint64()
			r.A, r.B[0], r.B[2250], r.B[4499] = v, uint16(v), uint16(v>>16), uint16(v>>32)
			model[i] = v
			live = append(live, i)
		} else {
			k := rng.IntN(len(live))
			i := live[k]
			live[k] = live[len(live)-1]
			live = live[:len(live)-1]
			v, r := model[i], p.At(i)
			if r.A != v || r.B[0] != uint16(v) || r.B[2250] != uint16(v>>16) || r.B[4499] != uint16(v>>32) {
				t.Fatalf("record %d was overwritten", i)
			}
			delete(model, i)
			p.Free(i)
		}
		if p.Len() != len(model) {
			t.Fatalf("Len %d, want %d", p.Len(), len(model))
		}
		high = max(high, p.MappedBytes())
		if step%256 == 0 {
			check(t, &p.a)
		}
	}
	for k, i := range live {
		p.Free(i)
		if k%16 == 0 {
			check(t, &p.a)
		}
	}
	check(t, &p.a)
	if high < 4*p.a.bytes || p.MappedBytes() > p.a.bytes || p.Len() != 0 {
		t.Errorf("mapped %d at most, %d after draining, region %d", high, p.MappedBytes(), p.a.bytes)
	}
}

// TestDrainUnmapsAll, in any order; so does Close.
func TestDrainUnmapsAll(t *testing.T) {
	const n = 100_000
	for _, order := range []func(k int) int{
		func(k int) int { return k },
		func(k int) int { return n - 1 - k },
		func(k int) int { return k * 37 % n },
		nil,
	} {
		p := NewPool[record]()
		live := make([]uint32, n)
		for k := range live {
			live[k], _ = p.Alloc()
		}
		full := p.MappedBytes()
		for k := 0; order != nil && k < n; k++ {
			p.Free(live[order(k)])
		}
		if order != nil {
			check(t, &p.a)
		} else {
			p.Close()
		}
		if full < n*int(stride[record]()) || p.MappedBytes() != 0 || p.Len() != 0 {
			t.Errorf("mapped %d when full, %d of %d records after the drain", full, p.MappedBytes(), p.Len())
		}
		p.Close()
	}
}

func TestSmallSwingKeepsRegion(t *testing.T) {
	p := NewPool[record]()
	defer p.Close()
	i, r := p.Alloc()
	p.Free(i)
	for range 100 {
		j, s := p.Alloc()
		if j != i || s != r {
			t.Fatalf("index %d at %p, was %d at %p", j, s, i, r)
		}
		p.Free(j)
		if p.MappedBytes() != p.a.bytes {
			t.Fatal("the region was unmapped")
		}
	}
}

func TestSurvivorsGatherLow(t *testing.T) {
	p := NewPool[record]()
	defer p.Close()
	per := p.a.mask + 1
	var all []uint32
	for range 6 * per {
		i, _ := p.Alloc()
		all = append(all, i)
	}
	// One free slot in each region: they are taken from the lowest upwards.
	for n := uint32(6); n > 0; n-- {
		p.Free((n-1)*per + 5)
	}
	for n := range uint32(6) {
		if i, _ := p.Alloc(); i != n*per+5 {
			t.Fatalf("got %d, want %d", i, n*per+5)
		}
	}
	// Region 2 empties and is unmapped; its number is the next to be used.
	for _, i := range all {
		if i/per == 2 {
			p.Free(i)
		}
	}
	check(t, &p.a)
	if p.a.bases[2] != nil {
		t.Fatal("region 2 is still mapped")
	}
	for { // fill what is left in the last region
		i, _ := p.Alloc()
		if i/per == 2 {
			break
		}
		if i/per != 6 {
			t.Fatalf("got %d: neither the open region nor the hole", i)
		}
	}
	check(t, &p.a)
}

func TestPoolOfTinyRecords(t *testing.T) {
	p := NewPool[[3]byte]()
	defer p.Close()
	i, a := p.Alloc()
	j, b := p.Alloc()
	k, c := p.Alloc()
	*a, *c = [3]byte{1, 2, 3}, [3]byte{4, 5, 6}
	p.Free(j)
	if *p.At(i) != [3]byte{1, 2, 3} || *p.At(k) != [3]byte{4, 5, 6} {
		t.Error("the free link overwrote a neighbour")
	}
	if j2, b2 := p.Alloc(); j2 != j || b2 != b || *b2 != [3]byte{} {
		t.Errorf("got %d %v", j2, *b2)
	}
}

func TestPoolRefusesMisuse(t *testing.T) {
	p := NewPool[record]()
	defer p.Close()
	wantPanic(t, "region 0 is not mapped", func() { p.Free(1) })
	i, _ := p.Alloc()
	j, _ := p.Alloc()
	p.Free(j)
	wantPanic(t, "free of slot 2 (80 bytes), which is not in use", func() { p.Free(j) })
	wantPanic(t, "free of slot 0", func() { p.Free(0) })
	wantPanic(t, "free of slot 99", func() { p.Free(99) })
	wantPanic(t, "is not mapped", func() { p.Free(1 << 31) })
	p.Free(i)
	wantPanic(t, "free of slot 1", func() { p.Free(i) })
	if p.Len() != 0 {
		t.Errorf("Len %d after refused frees", p.Len())
	}
	check(t, &p.a)
}

func TestNewPoolRefusesPointers(t *testing.T) {
	type inner struct {
		N int
		S [2]struct{ B []byte }
	}
	wantPanic(t, "inner.S[].B", func() { NewPool[inner]() })
	wantPanic(t, "string", func() { NewPool[string]() })
	wantPanic(t, "*int", func() { NewPool[[1]*int]() })
	wantPanic(t, "func()", func() { NewPool[func()]() })
	wantPanic(t, "interface", func() { NewPool[interface{ M() }]() })
	NewPool[struct {
		A uintptr
		B [4]complex128
		C bool
		D struct{}
	}]()
}

func TestPoolOutOfMemory(t *testing.T) {
	// More than any address space: the kernel refuses, and the pool says so.
	a := newArena(1<<46, 0)
	if i, p := a.alloc(); i != 0 || p != nil {
		t.Fatalf("got slot %d at %p", i, p)
	}
	check(t, &a)
	// Indices run out at 2^32.
	p := NewPool[record]()
	defer p.Close()
	p.a.regions = make([]region, 1<<(32-p.a.shift))
	if i, _ := p.Alloc(); i != 0 {
		t.Fatalf("got index %d beyond the last region", i)
	}
	p.a.regions = nil
}

func BenchmarkPoolAllocFree(b *testing.B) {
	p := NewPool[record]()
	defer p.Close()
	p.Alloc()
	b.ReportAllocs()
	for b.Loop() {
		i, _ := p.Alloc()
		p.Free(i)
	}
}

// BenchmarkPoolChurn frees a random one of a million records and allocates
// another: the memory accesses of a deep queue.
func BenchmarkPoolChurn(b *testing.B) {
	p := NewPool[record]()
	defer p.Close()
	live := make([]uint32, 1<<20)
	for k := range live {
		live[k], _ = p.Alloc()
	}
	rng := rand.New(rand.NewPCG(7, 8))
	b.ReportAllocs()
	for b.Loop() {
		k := rng.IntN(len(live))
		p.Free(live[k])
		live[k], _ = p.Alloc()
	}
}

// TestNextUsedFindsEachOnce: all records in use, in order, whatever the number of words that
// one look may take.
func TestNextUsedFindsEachOnce(t *testing.T) {
	for _, few := range []bool{false, true} {
		p := NewPool[[96]byte]()
		var want []uint32
		for n := range 60_000 {
			i, _ := p.Alloc()
			if !few || n%7919 == 0 || n > 59_990 {
				want = append(want, i)
			}
		}
		for at, found := p.NextUsed(0, 1<<30); found; at, found = p.NextUsed(at+1, 1<<30) {
			if _, keep := slices.BinarySearch(want, at); !keep {
				p.Free(at)
			}
		}
		for _, words := range []int{1, 3, 1 << 20} {
			var got []uint32
			for i := uint32(0); ; {
				at, found := p.NextUsed(i, words)
				if found {
					got = append(got, at)
					at++
				}
				if i = at; at == 0 {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%d words a look: %d records, want %d", words, len(got), len(want))
			}
		}
		p.Close()
	}
}
