package snapshot

import (
	"strings"
	"testing"

	"polystalk/shard/wal/fakedisk"
)

// TestIDIsBoundOnce: after a power cut at any operation of the disk, an ID is bound to the text that
// was being written, or to none; and a bound ID was not changed.
func TestIDIsBoundOnce(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", boundSize/16)
	bound := 0
	for seed := range uint64(400) {
		d := fakedisk.New(seed)
		id, err := NodeID(d)
		if err != nil {
			t.Fatal(err)
		}
		if was, err := Bound(d); was != "" || err != nil {
			t.Fatalf("a new id is bound to %q: %v", was, err)
		}
		d.CrashAt = d.Ops + 1 + int(seed%5)
		told := Bind(d, text)
		d.Cut()
		d.CrashAt = 0
		got, err := Bound(d)
		if err != nil || got != "" && got != text || told == nil && got != text {
			t.Fatalf("seed %d: it is bound to %q: %v, after %v", seed, got, err, told)
		}
		if got == text {
			bound++
		}
		if again, err := NodeID(d); again != id || err != nil {
			t.Fatalf("seed %d: the id is %x, and was %x: %v", seed, again, id, err)
		}
		if err := Discard(d); err != nil {
			t.Fatal(err)
		}
		if again, err := NodeID(d); again == id || err != nil {
			t.Fatalf("seed %d: the id %x was not discarded: %v", seed, id, err)
		}
		if was, err := Bound(d); was != "" || err != nil {
			t.Fatalf("seed %d: the next id is bound to %q: %v", seed, was, err)
		}
	}
	if bound == 0 || bound == 400 {
		t.Errorf("%d of 400 are bound", bound)
	}
}
