package main

import (
	"log/slog"
	"log/syslog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestSyslogTellsSeverities in the daemon's format: 8 for each facility and one for each severity.
func TestSyslogTellsSeverities(t *testing.T) {
	dir, err := os.MkdirTemp("", "ps") // short enough for a unix socket's path
	must(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
	must(t, err)
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	w, err := syslog.Dial("unixgram", path, syslog.LOG_DAEMON|syslog.LOG_INFO, "gearmand")
	must(t, err)
	defer w.Close()
	for _, format := range []string{"text", "json"} {
		l := &logger{Level: new(slog.LevelVar)}
		l.json.Store(format == "json")
		log := slog.New(l.syslogHandler(w)).With("a", 1).WithGroup("g")
		log.Debug("unheard")
		for _, tt := range []struct {
			level    slog.Level
			severity string
		}{{slog.LevelInfo, "<30>"}, {slog.LevelWarn, "<28>"}, {slog.LevelError, "<27>"}} {
			log.Log(t.Context(), tt.level, "hello", "b", 2)
			buf := make([]byte, 1000)
			n, err := conn.Read(buf)
			must(t, err)
			got := strings.TrimSuffix(string(buf[:n]), "\n")
			want := "msg=hello a=1 g.b=2"
			if format == "json" {
				want = `{"msg":"hello","a":1,"g":{"b":2}}`
			}
			if !strings.HasPrefix(got, tt.severity) || !strings.HasSuffix(got, ": "+want) || !strings.Contains(got, "gearmand[") {
				t.Errorf("%v: %q, want %s…: %s", tt.level, got, tt.severity, want)
			}
		}
	}
}
