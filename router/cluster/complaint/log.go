// Package complaint limits what others can make a node log.
package complaint

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// every is how often each thing is said at most.
const every = time.Second

// A Log says each thing once a second at most, and how often it was silent in between. Its
// methods may be called by anyone; a message is one of the program's own, of which there are
// few, so that what differs goes into the arguments.
type Log struct {
	log *slog.Logger

	mu    sync.Mutex
	quiet map[string]silence // for each message
}

// A silence is until when nothing is said, and how much would have been.
type silence struct {
	until time.Time
	n     int
}

// New makes one that says things to log.
func New(log *slog.Logger) *Log { return &Log{log: log, quiet: make(map[string]silence)} }

// Warn says what is not as it should be.
func (l *Log) Warn(msg string, args ...any) { l.say(time.Now(), slog.LevelWarn, msg, args) }

// Info says what is.
func (l *Log) Info(msg string, args ...any) { l.say(time.Now(), slog.LevelInfo, msg, args) }

func (l *Log) say(now time.Time, level slog.Level, msg string, args []any) {
	l.mu.Lock()
	s := l.quiet[msg]
	if now.Before(s.until) {
		l.quiet[msg] = silence{s.until, s.n + 1}
		l.mu.Unlock()
		return
	}
	l.quiet[msg] = silence{until: now.Add(every)}
	l.mu.Unlock()
	if s.n > 0 {
		args = append(args, "suppressed", s.n)
	}
	l.log.Log(context.Background(), level, msg, args...)
}
