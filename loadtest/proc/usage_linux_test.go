package proc

import (
	"os"
	"testing"
	"time"
)

func TestParseStatSkipsTheCommandName(t *testing.T) {
	line := "4711 (a) b (c) 9) S 1 4711 4711 0 -1 4194560 1 2 3 4 123 45 6 7 20 0 1 0 99"
	user, system, err := parseStat([]byte(line))
	if err != nil || user != 1230*time.Millisecond || system != 450*time.Millisecond {
		t.Errorf("user %v, system %v, %v", user, system, err)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S 1 2", "1 (x) S 1 1 1 0 -1 4 1 2 3 4 u s 6"} {
		if _, _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
}

func TestRSSGrowsWithTouchedMemory(t *testing.T) {
	before, err := RSS(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	b := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		b[i] = 1
	}
	after, err := RSS(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after-before < size/2 {
		t.Errorf("resident memory went from %d to %d after %d bytes were touched", before, after, len(b))
	}
}
