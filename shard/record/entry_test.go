package record

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestRoundTripOfEntries: what one server of several notes is read as it was written, and takes
// as many bytes as is said.
func TestRoundTripOfEntries(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := Entry{Index: rng.Uint64() | 1, Term: rng.Uint64(), Commit: rng.Uint64(), Kind: EntryKind(rng.IntN(3)), Change: []byte{}}
		if h.Kind != Normal {
			h.Change = make([]byte, rng.IntN(100))
		}
		b := h.Append(nil)
		r := parse(t, b)
		if r.Kind != KindEntry || len(b) != EntrySize+len(h.Change) || !reflect.DeepEqual(*r.Entry, h) {
			t.Fatalf("seed %d: %+v, want %+v", seed, r.Entry, h)
		}
		var got Entry
		rest, ok := ParseEntry(&got, append(b, "rest"...))
		if !ok || string(rest) != "rest" || !reflect.DeepEqual(got, h) {
			t.Fatalf("seed %d: %+v with %q behind it, want %+v", seed, got, rest, h)
		}
		f := Floor{rng.Uint64(), Globals{rng.Uint64(), rng.Uint64()}}
		b = f.Append(nil)
		if r := parse(t, b); r.Kind != KindFloor || *r.Floor != f || len(b) != FloorSize {
			t.Fatalf("seed %d: %+v, want %+v", seed, r.Floor, f)
		}
		e := Epoch{rng.Uint64(), int64(rng.Uint64()), rng.Uint32()}
		b = e.Append(nil)
		if r := parse(t, b); r.Kind != KindEpoch || *r.Epoch != e || len(b) != EpochSize {
			t.Fatalf("seed %d: %+v, want %+v", seed, r.Epoch, e)
		}
	}
}

// TestParseEntryRefuses: what Parse refuses, or takes for something else, begins no batch of a
// log; and what Parse takes for an Entry does.
func TestParseEntryRefuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	recs := all()
	for range 100_000 {
		b := bytes.Clone(recs[rng.IntN(len(recs))])
		for range rng.IntN(3) {
			b[rng.IntN(len(b))] = byte(rng.Uint32() >> rng.IntN(8))
		}
		var h Entry
		rest, ok := ParseEntry(&h, b)
		var r Record
		n, err := Parse(&r, b)
		if want := err == nil && r.Kind == KindEntry; ok != want || want && (len(rest) != len(b)-n || !reflect.DeepEqual(h, *r.Entry)) {
			t.Fatalf("%x: %v %+v, Parse says %v %+v", b, ok, h, err, r)
		}
	}
}
