package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
)

// logsToFile reports whether --log-file names a file.
func (c *Config) logsToFile() bool {
	return c.LogFile != "" && c.LogFile != "stderr" && c.LogFile != "none"
}

// A logFile is the file of --log-file. It can be moved away at any time: reopen
// makes a new one. Several goroutines may write.
type logFile struct {
	path string

	mu   sync.Mutex
	file *os.File
}

// openLogFile opens the file for appending, and makes it as who's: after a rotation
// that account opens it.
func openLogFile(path string, who *account) (*logFile, error) {
	l := &logFile{path: path}
	f, err := openOwn(path, openAppend|os.O_EXCL, logFileMode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return l, l.reopen()
	case err != nil:
		return nil, err
	}
	if who != nil {
		if err := f.Chown(who.uid, who.gid); err != nil && os.Geteuid() == 0 {
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

// reopen opens whatever has the path now. On an error the old file stays in use.
func (l *logFile) reopen() error {
	f, err := openOwn(l.path, openAppend, logFileMode)
	if err != nil {
		return err
	}
	l.use(f)
	return nil
}

func (l *logFile) use(f *os.File) {
	// What the runtime has to say about a crash would be lost with a daemon's stderr.
	// An error leaves it on stderr alone.
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

// A logger is where the log goes.
type logger struct {
	*slog.Logger
	file *logFile // nil: none

	toStderr bool
}

// openLog opens the log of a validated c; who is the account that will write it, or
// nil. stderr is written to unless c names another place.
func openLog(c *Config, who *account, stderr io.Writer) (*logger, error) {
	level, _ := c.logLevel()
	l := &logger{}
	var handlers []slog.Handler
	if c.Syslog {
		h, err := openSyslog(c, level)
		if err != nil {
			return nil, faultf(exitSystem, "%s: %v: start a syslog daemon, or give --log-file", c.origin("syslog"), err)
		}
		handlers = append(handlers, h)
	}
	switch {
	case c.logsToFile():
		var err error
		if l.file, err = openLogFile(c.LogFile, who); err != nil {
			return nil, faultf(exitSystem, "%s: the log cannot be written (%v): give a file that this user may write, stderr or none", c.origin("log-file"), err)
		}
		handlers = append(handlers, newHandler(c, l.file, level))
	case c.LogFile == "stderr" || c.LogFile == "" && !c.Syslog:
		l.toStderr = true
		handlers = append(handlers, newHandler(c, stderr, level))
	}
	switch len(handlers) {
	case 0:
		l.Logger = slog.New(slog.DiscardHandler)
	case 1:
		l.Logger = slog.New(handlers[0])
	default:
		l.Logger = slog.New(slog.NewMultiHandler(handlers...))
	}
	return l, nil
}

func newHandler(c *Config, w io.Writer, level slog.Level) slog.Handler {
	opts := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.NewJSONHandler(w, opts)
	}
	return slog.NewTextHandler(w, opts)
}

// reopen serves SIGHUP: the file may have been moved away.
func (l *logger) reopen() {
	if l.file == nil {
		l.Info("ignored: there is no log file to open again", "signal", "SIGHUP")
		return
	}
	if err := l.file.reopen(); err != nil {
		l.Warn("the log file cannot be opened again; the old one is written on", "err", err)
		return
	}
	l.Info("the log file was opened again", "signal", "SIGHUP")
}

// A pidFile holds the process's id while it serves.
type pidFile struct {
	path string
	file *os.File // to be written, nil: it is
}

// openPidFile makes the file, for who wants to send signals; an empty path means
// nowhere. One that is there already is left as it is until write: the start may yet
// fail because of the other server whose it is.
func openPidFile(c *Config) (*pidFile, error) {
	if c.PidFile == "" {
		return nil, nil
	}
	f, err := openOwn(c.PidFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, pidFileMode)
	if err == nil {
		p := &pidFile{c.PidFile, f}
		return p, p.write(c)
	}
	if errors.Is(err, fs.ErrExist) {
		f, err = openOwn(c.PidFile, os.O_WRONLY|os.O_CREATE, pidFileMode)
	}
	if err != nil {
		return nil, pidFault(c, err)
	}
	return &pidFile{c.PidFile, f}, nil
}

const pidFileMode = 0o644

func pidFault(c *Config, err error) *fault {
	return faultf(exitSystem, "%s: the process id cannot be written (%v): give a file that this user may write", c.origin("pid-file"), err)
}

// write writes the id in place of what is there, once. It needs no rights any more.
func (p *pidFile) write(c *Config) error {
	if p == nil || p.file == nil {
		return nil
	}
	f := p.file
	p.file = nil
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.Write(pidLine())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return pidFault(c, err)
	}
	return nil
}

func pidLine() []byte { return fmt.Appendf(nil, "%d\n", os.Getpid()) }

// remove removes the file unless it is another server's: it was not written, or
// another has written it since.
func (p *pidFile) remove(log *slog.Logger) {
	if p == nil {
		return
	}
	if p.file != nil {
		p.file.Close()
		return
	}
	text, err := readOwn(p.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(text) != string(pidLine()) {
		return
	}
	if err == nil {
		err = os.Remove(p.path)
	}
	if err != nil {
		log.Warn("pid file left behind", "path", p.path, "err", err)
	}
}
