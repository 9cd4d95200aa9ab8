package transport

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"
)

// A restart of a server is information, once for each error. A problem that lasts, or that only an
// operator can fix, is a warning.
func TestLossThatPassesIsNoWarning(t *testing.T) {
	const info, warn = slog.LevelInfo, slog.LevelWarn
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	type step struct {
		err   error
		after time.Duration // since it was lost
		level slog.Level
		tell  bool
	}
	for name, steps := range map[string][]step{
		"started again": {{errClosed, 0, info, true}, {errUnshown, 1, info, true}, {dial, 1, info, true}, {dial, 2, info, false}},
		"joins":         {{&Refused{Reason: errNoMember.Error()}, 0, info, true}},
		"gone for long": {
			{io.EOF, 0, info, true}, {dial, patience / 2, info, true}, {dial, patience, warn, true}, {dial, 2 * patience, warn, false},
			{errClosed, 3 * patience, warn, true},
		},
		"removed":   {{&Refused{Reason: "the server was removed"}, 0, warn, true}, {&Refused{Reason: "the server was removed"}, 1, warn, false}},
		"untrusted": {{&net.OpError{Op: "remote error", Err: errors.New("bad certificate")}, 0, warn, true}},
	} {
		var l loss
		begun := time.Unix(1e9, 0)
		for i, s := range steps {
			if level, tell := l.note(s.err, begun.Add(s.after)); level != s.level || tell != s.tell {
				t.Errorf("%s, %d: %v is logged %t, as %v; want %t, %v", name, i, s.err, tell, level, s.tell, s.level)
			}
		}
	}
}
