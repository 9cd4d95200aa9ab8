package main

import (
	"context"
	"log/slog"
	"log/syslog"
	"strings"
)

// A syslogHandler sends each record to the syslog daemon with the severity of its level. The
// daemon adds time and severity.
type syslogHandler struct {
	level slog.Leveler
	to    [4]slog.Handler // by severity: debug, info, warning, error
}

// openSyslog connects to this machine's daemon.
func openSyslog(k *logFormat) (slog.Handler, error) {
	w, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_INFO, "gearmand")
	if err != nil {
		return nil, err
	}
	return newSyslogHandler(k, w), nil
}

func newSyslogHandler(k *logFormat, w *syslog.Writer) slog.Handler {
	h := &syslogHandler{level: k.level}
	for i, say := range []func(string) error{w.Debug, w.Info, w.Warning, w.Err} {
		h.to[i] = k.handlerOf(lineWriter(say), &slog.HandlerOptions{Level: k.level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
				return slog.Attr{}
			}
			return a
		}})
	}
	return h
}

// A lineWriter is a function that is called for each written line.
type lineWriter func(string) error

// Write implements io.Writer.
func (say lineWriter) Write(p []byte) (int, error) {
	return len(p), say(strings.TrimSuffix(string(p), "\n"))
}

// Enabled implements slog.Handler.
func (h *syslogHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

// Handle implements slog.Handler.
func (h *syslogHandler) Handle(ctx context.Context, r slog.Record) error {
	i := 0
	for i < len(h.to)-1 && r.Level >= []slog.Level{slog.LevelInfo, slog.LevelWarn, slog.LevelError}[i] {
		i++
	}
	return h.to[i].Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *syslogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.each(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h *syslogHandler) WithGroup(name string) slog.Handler {
	return h.each(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *syslogHandler) each(f func(slog.Handler) slog.Handler) slog.Handler {
	n := &syslogHandler{level: h.level}
	for i, to := range h.to {
		n.to[i] = f(to)
	}
	return n
}
