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

// catchSignals replaces the default action of signals. It must be called before the sockets are
// open. SIGPIPE is ignored: a failed write shows that a client has gone.
func catchSignals() <-chan os.Signal {
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGHUP)
	return signals
}

// start calls begin, which starts the server and may read a long journal. ended reports that a
// signal ended the start before the server served. early has the other signals, which the caller
// must handle.
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

// A watch waits for the end of a running server and handles its signals.
type watch struct {
	c   *config.Config
	srv *router.Server
	ops *operators
	log *logger

	reloads *reloader
	exit    func(error) // ends the process with the exit code for an error

	asked string // the signal that asks to end when no job is left; empty: none
}

// wait handles signals until one ends the server (nil), or a listener or the journal fails.
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

// handle handles one signal, and reports whether the server ends.
func (w *watch) handle(sig os.Signal) (end bool) {
	switch {
	case sig == syscall.SIGUSR1 && w.c.Gearmand:
		w.srv.Retire()
		w.asked = "SIGUSR1"
		w.log.Info("no new connections are accepted; the server ends when no job is left", "signal", "SIGUSR1")
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

// hangUp handles SIGHUP: it opens the log file again, and reads configuration files and tokens
// again. It always notifies the service manager, since some use SIGHUP for a reload and wait for
// its end.
func (w *watch) hangUp() {
	notify(daemon.SdNotifyReloading+"\n"+daemon.SdNotifyMonotonicUsec(), w.log.Logger)
	defer notify(daemon.SdNotifyReady, w.log.Logger)
	if w.c.Gearmand {
		w.log.reopen()
	}
	switch {
	case w.c.File != "":
		w.reloads.reload() // reads tokens and certificates too, and logs errors
	case w.ops.hasFiles():
		w.ops.reload()
	case !w.c.Gearmand:
		// No file is configured. A log rotation script or a closed terminal must not end the
		// server.
		w.log.Info("ignored: there is nothing to reload", "signal", "SIGHUP")
	}
}
