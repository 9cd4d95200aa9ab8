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

// TestReadyLogNotesWhatGetsBetter: and nothing else, nor what a waiting client is given.
func TestReadyLogNotesWhatGetsBetter(t *testing.T) {
	w := newWorld(t)
	p, q := w.join("default"), w.join("default")
	l := w.core.readied
	at := l.Head()
	p.put(5, 0, 10)
	if l.Head() != at {
		t.Fatal("a tube is noted whose key nobody has asked for")
	}
	w.do(Op{Kind: OpMirror, Tube: p.tube}, StatusOK)
	at = l.Head()
	noted := func(what string, k ...Key) {
		t.Helper()
		for _, want := range k {
			if f, got, ok := l.At(at); !ok || at == l.Head() || f.Name() != "default" || got != want {
				t.Fatalf("%s: noted %v, want %v", what, got, want)
			}
			at++
		}
		if at != l.Head() {
			t.Fatalf("%s: more is noted than %v", what, k)
		}
	}
	two := p.put(5, 0, 10)
	noted("put behind")
	three := p.put(4, 0, 10)
	noted("put before", Key{4, three})
	p.reserve(three)
	p.on(OpDelete, 1, StatusOK)
	noted("reserve, delete")
	p.release(three, 6, 0)
	noted("release behind")
	p.on(OpDelete, two, StatusOK)
	p.reserve(three)
	noted("reserve")
	p.release(three, 6, 0)
	noted("release", Key{6, three})
	p.reserve(three)
	q.wait(Never)
	four := p.put(0, 0, 10)
	w.wakes(q.gets(four))
	noted("put for a waiting client")
	p.on(OpClose, 0, StatusOK)
	noted("a client's end", Key{6, three})
	w.pause("default", 1)
	noted("pause")
	w.pass(Second)
	noted("a pause's end", Key{6, three})
	w.pass(9 * Second)
	noted("a time to run's end", Key{0, four})
	five := q.put(0, 1, 10)
	q.reserve(four)
	q.reserve(three)
	w.pass(Second)
	noted("a delay's end", Key{0, five})
	q.on(OpDelete, five, StatusOK)
	q.on(OpBury, three, StatusOK)
	q.on(OpKickJob, three, StatusOK)
	noted("kick", Key{0, three})
}
