package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"log/syslog"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// A logger is the log of the program: stderr, a file that can be rotated, syslog, or none. Its level
// and format may change at any time.
type logger struct {
	*slog.Logger
	Level *slog.LevelVar // the lowest level that is logged
	json  atomic.Bool    // else text
	file  *logFile       // nil: none

	ToStderr bool // the log appears where the program was started
}

// openLog opens the log of a valid c. acct is the account that will write it, or nil. The log
// goes to stderr unless c names another place.
func openLog(c *config.Config, acct *account, stderr io.Writer) (*logger, error) {
	l := &logger{Level: new(slog.LevelVar)}
	l.Set(c)
	var handlers []slog.Handler
	if c.Syslog {
		w, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_INFO, "gearmand")
		if err != nil {
			return nil, fault.New(fault.System, "%s: %v: start a syslog daemon, or give --log-file", c.Origin("syslog"), err)
		}
		handlers = append(handlers, l.syslogHandler(w))
	}
	switch {
	case c.LogsToFile():
		var err error
		if l.file, err = openLogFile(c.LogFile, acct); err != nil {
			return nil, fault.New(fault.System, "%s: the log cannot be written (%v): give a file that this user may write, stderr or none", c.Origin("log-file"), err)
		}
		handlers = append(handlers, l.handler(l.file, nil))
	case c.LogFile == "stderr" || c.LogFile == "" && !c.Syslog:
		l.ToStderr = true
		handlers = append(handlers, l.handler(stderr, nil))
	}
	l.Logger = slog.New(slog.NewMultiHandler(handlers...))
	return l, nil
}

// Set sets level and format to the values of a valid c.
func (l *logger) Set(c *config.Config) {
	level, _ := c.Level()
	l.Level.Set(level)
	l.json.Store(c.LogFormat == "json")
}

// handler returns a handler that writes to w in the current format.
func (l *logger) handler(w io.Writer, replace func(groups []string, a slog.Attr) slog.Attr) slog.Handler {
	opts := &slog.HandlerOptions{Level: l.Level, ReplaceAttr: replace}
	isJSON := func(slog.Level) int {
		if l.json.Load() {
			return 1
		}
		return 0
	}
	return &choice{l.Level, isJSON, []slog.Handler{slog.NewTextHandler(w, opts), slog.NewJSONHandler(w, opts)}}
}

// syslogHandler returns a handler that sends each record to the syslog daemon with the severity of
// its level. The daemon adds time and severity.
func (l *logger) syslogHandler(w *syslog.Writer) slog.Handler {
	h := &choice{level: l.Level, pick: func(level slog.Level) int {
		i := 0
		for _, least := range []slog.Level{slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			if level >= least {
				i++
			}
		}
		return i
	}}
	for _, send := range []func(string) error{w.Debug, w.Info, w.Warning, w.Err} {
		h.to = append(h.to, l.handler(lineWriter(send), func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
				return slog.Attr{}
			}
			return a
		}))
	}
	return h
}

// A lineWriter is a function that is called for each written line.
type lineWriter func(string) error

// Write implements io.Writer.
func (send lineWriter) Write(p []byte) (int, error) {
	return len(p), send(strings.TrimSuffix(string(p), "\n"))
}

// A choice passes each record to one of several handlers.
type choice struct {
	level slog.Leveler
	pick  func(slog.Level) int
	to    []slog.Handler
}

// Enabled implements slog.Handler.
func (h *choice) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

// Handle implements slog.Handler.
func (h *choice) Handle(ctx context.Context, r slog.Record) error {
	return h.to[h.pick(r.Level)].Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *choice) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.each(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h *choice) WithGroup(name string) slog.Handler {
	return h.each(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *choice) each(f func(slog.Handler) slog.Handler) slog.Handler {
	n := &choice{level: h.level, pick: h.pick}
	for _, to := range h.to {
		n.to = append(n.to, f(to))
	}
	return n
}

// reopen opens the log file again after SIGHUP, since it may have been moved away.
func (l *logger) reopen() {
	if l.file == nil {
		l.Info("ignored: there is no log file to open again", "signal", "SIGHUP")
		return
	}
	if err := l.file.reopen(); err != nil {
		l.Warn("the log file cannot be opened again; the old one stays in use", "err", err)
		return
	}
	l.Info("the log file was opened again", "signal", "SIGHUP")
}

// A logFile is the file of --log-file. It may be moved away at any time; reopen creates a new
// one. Several goroutines may write.
type logFile struct {
	path string

	mu   sync.Mutex
	file *os.File
}

// openLogFile opens the file for appending. A new file belongs to the account acct, which
// opens it again after a rotation.
func openLogFile(path string, acct *account) (*logFile, error) {
	l := &logFile{path: path}
	f, err := openOwnFile(path, openAppend|os.O_EXCL, logFileMode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return l, l.reopen()
	case err != nil:
		return nil, err
	}
	if acct != nil {
		if err := f.Chown(acct.UID, acct.GID); err != nil && os.Geteuid() == 0 {
			f.Close()
			return nil, err
		}
	}
	l.use(f)
	return l, nil
}

const (
	logFileMode = 0o644
	openAppend  = os.O_WRONLY | os.O_APPEND | os.O_CREATE
)

// reopen opens the file at the path again. On an error the old file stays in use.
func (l *logFile) reopen() error {
	f, err := openOwnFile(l.path, openAppend, logFileMode)
	if err != nil {
		return err
	}
	l.use(f)
	return nil
}

func (l *logFile) use(f *os.File) {
	// The runtime writes a crash to the file too, since a daemon has no stderr. After an
	// error it writes to stderr alone.
	debug.SetCrashOutput(f, debug.CrashOptions{})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
	l.file = f
}

// Write implements io.Writer.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Write(p)
}
