// Package logging opens the log: on stderr, in a file that can be rotated, in syslog.
package main

import (
	"io"
	"log/slog"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// A logger is where the log goes.
type logger struct {
	*slog.Logger
	Level *slog.LevelVar // from which on is logged; it may be set at any time
	file  *logFile       // nil: none
	look  look

	ToStderr bool // what is logged is seen where the program was started
}

// openLog opens the log of a validated c; who is the account that will write it, or
// nil. stderr is written to unless c names another place.
func openLog(c *config.Config, who *account, stderr io.Writer) (*logger, error) {
	k := newLook()
	l := &logger{Level: k.level, look: k}
	l.Set(c)
	var handlers []slog.Handler
	if c.Syslog {
		h, err := openSyslog(&l.look)
		if err != nil {
			return nil, fault.New(fault.System, "%s: %v: start a syslog daemon, or give --log-file", c.Origin("syslog"), err)
		}
		handlers = append(handlers, h)
	}
	switch {
	case c.LogsToFile():
		var err error
		if l.file, err = openLogFile(c.LogFile, who); err != nil {
			return nil, fault.New(fault.System, "%s: the log cannot be written (%v): give a file that this user may write, stderr or none", c.Origin("log-file"), err)
		}
		handlers = append(handlers, l.look.handler(l.file))
	case c.LogFile == "stderr" || c.LogFile == "" && !c.Syslog:
		l.ToStderr = true
		handlers = append(handlers, l.look.handler(stderr))
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

// Set has what is logged from now on follow a valid c, in level and format.
func (l *logger) Set(c *config.Config) {
	level, _ := c.Level()
	l.Level.Set(level)
	l.look.json.Store(c.LogFormat == "json")
}

// Reopen serves SIGHUP: the file may have been moved away.
func (l *logger) Reopen() {
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
