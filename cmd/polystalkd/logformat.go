package main

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
)

// A look is from which level on is logged, and in which format. Both may change while
// others log.
type look struct {
	level *slog.LevelVar
	json  *atomic.Bool // else text
}

func newLook() look { return look{new(slog.LevelVar), new(atomic.Bool)} }

// handler writes to w.
func (k *look) handler(w io.Writer) slog.Handler {
	return k.handlerOf(w, &slog.HandlerOptions{Level: k.level})
}

func (k *look) handlerOf(w io.Writer, opts *slog.HandlerOptions) slog.Handler {
	return &handler{k.json, slog.NewTextHandler(w, opts), slog.NewJSONHandler(w, opts)}
}

// A handler is one of two, by the format of the moment.
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
