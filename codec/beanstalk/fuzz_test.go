package beanstalk

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fuzzSeeds are all lines and inputs of parse_test.go.
func fuzzSeeds() (seeds []string) {
	for _, line := range append(slices.Clone(acceptedLines), refusedLines...) {
		seeds = append(seeds, line+"\r\n")
	}
	return append(seeds, lineEnds...)
}

func FuzzParse(f *testing.F) {
	for _, seed := range fuzzSeeds() {
		f.Add([]byte(seed))
	}
	f.Fuzz(checkParse)
}

// checkParse compares Parse with the twin, and checks what holds for any input.
func checkParse(t *testing.T, b []byte) {
	input := bytes.Clone(b)
	var cmd Command
	n, err := Parse(&cmd, b)
	if n < 0 || n > len(b) || n > MaxLine {
		t.Fatalf("Parse used %d of %d bytes", n, len(b))
	}
	if !bytes.Equal(b, input) {
		t.Fatal("Parse wrote to its input")
	}
	want, wantN, wantErr := twinParse(b)
	if n != wantN || err != wantErr || cmd.Kind != want.Kind || err == nil && !reflect.DeepEqual(cmd, want) {
		t.Fatalf("Parse(%q) = %d, %v, %+v; the twin says %d, %v, %+v", b, n, err, cmd, wantN, wantErr, want)
	}
	// However little arrives at a time, nothing is decided before the last
	// byte of the line is there, and no later byte matters.
	for i := range b {
		var part Command
		partN, partErr := Parse(&part, b[:i])
		if n == 0 || i < n {
			if partN != 0 || partErr != nil {
				t.Fatalf("Parse(%q) = %d, %v with %d of %d bytes", b[:i], partN, partErr, i, n)
			}
		} else if partN != n || partErr != err || !reflect.DeepEqual(part, cmd) {
			t.Fatalf("Parse(%q) = %d, %v, %+v; with more bytes %d, %v, %+v", b[:i], partN, partErr, part, n, err, cmd)
		}
	}
	if n == 0 || err != nil {
		return
	}
	// What a client would write for this command parses to this command.
	line := appendCommand(nil, &cmd)
	var again Command
	if m, err := Parse(&again, line); m != len(line) || err != nil || !reflect.DeepEqual(again, cmd) {
		t.Fatalf("Parse(%q) = %d, %v, %+v; want %+v", line, m, err, again, cmd)
	}
	// Only Name looks into the input.
	name := len(cmd.Name)
	for i := range b {
		b[i] = '!'
	}
	if want.Name != nil {
		want.Name = bytes.Repeat([]byte("!"), name)
	}
	if !reflect.DeepEqual(cmd, want) {
		t.Fatalf("with its input overwritten: %+v, want %+v", cmd, want)
	}
}

func FuzzSkipLine(f *testing.F) {
	for _, seed := range fuzzSeeds() {
		f.Add([]byte(seed), 1)
		f.Add([]byte(strings.Repeat("\rx", MaxLine)+seed), 7)
	}
	f.Fuzz(checkSkip)
}

// checkSkip compares SkipLine with the twin, and with itself when b comes in chunks.
func checkSkip(t *testing.T, b []byte, chunk int) {
	n, done := SkipLine(b)
	if wantN, wantDone := twinSkip(b); n != wantN || done != wantDone {
		t.Fatalf("SkipLine(%q) = %d, %v; the twin says %d, %v", b, n, done, wantN, wantDone)
	}
	// The same bytes a chunk at a time, what is not used being kept.
	chunk = min(max(chunk, 1), 2*MaxLine)
	var kept []byte
	total, finished := 0, false
	for rest := b; len(rest) > 0 && !finished; {
		k := min(chunk, len(rest))
		kept, rest = append(kept, rest[:k]...), rest[k:]
		var m int
		m, finished = SkipLine(kept)
		kept = kept[m:]
		total += m
	}
	if total != n || finished != done {
		t.Fatalf("SkipLine(%q) by %d = %d, %v; want %d, %v", b, chunk, total, finished, n, done)
	}
}
