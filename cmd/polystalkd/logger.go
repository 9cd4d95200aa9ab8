package main

import (
	"io"
	"log/slog"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// A logger is the log of the program: stderr, a file that can be rotated, syslog, or none.
type logger struct {
	*slog.Logger
	Level  *slog.LevelVar // the lowest level that is logged; it may be set at any time
	file   *logFile       // nil: none
	format logFormat

	ToStderr bool // the log appears where the program was started
}

// openLog opens the log of a valid c. acct is the account that will write it, or nil. The log
// goes to stderr unless c names another place.
func openLog(c *config.Config, acct *account, stderr io.Writer) (*logger, error) {
	k := newLogFormat()
	l := &logger{Level: k.level, format: k}
	l.Set(c)
	var handlers []slog.Handler
	if c.Syslog {
		h, err := openSyslog(&l.format)
		if err != nil {
			return nil, fault.New(fault.System, "%s: %v: start a syslog daemon, or give --log-file", c.Origin("syslog"), err)
		}
		handlers = append(handlers, h)
	}
	switch {
	case c.LogsToFile():
		var err error
		if l.file, err = openLogFile(c.LogFile, acct); err != nil {
			return nil, fault.New(fault.System, "%s: the log cannot be written (%v): give a file that this user may write, stderr or none", c.Origin("log-file"), err)
		}
		handlers = append(handlers, l.format.handler(l.file))
	case c.LogFile == "stderr" || c.LogFile == "" && !c.Syslog:
		l.ToStderr = true
		handlers = append(handlers, l.format.handler(stderr))
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

// Set sets level and format to the values of a valid c.
func (l *logger) Set(c *config.Config) {
	level, _ := c.Level()
	l.Level.Set(level)
	l.format.json.Store(c.LogFormat == "json")
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
