// Polystalkd is a job server that speaks the beanstalkd and the Gearman protocol on
// every core. It takes beanstalkd's flags with their meaning and exit codes;
// polystalkd -h lists them, package config holds their defaults and limits.
//
// As polystalkd gearmand, or under the name gearmand, it takes gearmand's flags,
// exit code and signals instead. Both command lines fill the same Config; from there
// on there is one server.
//
// The program is thin: it reads its configuration, opens the sockets, drops
// privileges, and then hands the listeners to package router and the signals
// to its Drain, Retire and Shutdown.
//
//	config.Parse         ┐
//	config.ParseGearmand ┴→ Validate → (detach) → listen.All → Become → router → READY=1 … signal → STOPPING=1 → Shutdown
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	// daemon speaks sd_notify(3).
	"github.com/coreos/go-systemd/v22/daemon"

	"polystalk/cmd/polystalkd/account"
	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/cmd/polystalkd/listen"
	"polystalk/cmd/polystalkd/logging"
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
	case errors.Is(err, config.ErrHelp):
		p.writeHelp(stdout)
		return fault.OK
	case errors.Is(err, config.ErrVersion):
		fmt.Fprintln(stdout, p.version())
		return fault.OK
	}
	if err == nil {
		c.WarnOfVariables(os.Environ())
		err = c.Validate()
	}
	code := fault.OK
	if err == nil && c.CheckArgs {
		err = checkArgs(c, stderr, p.name)
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
func serve(c *config.Config, waiting *parent, stderr io.Writer) (err error) {
	signals := catchSignals()
	if err := setDescriptors(c); err != nil {
		return err
	}
	who, err := account.Find(c)
	if err != nil {
		return err
	}
	log, err := logging.Open(c, who, stderr)
	if err != nil {
		return err
	}
	defer func() {
		// Whoever reads the log elsewhere does not see stderr.
		if err != nil && !log.ToStderr {
			log.Error("the server has failed", "err", err)
		}
	}()
	for _, w := range c.Warnings {
		log.Warn(w)
	}
	socks, err := listen.All(c, who.Owners(), log.Logger)
	if err != nil {
		return err
	}
	defer socks.Close(log.Logger)
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
		if err := who.Become(c); err != nil {
			return err
		}
	}

	setProcs(c)
	dir, err := openJournalDir(c, log.Logger)
	if err != nil {
		return err
	}
	rc := c.Router()
	rc.Journal, rc.Log = dir.cfg, log.Logger
	srv, err := router.New(rc)
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	early, ended, err := start(srv, signals, log.Logger)
	if err != nil {
		return explainJournal(c, err)
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
	if waiting != nil && log.ToStderr {
		log.Warn("the log ends here, a daemon has no stderr: give --log-file or --syslog")
	}
	if err := waiting.release(); err != nil {
		return fault.New(fault.System, "%s: %v", c.Origin("daemon"), err)
	}

	failure := (&watch{c: c, srv: srv, log: log}).wait(early, signals, failed)
	if _, ok := errors.AsType[*router.JournalError](failure); ok {
		// Whatever waits for the journal must not be answered any more.
		return failure
	}

	notify(daemon.SdNotifyStopping, log.Logger)
	socks.RemoveFiles(log.Logger)
	ctx, cancel := context.WithTimeout(context.Background(), shutdownWait)
	defer cancel()
	err = srv.Shutdown(ctx)
	dir.close()
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
func serveAll(srv *router.Server, socks *listen.Sockets) (failed <-chan error) {
	errs := make(chan error, len(socks.Beanstalkd)+len(socks.Gearman))
	start := func(ls []net.Listener, serve func(net.Listener) error) {
		for _, l := range ls {
			go func() {
				if err := serve(l); err != nil {
					errs <- err
				}
			}()
		}
	}
	start(socks.Beanstalkd, srv.Serve)
	start(socks.Gearman, srv.ServeGearman)
	return errs
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
