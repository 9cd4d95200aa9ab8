package main

import (
	"log/slog"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/config"
)

// TestLogFormatChanges, also for loggers that were derived before.
func TestLogFormatChanges(t *testing.T) {
	var b strings.Builder
	l, err := openLog(&config.Config{LogLevel: "warn", LogFormat: "text"}, nil, &b)
	must(t, err)
	derived := l.With("a", 1).WithGroup("g")
	for _, tt := range []struct {
		config.Config
		want string
	}{
		{config.Config{LogLevel: "warn", LogFormat: "text"}, ""},
		{config.Config{LogLevel: "warn", LogFormat: "text", Verbose: 1}, "level=INFO msg=m a=1 g.b=2\n"},
		{config.Config{LogLevel: "info", LogFormat: "json"}, `"level":"INFO","msg":"m","a":1,"g":{"b":2}}` + "\n"},
		{config.Config{LogLevel: "error", LogFormat: "json"}, ""},
		{config.Config{LogLevel: "debug", LogFormat: "text"}, "level=INFO msg=m a=1 g.b=2\n"},
	} {
		b.Reset()
		l.Set(&tt.Config)
		derived.Log(t.Context(), slog.LevelInfo, "m", "b", 2)
		if got := b.String(); !strings.HasSuffix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s %s: %q, want %q", tt.LogLevel, tt.LogFormat, got, tt.want)
		}
	}
}
