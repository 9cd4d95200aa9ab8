package complaint

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestEachThingIsSaidOnceASecond(t *testing.T) {
	var b bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&b, nil)))
	begun := time.Now()
	for i := range 100 {
		l.say(begun.Add(time.Duration(i)*25*time.Millisecond), slog.LevelWarn, "crowd", nil)
		l.say(begun.Add(time.Duration(i)*25*time.Millisecond), slog.LevelInfo, "peace", nil)
	}
	text := b.String()
	for _, want := range []struct {
		words string
		n     int
	}{
		{"msg=crowd", 3}, {"msg=peace", 3}, {"msg=crowd suppressed=39", 2}, {"level=WARN", 3}, {"level=INFO", 3},
	} {
		if n := strings.Count(text, want.words); n != want.n {
			t.Errorf("%q was said %d times, want %d:\n%s", want.words, n, want.n, text)
		}
	}
}

// TestOfEachItIsSaidOnceAMinute: at once of every one, however many others there are, and then with
// how often it was not.
func TestOfEachItIsSaidOnceAMinute(t *testing.T) {
	var b bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&b, nil)))
	begun := time.Now()
	for i := range 101 {
		now := begun.Add(time.Duration(i) * 1200 * time.Millisecond)
		l.sayOf(now, "10.0.0.1", "refused", []any{"from", 1})
		l.sayOf(now, "10.0.0.2", "refused", []any{"from", 2})
	}
	text := b.String()
	for _, want := range []struct {
		words string
		n     int
	}{{"from=1", 3}, {"from=2", 3}, {"from=1 suppressed=49", 2}, {"level=WARN", 6}} {
		if n := strings.Count(text, want.words); n != want.n {
			t.Errorf("%q was said %d times, want %d:\n%s", want.words, n, want.n, text)
		}
	}
}

// TestCrowdOfManyIsBounded: who comes from ever other addresses is said of once a second, and what
// is remembered of them is given up.
func TestCrowdOfManyIsBounded(t *testing.T) {
	var b bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&b, nil)))
	begun := time.Now()
	for i := range 1000 {
		l.sayOf(begun, fmt.Sprint(i), "refused", nil)
	}
	if n := strings.Count(b.String(), "refused"); n != ofMax+1 || len(l.of) != ofMax {
		t.Errorf("said %d times, %d remembered, want %d and %d", n, len(l.of), ofMax+1, ofMax)
	}
	l.sayOf(begun.Add(everyOf), "another", "refused", nil)
	if len(l.of) != 1 {
		t.Errorf("%d are remembered after their time, want 1", len(l.of))
	}
}
