// Polystalkd is a job server that speaks the beanstalkd protocol on every core.
// It takes beanstalkd's flags with their meaning and exit codes; polystalkd -h
// lists them, config.go holds their defaults and limits.
//
// The program is thin: it reads its configuration, opens the sockets, drops
// privileges, and then hands the listeners to package router and the signals
// to its Drain and Shutdown.
//
//	parseConfig → Validate → listenAll → become → router → READY=1 … signal → STOPPING=1 → Shutdown
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	// daemon speaks sd_notify(3).
	"github.com/coreos/go-systemd/v22/daemon"

	"polystalk/router"
)

// shutdownWait bounds the work in flight after SIGTERM; with it the process
// ends within a second of the signal.
const shutdownWait = 800 * time.Millisecond

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	c, err := parseConfig(args, os.LookupEnv)
	switch {
	case errors.Is(err, errHelp):
		writeHelp(stdout)
		return exitOK
	case errors.Is(err, errVersion):
		fmt.Fprintln(stdout, versionLine())
		return exitOK
	}
	if err == nil {
		err = c.Validate()
	}
	if err == nil {
		err = serve(c, newLogger(c, stderr))
	}
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "polystalkd: %v\n", err)
	if f, ok := errors.AsType[*fault](err); ok {
		return f.code
	}
	if _, ok := errors.AsType[*router.JournalError](err); ok {
		return exitBinlog
	}
	return exitSystem
}

// newLogger needs a validated c.
func newLogger(c *Config, w io.Writer) *slog.Logger {
	level, _ := c.logLevel()
	opts := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// serve runs the server until a signal ends it (nil) or something fails.
func serve(c *Config, log *slog.Logger) error {
	signals := catchSignals()
	for _, w := range c.warnings {
		log.Warn(w)
	}
	rc := router.Config{
		Loops:          c.Loops,
		Shards:         c.Shards,
		MaxJobSize:     c.MaxJobSize,
		MaxConnections: c.MaxConnections,
		BinlogMaxSize:  c.BinlogSize,
		Version:        statsVersion(),
		Gearman:        c.Gearman.router(),
		Log:            log,
	}
	if err := rc.Validate(); err != nil {
		return faultf(exitUsage, "%v: see polystalkd -h", err)
	}
	who, err := findAccount(c)
	if err != nil {
		return err
	}
	socks, err := listenAll(c, who.owners(), log)
	if err != nil {
		return err
	}
	defer socks.close(log)
	gears, err := listenGearman(c)
	if err != nil {
		return err
	}
	defer closeAll(gears)
	profiles, err := listenPprof(c)
	if err != nil {
		return err
	}
	if who != nil {
		if err := who.become(c); err != nil {
			return err
		}
	}

	// One more than the loops: a saturated loop would otherwise keep the other
	// goroutines (shards, this one) waiting for up to 10 ms. Whoever sets
	// GOMAXPROCS by hand is obeyed.
	if os.Getenv("GOMAXPROCS") == "" {
		procs := c.Loops + 1
		if c.BinlogDir != "" {
			// The committer keeps one while it waits for the disk. With none idle the
			// runtime looks every 20 µs whether to take it away: a sixth of all CPU.
			procs++
		}
		runtime.GOMAXPROCS(procs)
	}
	keep, err := openKeep(c, log)
	if err != nil {
		return err
	}
	defer keep.close()
	rc.Journal = keep.cfg
	srv, err := router.New(rc)
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	if ended, err := start(srv, signals, log); err != nil {
		return explainKeep(c, err)
	} else if ended {
		return nil
	}
	defer startPprof(profiles, srv, log).close()
	ended := make(chan error, len(socks.listeners)+len(gears))
	for _, l := range socks.listeners {
		go func(l net.Listener) { ended <- srv.Serve(l) }(l)
	}
	for _, l := range gears {
		go func(l net.Listener) {
			if err := srv.ServeGearman(l); err != nil {
				ended <- err
			}
		}(l)
	}
	if len(gears) > 0 {
		log.Info("serving Gearman", "listen", (&sockets{listeners: gears}).names())
	}
	log.Info("serving", "listen", socks.names(), "loops", c.Loops, "shards", c.Shards,
		"version", release, "speaks", "beanstalkd "+spoken, "pid", os.Getpid())
	notify(daemon.SdNotifyReady, log)

	failure := wait(srv, signals, ended, log)
	if _, ok := errors.AsType[*router.JournalError](failure); ok {
		// Whatever waits for the journal must not be answered any more.
		return failure
	}

	notify(daemon.SdNotifyStopping, log)
	socks.removeFiles(log)
	ctx, cancel := context.WithTimeout(context.Background(), shutdownWait)
	defer cancel()
	err = srv.Shutdown(ctx)
	select {
	case e := <-srv.Failed():
		err = &router.JournalError{Err: e}
	default:
	}
	if _, ok := errors.AsType[*router.JournalError](err); ok {
		return journalFailed(err)
	}
	if err != nil {
		log.Warn("shut down before everything in flight was finished", "err", err)
	}
	return failure
}

// start starts the server, which may read a long journal; ended reports that a
// signal came first. Nothing has been served then.
func start(srv *router.Server, signals <-chan os.Signal, log *slog.Logger) (ended bool, err error) {
	started := make(chan error, 1)
	go func() { started <- srv.Start() }()
	for {
		select {
		case err := <-started:
			return false, err
		case sig := <-signals:
			switch sig {
			case syscall.SIGUSR1:
				srv.Drain()
			case syscall.SIGHUP:
			default:
				log.Info("ending before the start was complete", "signal", sig.String())
				return true, nil
			}
		}
	}
}

// journalFailed: what was acknowledged is safe, as far as -f and -F go, but
// nothing more can be.
func journalFailed(err error) error {
	return fmt.Errorf("the journal has failed, and what was not acknowledged may be lost: %w", &router.JournalError{Err: err})
}

// catchSignals is called before the sockets are open, so that from the first
// connection on no signal meets its default action. SIGPIPE is ignored: a
// client that has gone shows in the write's error.
func catchSignals() <-chan os.Signal {
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGHUP)
	return signals
}

// wait handles signals until one asks for the end (nil) or a listener fails.
func wait(srv *router.Server, signals <-chan os.Signal, ended <-chan error, log *slog.Logger) error {
	for {
		select {
		case err := <-srv.Failed():
			return journalFailed(err)
		case <-srv.ShutdownWanted():
			log.Info("shutting down", "asked by", "a Gearman administrator")
			return nil
		case err := <-ended:
			if err == nil {
				err = errors.New("its listener was closed")
			}
			return fmt.Errorf("serving: %w", err)
		case sig := <-signals:
			switch sig {
			case syscall.SIGUSR1:
				srv.Drain()
				log.Info("draining: no new jobs are accepted", "signal", "SIGUSR1")
			case syscall.SIGHUP:
				// There is no file to read again, and a job server must not lose its
				// jobs to a log rotation script or a closed terminal.
				log.Info("ignored: there is nothing to reload", "signal", "SIGHUP")
			default:
				log.Info("shutting down", "signal", sig.String())
				return nil
			}
		}
	}
}

// notify tells the service manager, if there is one, about our state.
func notify(state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("the service manager could not be notified", "state", state, "err", err)
	}
}
