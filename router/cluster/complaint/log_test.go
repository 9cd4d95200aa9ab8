package complaint

import (
	"bytes"
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
