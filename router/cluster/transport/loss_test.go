package transport

import (
	"errors"
	"log/slog"
	"testing"
	"time"
)

// A restart of a server is information, once for each error. A problem that lasts is a warning.
func TestLossThatPassesIsNoWarning(t *testing.T) {
	var l loss
	begun, closed, refused := time.Unix(1e9, 0), errors.New("closed"), errors.New("refused")
	for i, s := range []struct {
		err   error
		after time.Duration // since it was lost
		level slog.Level
		tell  bool
	}{
		{closed, 0, slog.LevelInfo, true}, {refused, 1, slog.LevelInfo, true}, {refused, 2, slog.LevelInfo, false},
		{refused, patience, slog.LevelWarn, true}, {refused, 2 * patience, slog.LevelWarn, false}, {closed, 3 * patience, slog.LevelWarn, true},
	} {
		if level, tell := l.note(s.err, begun.Add(s.after)); level != s.level || tell != s.tell {
			t.Errorf("%d: %v is logged %t, as %v; want %t, %v", i, s.err, tell, level, s.tell, s.level)
		}
	}
}
