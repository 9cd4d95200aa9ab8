// Polystalkd is a job server that speaks the beanstalkd and the Gearman protocol on
// every core. It takes beanstalkd's flags with their meaning and exit codes;
// polystalkd -h lists them, config.go holds their defaults and limits.
//
// As polystalkd gearmand, or under the name gearmand, it takes gearmand's flags,
// exit code and signals instead (gearmand.go, gearmandflags.go). Both command lines
// fill the same Config; from there on there is one server.
//
// The program is thin: it reads its configuration, opens the sockets, drops
// privileges, and then hands the listeners to package router and the signals
// to its Drain, Retire and Shutdown.
//
//	parseConfig   ┐
//	parseGearmand ┴→ Validate → (detach) → listenAll → become → router → READY=1 … signal → STOPPING=1 → Shutdown
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"time"

	// daemon speaks sd_notify(3).
	"github.com/coreos/go-systemd/v22/daemon"

	"polystalk/router"
)

// shutdownWait bounds the work in flight after SIGTERM; with it the process
// ends within a second of the signal.
const shutdownWait = 800 * time.Millisecond

func main() {
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

// run is the program; it returns the exit code. args begin with the program's name.
func run(args []string, stdout, stderr io.Writer) int {
	p, args := programOf(args)
	c, err := p.parse(args, os.LookupEnv)
	switch {
	case errors.Is(err, errHelp):
		p.writeHelp(stdout)
		return exitOK
	case errors.Is(err, errVersion):
		fmt.Fprintln(stdout, p.version())
		return exitOK
	}
	if err == nil {
		c.warnOfVariables(os.Environ())
		err = c.Validate()
	}
	code := exitOK
	if err == nil && c.CheckArgs {
		err = c.check(stderr, p.name)
	} else if err == nil {
		var waiting *parent
		if c.Daemon {
			waiting = takeParent()
		}
		if c.Daemon && waiting == nil {
			code, err = detach(c)
		} else {
			err = serve(c, waiting, stderr)
		}
	}
	if err == nil {
		return code
	}
	fmt.Fprintf(stderr, "%s: %v\n", p.name, err)
	return p.exitCode(err)
}

// serve runs the server until a signal ends it (nil) or something fails. waiting is
// let go once it serves.
func serve(c *Config, waiting *parent, stderr io.Writer) (err error) {
	signals := catchSignals()
	if err := c.setDescriptors(); err != nil {
		return err
	}
	who, err := findAccount(c)
	if err != nil {
		return err
	}
	log, err := openLog(c, who, stderr)
	if err != nil {
		return err
	}
	defer func() {
		// Whoever reads the log elsewhere does not see stderr.
		if err != nil && !log.toStderr {
			log.Error("the server has failed", "err", err)
		}
	}()
	for _, w := range c.warnings {
		log.Warn(w)
	}
	socks, err := listenAll(c, who.owners(), log.Logger)
	if err != nil {
		return err
	}
	defer socks.close(log.Logger)
	pid, err := openPidFile(c)
	if err != nil {
		return err
	}
	defer pid.remove(log.Logger)
	profiles, err := listenPprof(c)
	if err != nil {
		return err
	}
	if who != nil {
		if err := who.become(c); err != nil {
			return err
		}
	}

	setProcs(c)
	keep, err := openKeep(c, log.Logger)
	if err != nil {
		return err
	}
	rc := c.router()
	rc.Journal, rc.Log = keep.cfg, log.Logger
	srv, err := router.New(rc)
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	early, ended, err := start(srv, signals, log.Logger)
	if err != nil {
		return explainKeep(c, err)
	} else if ended {
		return nil
	}
	if err := pid.write(c); err != nil {
		return err
	}
	defer startPprof(profiles, srv, log.Logger).close()
	failed := serveAll(srv, socks)
	announce(c, srv, socks, log.Logger)
	notify(daemon.SdNotifyReady, log.Logger)
	if waiting != nil && log.toStderr {
		log.Warn("the log ends here, a daemon has no stderr: give --log-file or --syslog")
	}
	if err := waiting.release(); err != nil {
		return faultf(exitSystem, "%s: %v", c.origin("daemon"), err)
	}

	failure := (&watch{c: c, srv: srv, log: log}).wait(early, signals, failed)
	if _, ok := errors.AsType[*router.JournalError](failure); ok {
		// Whatever waits for the journal must not be answered any more.
		return failure
	}

	notify(daemon.SdNotifyStopping, log.Logger)
	socks.removeFiles(log.Logger)
	ctx, cancel := context.WithTimeout(context.Background(), shutdownWait)
	defer cancel()
	err = srv.Shutdown(ctx)
	keep.close()
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

// serveAll serves each listener until it fails, which is delivered, or is closed by
// the server.
func serveAll(srv *router.Server, socks *sockets) (failed <-chan error) {
	errs := make(chan error, len(socks.beanstalkd)+len(socks.gearman))
	start := func(ls []net.Listener, serve func(net.Listener) error) {
		for _, l := range ls {
			go func() {
				if err := serve(l); err != nil {
					errs <- err
				}
			}()
		}
	}
	start(socks.beanstalkd, srv.Serve)
	start(socks.gearman, srv.ServeGearman)
	return errs
}

// setProcs gives as many processors as loops, which let the other goroutines (shards,
// this one) have theirs now and then; see router's yieldEvery. With one more, that is
// idle, each loop that has nothing to do for a moment has the runtime wake a thread to
// look for work: a fifth of the CPU of a nearly idle server, and a sixth of that of a
// connection that puts one job. Whoever sets GOMAXPROCS by hand is obeyed.
func setProcs(c *Config) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	procs := c.Loops
	if c.BinlogDir != "" {
		// The committer keeps one while it waits for the disk. With none idle the
		// runtime looks every 20 µs whether to take it away: a sixth of all CPU.
		procs += 2
	}
	runtime.GOMAXPROCS(procs)
}

// journalFailed: what was acknowledged is safe, as far as -f and -F go, but
// nothing more can be.
func journalFailed(err error) error {
	return fmt.Errorf("the journal has failed, and what was not acknowledged may be lost: %w", &router.JournalError{Err: err})
}

// notify tells the service manager, if there is one, about our state.
func notify(state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("the service manager could not be notified", "state", state, "err", err)
	}
}
