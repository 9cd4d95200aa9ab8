package transport

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// complainEvery bounds what others can make this node log.
const complainEvery = time.Second

// A limitedLog says each thing once a second at most.
type limitedLog struct {
	log *slog.Logger

	mu    sync.Mutex
	quiet map[string]silence // for each message
}

// A silence is until when nothing is said, and how much would have been.
type silence struct {
	until time.Time
	n     int
}

func newLimitedLog(log *slog.Logger) *limitedLog {
	return &limitedLog{log: log, quiet: make(map[string]silence)}
}

// complain warns, with a message of this package's own.
func (l *limitedLog) complain(msg string, args ...any) { l.say(slog.LevelWarn, msg, args) }

// inform is complain for what is as it should be.
func (l *limitedLog) inform(msg string, args ...any) { l.say(slog.LevelInfo, msg, args) }

func (l *limitedLog) say(level slog.Level, msg string, args []any) {
	now := time.Now()
	l.mu.Lock()
	s := l.quiet[msg]
	if now.Before(s.until) {
		l.quiet[msg] = silence{s.until, s.n + 1}
		l.mu.Unlock()
		return
	}
	l.quiet[msg] = silence{until: now.Add(complainEvery)}
	l.mu.Unlock()
	if s.n > 0 {
		args = append(args, "suppressed", s.n)
	}
	l.log.Log(context.Background(), level, msg, args...)
}
