package record

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func someJob(rng *rand.Rand) Job {
	j := Job{
		ID: rng.Uint64() | 1, Created: rng.Int64(), Pri: rng.Uint32(), Delay: rng.Uint32(), TTR: rng.Uint32(),
		State: []uint8{Ready, Buried, Delayed}[rng.IntN(3)],
		Tube:  []byte(strings.Repeat("t", 1+rng.IntN(200))),
		Body:  make([]byte, rng.IntN(300)),
	}
	for i := range j.Body {
		j.Body[i] = byte(rng.Uint32())
	}
	if j.State != Ready {
		j.Due = 1 + rng.Int64N(1<<62)
	}
	if rng.IntN(2) == 0 {
		j.Counts = Counts{rng.Uint32(), rng.Uint32(), rng.Uint32(), rng.Uint32(), rng.Uint32()}
	}
	if rng.IntN(3) == 0 {
		j.Tube = make([]byte, []int{0, 1, 255, 256, 70, 16 << 10}[rng.IntN(6)])
		j.Submitted = &Submitted{
			Unique: make([]byte, rng.IntN(65)), Reducer: make([]byte, rng.IntN(65)),
			ByBody: rng.IntN(2) == 0, Joinable: rng.IntN(2) == 0, Lost: rng.Uint32(),
		}
		for i := range j.Submitted.Unique {
			j.Submitted.Unique[i] = byte(rng.Uint32())
		}
	}
	return j
}

// parse wants exactly one record in b, with rest behind it.
func parse(t *testing.T, b []byte) Record {
	t.Helper()
	var r Record
	n, err := Parse(&r, append(bytes.Clone(b), "rest"...))
	if err != nil || n != len(b) {
		t.Fatalf("Parse used %d of %d bytes: %v", n, len(b), err)
	}
	if Len(b) != n || KindOf(b) != r.Kind || SlotOf(b) != r.Slot {
		t.Fatalf("Len %d, KindOf %d, SlotOf %d of %+v", Len(b), KindOf(b), SlotOf(b), r)
	}
	return r
}

func TestRoundTrip(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		j := someJob(rng)
		slot := uint16(rng.Uint32())

		r := parse(t, j.AppendPut(nil, slot, 0))
		want := KindPut
		if j.State == Buried || j.Counts != (Counts{}) {
			want = KindCopy
		}
		if r.Kind != want || r.Slot != slot || r.Chunked != 0 || !bytes.Equal(r.Body, j.Body) {
			t.Fatalf("seed %d: %+v", seed, r)
		}
		r.Body = j.Body // nil and empty are the same
		if !reflect.DeepEqual(r.Job, j) {
			t.Fatalf("seed %d: %+v, want %+v", seed, r.Job, j)
		}

		bare := j
		bare.Body = nil
		r = parse(t, bare.AppendPut(nil, slot, 70000))
		if r.Kind != want || r.Chunked != 70000 || r.Body != nil || !reflect.DeepEqual(r.Job, bare) {
			t.Fatalf("seed %d: chunked %+v, want %+v", seed, r, bare)
		}

		r = parse(t, append(AppendChunkHead(nil, slot, j.ID, len(j.Body)), j.Body...))
		if r.Kind != KindChunk || r.ID != j.ID || r.Slot != slot || !bytes.Equal(r.Body, j.Body) {
			t.Fatalf("seed %d: %+v", seed, r)
		}

		r = parse(t, j.appendUpdate(nil, slot))
		up := Job{ID: j.ID, Due: j.Due, Pri: j.Pri, Delay: j.Delay, State: j.State, Counts: j.Counts}
		if j.Submitted != nil {
			up.Submitted = &Submitted{Lost: j.Submitted.Lost}
		}
		if r.Kind != KindUpdate || r.Slot != slot || !reflect.DeepEqual(r.Job, up) {
			t.Fatalf("seed %d: %+v", seed, r)
		}

		r = parse(t, AppendDelete(nil, slot, j.ID))
		if r.Kind != KindDelete || r.ID != j.ID || r.Slot != slot {
			t.Fatalf("seed %d: %+v", seed, r)
		}

		if len(j.Tube) == 0 {
			continue // nobody can pause it
		}
		until, length := rng.Int64(), rng.Int64()
		r = parse(t, appendPause(nil, slot, string(j.Tube), until, length))
		if r.Kind != KindPause || r.Slot != slot || string(r.Tube) != string(j.Tube) || r.Until != until || r.Length != length {
			t.Fatalf("seed %d: %+v", seed, r)
		}

		g := Globals{rng.Uint64(), rng.Uint64()}
		r = parse(t, g.Append(nil))
		if r.Kind != KindState || r.Globals != g {
			t.Fatalf("seed %d: %+v, want %+v", seed, r.Globals, g)
		}
	}
}

// TestSizes: what the journal reckons with is what is written.
func TestSizes(t *testing.T) {
	j := Job{ID: 7, State: Buried, Due: 1, Tube: []byte("a tube")}
	check := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s takes %d bytes, want %d", what, got, want)
		}
	}
	check("an Update", len(j.appendUpdate(nil, 1)), UpdateSize)
	check("a Delete", len(AppendDelete(nil, 1, 7)), DeleteSize)
	check("a Chunk", len(AppendChunkHead(nil, 1, 7, 0)), chunkSize)
	check("a Pause", len(appendPause(nil, 1, "", 1, 1)), pauseSize)
	check("a State", len((&Globals{}).Append(nil)), StateSize)
	check("the largest record", len((&Job{
		ID: 1, State: Buried, Tube: make([]byte, 1<<16-1), Body: make([]byte, ChunkMax),
		Submitted: &Submitted{Unique: make([]byte, 255), Reducer: make([]byte, 255)},
	}).AppendPut(nil, 1, 0)), MaxSize)
	ready := j
	ready.State, ready.Due = Ready, 0
	check("a Put", len(ready.AppendPut(nil, 1, 0)), putSize+len(j.Tube))
	for _, size := range []int{0, 1, 100, ChunkMax - 1, ChunkMax, ChunkMax + 1, 2 * ChunkMax, 2*ChunkMax + 1, 5 * ChunkMax} {
		var b Buffer
		c := j
		if body := make([]byte, size); size <= ChunkMax {
			c.Body = body
			b.Put(&c, 1, nil)
		} else {
			b.Put(&c, 1, [][]byte{body})
		}
		n := len(b.Data)
		for _, r := range b.Refs {
			n += len(r.Piece)
		}
		check("a Copy", n, int(JobSize(len(j.Tube), size)))
	}
}

// all is one record of every kind.
func all() [][]byte {
	j := Job{ID: 7, Tube: []byte("tube"), Body: []byte("body"), State: Ready}
	c := j
	c.State, c.Due = Buried, 5
	bare := c
	bare.Body = nil
	sub := j
	sub.Submitted = &Submitted{Unique: []byte("u"), Reducer: []byte("red"), Joinable: true, Lost: 3}
	return [][]byte{
		j.AppendPut(nil, 3, 0), c.AppendPut(nil, 3, 0), bare.AppendPut(nil, 3, 100000),
		append(AppendChunkHead(nil, 3, 7, 4), "part"...), c.appendUpdate(nil, 3),
		AppendDelete(nil, 3, 7), appendPause(nil, 3, "tube", 9, 9), (&Globals{1, 2}).Append(nil),
		sub.AppendPut(nil, 3, 0), sub.appendUpdate(nil, 3),
		(&Entry{Index: 5, Term: 2, Commit: 4}).Append(nil),
		(&Entry{Index: 6, Term: 2, Commit: 4, Kind: ChangeV2, Change: []byte("members")}).Append(nil),
		(&Floor{3, Globals{1, 2}}).Append(nil), (&Epoch{7, 8, 9}).Append(nil),
	}
}

func TestRefuses(t *testing.T) {
	with := func(b []byte, at int, v byte) []byte {
		b = bytes.Clone(b)
		b[at] = v
		return b
	}
	recs := all()
	for name, b := range map[string][]byte{
		"kind 0":            with(recs[0], 4, 0),
		"kind 11":           with(recs[0], 4, 11),
		"an unknown flag":   with(recs[0], 5, 4),
		"a submitted Chunk": with(recs[3], 5, flagSubmitted),
		"a bare submission": with(recs[0], 5, flagSubmitted),
		"a chunked Update":  with(recs[4], 5, FlagChunked),
		"state 2":           with(recs[4], headSize+24, 2),
		"a Copy of state 2": with(recs[1], headSize+36, 2),
		"no tube":           with(recs[0], putSize-1, 0),
		"a tube too long":   with(recs[0], putSize-1, 200),
		"no id":             with(recs[0], headSize, 0),
		"no index":          with(recs[10], headSize, 0),
		"a kind of entry 3": with(recs[11], EntrySize-1, 3),
		"normal, with more": with(recs[11], EntrySize-1, byte(Normal)),
		"a flagged Entry":   with(recs[10], 5, 1),
		"too large a change": (&Entry{
			Index: 1, Kind: Change, Change: make([]byte, ChangeMax+1),
		}).Append(nil),
		"a chunked nothing": (&Job{ID: 1, Tube: []byte("t"), Body: make([]byte, 8), State: Ready}).AppendPut(nil, 1, 0),
	} {
		if name == "a chunked nothing" {
			b[5] = FlagChunked
		}
		var r Record
		if n, err := Parse(&r, b); err == nil {
			t.Errorf("%s: parses as %d bytes, %+v", name, n, r)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, rec := range all() {
		f.Add(rec)
	}
	f.Fuzz(func(t *testing.T, b []byte) { parseAny(t, b) })
}

// parseAny parses b, with nothing behind it that could be read by mistake.
func parseAny(t *testing.T, b []byte) {
	b = bytes.Clone(b)
	b = b[:len(b):len(b)]
	var r Record
	n, err := Parse(&r, b)
	if err != nil {
		return
	}
	if n < headSize || n > len(b) {
		t.Fatalf("%x: %d bytes", b, n)
	}
	if len(r.Tube)+len(r.Body) > n-headSize {
		t.Fatalf("%x: %+v", b, r)
	}
}

// TestParseAny changes a few bytes of good records.
func TestParseAny(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	recs := all()
	for range 200000 {
		b := bytes.Clone(recs[rng.IntN(len(recs))])
		for range 1 + rng.IntN(3) {
			b[rng.IntN(len(b))] = byte(rng.Uint32() >> rng.IntN(8))
		}
		parseAny(t, b[:rng.IntN(len(b)+1)])
	}
}

// TestBufferNext: records with bodies apart come out whole, in order.
func TestBufferNext(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var b Buffer
		var want [][]byte // the bodies of jobs in pieces, nil for others
		records := 0
		for range 1 + rng.IntN(20) {
			j := someJob(rng)
			j.ID = uint64(len(want) + 1)
			switch rng.IntN(5) {
			case 0:
				b.Update(&j, 1)
			case 1:
				b.Delete(j.ID, 1)
			case 2:
				b.Pause("tube", 1, 5, 6)
			case 3:
				b.Put(&j, 1, nil)
			default:
				j.Body = nil
				var pieces [][]byte
				for range 1 + rng.IntN(4) {
					p := make([]byte, rng.IntN(3*ChunkMax))
					for i := range p {
						p[i] = byte(rng.Uint32())
					}
					pieces = append(pieces, p)
				}
				pieces = append(pieces, []byte("x")) // never nothing at all
				b.Put(&j, 1, pieces)
				want = append(want, bytes.Join(pieces, nil))
				records++
				continue
			}
			want = append(want, nil)
			records++
		}
		if b.Records != uint64(records) {
			t.Fatalf("seed %d: %d records counted, want %d", seed, b.Records, records)
		}
		got := make([][]byte, len(want))
		announced := make([]uint64, len(want))
		data, refs := b.Data, b.Refs
		for total := len(data); len(data) > 0; {
			var rec, ref []byte
			rec, ref, data, refs = Next(data, refs, total-len(data))
			whole := append(bytes.Clone(rec), ref...)
			r := parse(t, whole)
			if len(whole) > MaxSize {
				t.Fatalf("seed %d: a record of %d bytes", seed, len(whole))
			}
			if r.Chunked > 0 {
				announced[r.ID-1] = r.Chunked
			}
			if r.Kind == KindChunk {
				if len(r.Body) == 0 {
					t.Fatalf("seed %d: an empty Chunk", seed)
				}
				got[r.ID-1] = append(got[r.ID-1], r.Body...)
			}
		}
		if len(refs) > 0 {
			t.Fatalf("seed %d: %d pieces are left", seed, len(refs))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) || announced[i] != uint64(len(want[i])) {
				t.Fatalf("seed %d: job %d has %d bytes, announced %d, want %d", seed, i+1, len(got[i]), announced[i], len(want[i]))
			}
		}
	}
}
