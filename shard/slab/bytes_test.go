package slab

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func fill(data []byte, seed byte) []byte {
	for i := range data {
		data[i] = seed + byte(i*7) + byte(i>>8)
	}
	return data
}

func checkBytes(t *testing.T, b *Bytes) {
	t.Helper()
	kept, sum := 0, 0
	for _, a := range b.classes {
		if a == nil {
			continue
		}
		check(t, a)
		if a.keeper {
			sum += a.keep
		}
		for n := range a.bases {
			if a.isEmpty(int32(n)) {
				kept += a.keep
				if !a.keeper {
					t.Fatalf("class of %d bytes keeps a region without the right to", a.stride)
				}
			}
		}
	}
	if sum != b.keepBytes || kept > spareMax {
		t.Fatalf("%d bytes of keepers, recorded %d; %d kept empty", sum, b.keepBytes, kept)
	}
}

func TestClassesCoverAllSizes(t *testing.T) {
	for n := 1; n <= MaxSize; n++ {
		class := classOf[(n+grain-1)/grain]
		size := int(classSize[class])
		waste := size - n
		if waste < 0 || waste > 15 && waste*8 > n || class > 0 && int(classSize[class-1]) >= n {
			t.Fatalf("%d bytes in class %d of %d", n, class, size)
		}
	}
	if classSize[classMax-1] != MaxSize || classSize[0] != grain {
		t.Errorf("classes from %d to %d", classSize[0], classSize[classMax-1])
	}
	for _, size := range classSize {
		a := newArena(uintptr(size), classKeep)
		if a.mask+1 < 16 || a.bytes < 3<<18 || a.bytes > 3<<19+8192 {
			t.Errorf("class of %d: %d slots in %d bytes", size, a.mask+1, a.bytes)
		}
		if a.keep > spareMax {
			t.Errorf("class of %d may never keep a region: %d", size, a.keep)
		}
	}
}

func TestBytesAgainstMap(t *testing.T) {
	type item struct {
		ref  uint32
		n    int
		seed byte
	}
	b := NewBytes()
	defer b.Close()
	rng := rand.New(rand.NewPCG(9, 10))
	var live []item
	buf, want := make([]byte, MaxSize), make([]byte, MaxSize)
	for step := range 20000 {
		grow := 0.7
		if step/2000%2 == 1 {
			grow = 0.3
		}
		if len(live) == 0 || rng.Float64() < grow {
			n := rng.IntN(1 << (1 + rng.IntN(17)))
			n = min(n, MaxSize)
			it := item{n: n, seed: byte(rng.Uint32())}
			var ok bool
			if it.ref, ok = b.Put(fill(buf[:n], it.seed)); !ok {
				t.Fatal("no memory")
			}
			clear(buf[:n]) // Put must have copied
			live = append(live, it)
		} else {
			k := rng.IntN(len(live))
			it := live[k]
			live[k] = live[len(live)-1]
			live = live[:len(live)-1]
			if !bytes.Equal(b.Get(it.ref, it.n), fill(want[:it.n], it.seed)) {
				t.Fatalf("string %d of %d bytes was overwritten", it.ref, it.n)
			}
			b.Free(it.ref, it.n)
		}
		if step%500 == 0 {
			checkBytes(t, b)
		}
	}
	full := b.MappedBytes()
	for _, it := range live {
		if !bytes.Equal(b.Get(it.ref, it.n), fill(want[:it.n], it.seed)) {
			t.Fatalf("string %d of %d bytes was overwritten", it.ref, it.n)
		}
		b.Free(it.ref, it.n)
	}
	checkBytes(t, b)
	kept := 0
	for _, a := range b.classes {
		if a != nil {
			kept += a.mapped
		}
	}
	if kept > spareMax/classKeep || b.MappedBytes() > full/2 {
		t.Errorf("mapped %d, after draining %d in %d regions", full, b.MappedBytes(), kept)
	}
}

func TestRightToKeepMovesOn(t *testing.T) {
	b := NewBytes()
	defer b.Close()
	one := func(n int) {
		ref, _ := b.Put(make([]byte, n))
		b.Free(ref, n)
		checkBytes(t, b)
	}
	one(16)
	one(65536) // 16 KiB and 256 KiB: both fit
	first, last := b.classes[0], b.classes[classMax-1]
	if first.mapped != 1 || last.mapped != 1 {
		t.Fatal("no region was kept")
	}
	one(40000) // 256 KiB each, which leaves no room for the oldest
	one(50000)
	newest := b.classes[classOf[50000/grain]]
	if first.mapped != 0 || last.mapped != 0 || newest.mapped != 1 {
		t.Errorf("the oldest two keep %d and %d regions, the newest %d", first.mapped, last.mapped, newest.mapped)
	}
}

func TestBytesRefuseMisuse(t *testing.T) {
	b := NewBytes()
	defer b.Close()
	wantPanic(t, "free of string 1 of 10 bytes", func() { b.Free(1, 10) })
	wantPanic(t, "free of string 1 of 0 bytes", func() { b.Free(1, 0) })
	wantPanic(t, "of 65537 bytes", func() { b.Free(1, MaxSize+1) })
	wantPanic(t, "of -1 bytes", func() { b.Free(1, -1) })
	ref, _ := b.Put(make([]byte, 10))
	other, _ := b.Put(make([]byte, 10))
	wantPanic(t, "free of string", func() { b.Free(ref, 100) })
	b.Free(ref, 10)
	wantPanic(t, "not in use", func() { b.Free(ref, 10) })
	b.Free(other, 10)
}

func TestHotPathsAllocateNothing(t *testing.T) {
	b, p := NewBytes(), NewPool[record]()
	defer b.Close()
	defer p.Close()
	data := make([]byte, 64)
	cycle := func() {
		ref, _ := b.Put(data)
		i, r := p.Alloc()
		r.Body = ref
		copy(data, b.Get(p.At(i).Body, 64))
		b.Free(ref, 64)
		p.Free(i)
	}
	cycle()
	if n := testing.AllocsPerRun(1000, cycle); n != 0 {
		t.Errorf("%v allocations per cycle", n)
	}
}

func BenchmarkBytes64(b *testing.B)    { benchmarkBytes(b, 64) }
func BenchmarkBytes65535(b *testing.B) { benchmarkBytes(b, 65535) }

func benchmarkBytes(b *testing.B, n int) {
	s := NewBytes()
	defer s.Close()
	data := fill(make([]byte, n), 1)
	b.ReportAllocs()
	for b.Loop() {
		ref, _ := s.Put(data)
		s.Free(ref, n)
	}
}
