package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	// daemon speaks sd_notify(3).
	"github.com/coreos/go-systemd/v22/daemon"

	"polystalk/cmd/polystalkd/config"
	"polystalk/router"
)

// catchSignals is called before the sockets are open, so that from the first
// connection on no signal meets its default action. SIGPIPE is ignored: a
// client that has gone shows in the write's error.
func catchSignals() <-chan os.Signal {
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGHUP)
	return signals
}

// start has begin start the server, which may read a long journal; ended reports that a
// signal came first. Nothing has been served then. What other signals ask for is
// left to be done: early.
func start(begin func() error, signals <-chan os.Signal, log *slog.Logger) (early []os.Signal, ended bool, err error) {
	started := make(chan error, 1)
	go func() { started <- begin() }()
	for {
		select {
		case err := <-started:
			return early, false, err
		case sig := <-signals:
			if sig != syscall.SIGUSR1 && sig != syscall.SIGHUP {
				log.Info("ending before the start was complete", "signal", sig.String())
				return nil, true, nil
			}
			early = append(early, sig)
		}
	}
}

// A watch looks after a server that serves.
type watch struct {
	c   *config.Config
	srv *router.Server
	ops *operators
	log *logger

	reloads *reloader
	exit    func(error) // ends the process with the code of an error

	asked string // to end once no job is left; empty: not by a signal
}

// wait handles signals until one asks for the end (nil), or a listener or the journal
// fails.
func (w *watch) wait(early []os.Signal, signals <-chan os.Signal, failed <-chan error) error {
	for _, sig := range early {
		w.handle(sig)
	}
	for {
		select {
		case err := <-w.srv.Failed():
			return journalFailed(err)
		case <-w.srv.ShutdownWanted():
			w.log.Info("shutting down", "asked by", cmp.Or(w.asked, "a Gearman administrator"))
			return nil
		case err := <-failed:
			return fmt.Errorf("serving: %w", err)
		case sig := <-signals:
			if w.handle(sig) {
				return nil
			}
		}
	}
}

// handle does what a signal asks for, and reports whether that is the end.
func (w *watch) handle(sig os.Signal) (end bool) {
	switch {
	case sig == syscall.SIGUSR1 && w.c.Gearmand:
		w.srv.Retire()
		w.asked = "SIGUSR1"
		w.log.Info("no new connections are accepted; it ends when no job is left", "signal", "SIGUSR1")
	case sig == syscall.SIGUSR1:
		w.srv.Drain()
		w.log.Info("draining: no new jobs are accepted", "signal", "SIGUSR1")
	case sig == syscall.SIGHUP:
		w.hangUp()
	default:
		w.log.Info("shutting down", "signal", sig.String())
		return true
	}
	return false
}

// hangUp serves SIGHUP: what there is of a log file, configuration files and tokens is
// opened and read again. The service manager is told of it either way, since some send the signal
// for a reload and wait for its end.
func (w *watch) hangUp() {
	notify(daemon.SdNotifyReloading+"\n"+daemon.SdNotifyMonotonicUsec(), w.log.Logger)
	defer notify(daemon.SdNotifyReady, w.log.Logger)
	if w.c.Gearmand {
		w.log.Reopen()
	}
	switch {
	case w.c.File != "":
		w.reloads.reload() // those of operators as well; it has told of errors
	case w.ops.hasFiles():
		w.ops.reload()
	case !w.c.Gearmand:
		// There is no file to read again, and a job server must not lose its
		// jobs to a log rotation script or a closed terminal.
		w.log.Info("ignored: there is nothing to reload", "signal", "SIGHUP")
	}
}
