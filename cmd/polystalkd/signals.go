package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

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

// wait handles signals until the server must end, and returns the cause: nil for a signal or an
// administrator, a *commit.Failure, an error of a listener from failed, or an error from ended.
func (w *watch) wait(early []os.Signal, signals <-chan os.Signal, failed, ended <-chan error) error {
	for _, sig := range early {
		w.handle(sig)
	}
	for {
		select {
		case err := <-ended:
			return err
		case f := <-w.srv.Failed():
			return f
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

// hangUp handles SIGHUP: it opens the log file again, and reads configuration files and the
// access file again. It always notifies the service manager, since some use SIGHUP for a reload and wait for
// its end.
func (w *watch) hangUp() {
	notify(daemon.SdNotifyReloading+"\n"+daemon.SdNotifyMonotonicUsec(), w.log.Logger)
	defer notify(daemon.SdNotifyReady, w.log.Logger)
	if w.c.Gearmand {
		w.log.reopen()
	}
	switch {
	case w.c.File != "" || w.c.AccessFile != "" || w.c.TLS.Cert != "" || w.ops.hasFiles():
		w.reloads.reload() // logs errors
	case !w.c.Gearmand:
		// No file is configured. A log rotation script or a closed terminal must not end the
		// server.
		w.log.Info("ignored: there is nothing to reload", "signal", "SIGHUP")
	}
}

// notify tells the service manager the server's state, if there is a service manager.
func notify(state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("the service manager could not be notified", "state", state, "err", err)
	}
}

// startWatchdog notifies the service manager's watchdog twice in each interval (WATCHDOG_USEC),
// as long as alive returns nil. Without a notification the service manager restarts the process.
// Without an interval startWatchdog does nothing. stop waits until the notifications have ended.
func startWatchdog(alive func() error, log *slog.Logger) (stop func()) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the service manager's watchdog is not served", "err", err)
	}
	if err != nil || interval <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { feedWatchdog(ctx, interval/2, alive, log) })
	return func() {
		cancel()
		done.Wait()
	}
}

// feedWatchdog notifies the watchdog until ctx ends.
func feedWatchdog(ctx context.Context, every time.Duration, alive func() error, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := alive()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			notify(daemon.SdNotifyWatchdog, log)
		default:
			log.Error("the server makes no progress, so the service manager's watchdog is not notified", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
