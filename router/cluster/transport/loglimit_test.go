package transport

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// logAt returns a function that logs to a limited log at a given time; out returns the log.
func logAt(t *testing.T) (log func(at time.Time, level slog.Level, subject, msg string), out *bytes.Buffer, l *limiter) {
	out = new(bytes.Buffer)
	l = LimitLog(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))).Handler().(*limiter)
	return func(at time.Time, level slog.Level, subject, msg string) {
		r := slog.NewRecord(at, level, msg, 0)
		r.AddAttrs(slog.String("from", subject))
		if err := l.Handle(WithSubject(t.Context(), subject), r); err != nil {
			t.Fatal(err)
		}
	}, out, l
}

func wantCounts(t *testing.T, text string, want map[string]int) {
	t.Helper()
	for words, n := range want {
		if got := strings.Count(text, words); got != n {
			t.Errorf("%q is logged %d times, want %d:\n%s", words, got, n, text)
		}
	}
}

// A message is logged once a second, and once a minute for each subject.
func TestLinesAreLimited(t *testing.T) {
	log, out, l := logAt(t)
	begun := time.Now()
	for i := range 100 {
		at := begun.Add(time.Duration(i) * 25 * time.Millisecond)
		log(at, slog.LevelWarn, "", "crowd")
		log(at, slog.LevelInfo, "", "peace")
		log(at, slog.LevelDebug, "", "detail")
	}
	wantCounts(t, out.String(), map[string]int{"msg=crowd": 3, "msg=peace": 3, "suppressed=39": 4, "level=WARN": 3, "level=INFO": 3, "msg=detail": 100})
	out.Reset()
	for i := range 101 {
		at := begun.Add(time.Duration(i) * 1200 * time.Millisecond)
		log(at, slog.LevelWarn, "10.0.0.1", "refused")
		log(at, slog.LevelWarn, "10.0.0.2", "refused")
	}
	wantCounts(t, out.String(), map[string]int{"from=10.0.0.1": 3, "from=10.0.0.2": 3, "from=10.0.0.1 suppressed=49": 2, "level=WARN": 6})
	out.Reset()
	for range 3 {
		slog.New(l).With("a", 1).WithGroup("g").WarnContext(t.Context(), "again")
	}
	wantCounts(t, out.String(), map[string]int{"again": 1, "a=1": 1})
}

// Many subjects share one line a second, and old ones are forgotten.
func TestSubjectsAreBounded(t *testing.T) {
	log, out, l := logAt(t)
	begun := time.Now()
	for i := range 1000 {
		log(begun, slog.LevelWarn, fmt.Sprint(i), "refused")
	}
	if n := strings.Count(out.String(), "refused"); n != subjectsMax+1 || len(l.lines) != n {
		t.Errorf("logged %d times, %d remembered, want %d of each", n, len(l.lines), subjectsMax+1)
	}
	log(begun.Add(logEverySubject), slog.LevelWarn, "another", "refused")
	if len(l.lines) != 1 {
		t.Errorf("%d are remembered after their time, want 1", len(l.lines))
	}
}
