// Package complaint limits what others can make a node log.
package complaint

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

const (
	// every is how often each thing is said at most.
	every = time.Second
	// everyOf is how often it is of one and the same.
	everyOf = time.Minute
	// ofMax bounds of how many that is known at a time.
	ofMax = 64
)

// A Log says each thing once a second at most, and how often it was silent in between; where it
// knows of whom a thing is, once a minute of each. Its methods may be called by anyone; a message
// is one of the program's own, of which there are few, so that what differs goes into the arguments.
type Log struct {
	log *slog.Logger

	mu    sync.Mutex
	quiet map[string]silence // for each message
	of    map[about]silence  // ofMax at most
}

// An about is a message, and of whom it is.
type about struct{ subject, msg string }

// A silence is until when nothing is said, and how much would have been.
type silence struct {
	until time.Time
	n     int
}

// New makes one that says things to log.
func New(log *slog.Logger) *Log {
	return &Log{log: log, quiet: make(map[string]silence), of: make(map[about]silence)}
}

// Warn says what is not as it should be.
func (l *Log) Warn(msg string, args ...any) { l.say(time.Now(), slog.LevelWarn, msg, args) }

// WarnOf says what is not as it should be with one of many, whom subject tells from the others: at
// once, and then once a minute at most. Of more than can be remembered it is said as by Warn.
func (l *Log) WarnOf(subject, msg string, args ...any) { l.sayOf(time.Now(), subject, msg, args) }

// Info says what is.
func (l *Log) Info(msg string, args ...any) { l.say(time.Now(), slog.LevelInfo, msg, args) }

func (l *Log) say(now time.Time, level slog.Level, msg string, args []any) {
	l.mu.Lock()
	n, isSilent := hush(l.quiet, msg, now, every)
	l.mu.Unlock()
	if !isSilent {
		l.put(level, msg, args, n)
	}
}

func (l *Log) sayOf(now time.Time, subject, msg string, args []any) {
	key := about{subject, msg}
	l.mu.Lock()
	if _, known := l.of[key]; !known && len(l.of) >= ofMax {
		maps.DeleteFunc(l.of, func(_ about, s silence) bool { return !now.Before(s.until) })
		if len(l.of) >= ofMax {
			l.mu.Unlock()
			l.say(now, slog.LevelWarn, msg, args)
			return
		}
	}
	n, isSilent := hush(l.of, key, now, everyOf)
	l.mu.Unlock()
	if !isSilent {
		l.put(slog.LevelWarn, msg, args, n)
	}
}

// hush reports whether nothing is to be said of key now; else how often nothing was, and begins
// the next silence.
func hush[K comparable](quiet map[K]silence, key K, now time.Time, wait time.Duration) (n int, isSilent bool) {
	s := quiet[key]
	if now.Before(s.until) {
		quiet[key] = silence{s.until, s.n + 1}
		return 0, true
	}
	quiet[key] = silence{until: now.Add(wait)}
	return s.n, false
}

func (l *Log) put(level slog.Level, msg string, args []any, suppressed int) {
	if suppressed > 0 {
		args = append(args, "suppressed", suppressed)
	}
	l.log.Log(context.Background(), level, msg, args...)
}
