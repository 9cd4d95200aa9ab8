package core

import (
	"sync"
	"testing"
)

// TestMirrorIsReadWhole: a key is never mixed from two, even if their ids have the same low half.
func TestMirrorIsReadWhole(t *testing.T) {
	// No key comes twice, as in a tube: the same word again would hide what was between.
	key := func(i int) Key { return Key{uint32(i), JobID(i<<32 | i%4/3*7)} }
	var m Mirror
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 200_000 {
				k, ok := m.Load()
				if want := key(int(k.Pri)); k != want || ok != (k.ID != 0) {
					t.Errorf("read %v: %v", k, ok)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 200_000 {
			if m.store(key(i)); m.stored() != key(i) {
				t.Errorf("stored %v", m.stored())
				return
			}
		}
	})
	wg.Wait()
}

func TestReadyLogTellsWhatItKeeps(t *testing.T) {
	var l ReadyLog
	faces := []*Face{{name: "a"}, {name: "b"}, {name: "c"}}
	for i := range uint64(2*readyLogSize + 10) {
		if l.Head() != i {
			t.Fatalf("head %d, want %d", l.Head(), i)
		}
		l.add(faces[i%3], Key{uint32(i), JobID(i + 1)})
	}
	for i := range l.Head() {
		f, k, ok := l.At(i)
		if kept := i > l.Head()-readyLogSize; ok != kept || ok && (f != faces[i%3] || k != Key{uint32(i), JobID(i + 1)}) {
			t.Fatalf("entry %d of %d: %q, %v, %v", i, l.Head(), f.Name(), k, ok)
		}
	}
}
