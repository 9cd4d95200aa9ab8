package transport

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

const (
	logEvery        = time.Second // between two lines of one message
	logEverySubject = time.Minute // between two lines of one message about one subject
	subjectsMax     = 64          // subjects that are remembered
)

// LimitLog returns a logger that writes each message at most once a second, and once a minute for
// each subject (see WithSubject), so that other servers and clients cannot flood the log. The
// attribute "suppressed" of a line counts the lines dropped before it. Debug lines are not limited.
func LimitLog(log *slog.Logger) *slog.Logger {
	return slog.New(&limiter{log.Handler(), &limiterState{lines: map[lineKey]silence{}}})
}

type subjectKey struct{}

// WithSubject names the subject of the lines that are logged with the context.
func WithSubject(ctx context.Context, subject string) context.Context {
	return context.WithValue(ctx, subjectKey{}, subject)
}

// A limiter is the handler of LimitLog.
type limiter struct {
	slog.Handler
	*limiterState
}

type limiterState struct {
	mu    sync.Mutex
	lines map[lineKey]silence // of subjects at most subjectsMax, and one of each message
}

type lineKey struct{ message, subject string }

// A silence is the time before which lines are dropped, and the number of dropped lines.
type silence struct {
	until time.Time
	n     int
}

// Handle implements slog.Handler.
func (l *limiter) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		subject, _ := ctx.Value(subjectKey{}).(string)
		n, ok := l.allow(lineKey{r.Message, subject}, r.Time)
		if !ok {
			return nil
		}
		if n > 0 {
			r.AddAttrs(slog.Int("suppressed", n))
		}
	}
	return l.Handler.Handle(ctx, r)
}

// allow reports whether a line may be written now, and how many were dropped before it. A subject
// beyond subjectsMax counts as none.
func (l *limiterState) allow(key lineKey, now time.Time) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	every := logEvery
	if key.subject != "" {
		if len(l.lines) >= subjectsMax {
			maps.DeleteFunc(l.lines, func(k lineKey, s silence) bool { return k != key && !now.Before(s.until) })
		}
		if _, known := l.lines[key]; known || len(l.lines) < subjectsMax {
			every = logEverySubject
		} else {
			key.subject = ""
		}
	}
	s := l.lines[key]
	if now.Before(s.until) {
		l.lines[key] = silence{s.until, s.n + 1}
		return 0, false
	}
	l.lines[key] = silence{until: now.Add(every)}
	return s.n, true
}

// WithAttrs implements slog.Handler.
func (l *limiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limiter{l.Handler.WithAttrs(attrs), l.limiterState}
}

// WithGroup implements slog.Handler.
func (l *limiter) WithGroup(name string) slog.Handler {
	return &limiter{l.Handler.WithGroup(name), l.limiterState}
}
