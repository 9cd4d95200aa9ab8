package main

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
)

// A logFormat is the level and the format of the log. Both may change at any time.
type logFormat struct {
	level *slog.LevelVar
	json  *atomic.Bool // else text
}

func newLogFormat() logFormat { return logFormat{new(slog.LevelVar), new(atomic.Bool)} }

// handler returns a handler that writes to w.
func (k *logFormat) handler(w io.Writer) slog.Handler {
	return k.handlerOf(w, &slog.HandlerOptions{Level: k.level})
}

func (k *logFormat) handlerOf(w io.Writer, opts *slog.HandlerOptions) slog.Handler {
	return &handler{k.json, slog.NewTextHandler(w, opts), slog.NewJSONHandler(w, opts)}
}

// A handler passes each record to one of two handlers, by the current format.
type handler struct {
	isJSON     *atomic.Bool
	text, json slog.Handler
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.text.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if h.isJSON.Load() {
		return h.json.Handle(ctx, r)
	}
	return h.text.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.isJSON, h.text.WithAttrs(attrs), h.json.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.isJSON, h.text.WithGroup(name), h.json.WithGroup(name)}
}
