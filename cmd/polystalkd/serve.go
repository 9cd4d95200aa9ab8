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

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/cmd/polystalkd/listen"
	"polystalk/cmd/polystalkd/member"
	"polystalk/router"
	web "polystalk/router/http"
)

// shutdownWait bounds the work in flight after SIGTERM; with it the process
// ends within a second of the signal.
const shutdownWait = 800 * time.Millisecond

// serve runs the server until a signal ends it (nil) or something fails. waiting is
// let go once it serves; read reads the configuration anew. last is what an earlier life of the
// process has left, nil if this is the first. exit ends the process at once: see watch.endBy.
func serve(c *config.Config, read func() (*config.Config, error), waiting *parent, last *inherited, stderr io.Writer, exit func(error)) (err error) {
	signals := catchSignals()
	if err := setDescriptors(c); err != nil {
		return err
	}
	acct, err := findAccount(c)
	if err != nil {
		return err
	}
	log, err := openLog(c, acct, stderr)
	if err != nil {
		return err
	}
	logFailure := func(err error) {
		// Whoever reads the log elsewhere does not see stderr.
		if err != nil && !log.ToStderr {
			log.Error("the server has failed", "err", err)
		}
	}
	defer func() { logFailure(err) }()
	for _, w := range c.Warnings {
		log.Warn(w)
	}
	var open *opened
	if last != nil {
		open, err = reopen(c, last)
	} else {
		open, err = openAll(c, acct.owners(), log.Logger)
	}
	if err != nil {
		return err
	}
	defer open.close(log.Logger)
	if acct != nil {
		if err := acct.become(c); err != nil {
			return err
		}
	}
	return open.serve(c, read, signals, waiting, log, func(err error) {
		within(writeWithin, func() { logFailure(err) })
		exit(err)
	})
}

// opened is what the server opens while it may: before it becomes the user that it is
// to run as.
type opened struct {
	socks *listen.Sockets
	pid   *pidFile // nil: none is wanted

	last *inherited // from which it all comes; nil: it was opened
}

// openAll opens what c asks for. owners are the users whose dead sockets it may
// replace. On an error nothing stays behind.
func openAll(c *config.Config, owners []int, log *slog.Logger) (_ *opened, err error) {
	o := &opened{}
	if o.socks, err = listen.All(c, owners, log); err != nil {
		return nil, err
	}
	if o.pid, err = openPidFile(c); err != nil {
		o.close(log)
		return nil, err
	}
	return o, nil
}

// close removes the files that were made.
func (o *opened) close(log *slog.Logger) {
	o.pid.remove(log)
	o.socks.Close(log)
}

// serve is the server's life, as the account that it runs as: it reads the journal,
// serves until it is to end, and ends.
func (o *opened) serve(c *config.Config, read func() (*config.Config, error), signals <-chan os.Signal, waiting *parent, log *logger, exit func(error)) error {
	setProcs(c)
	dir, err := openJournalDir(c, o.last != nil, log.Logger)
	if err != nil {
		return err
	}
	rc := c.Router()
	rc.Journal, rc.Log = dir.cfg, log.Logger
	of, err := o.newMember(c, dir, log.Logger)
	if err != nil {
		return err
	}
	if n := len(o.socks.HTTP); n > 0 || of != nil {
		rc.OtherDescriptors = n + web.Descriptors
	}
	if of != nil {
		rc.OtherDescriptors += member.Descriptors(c)
		rc.Cluster = of
	}
	srv, err := router.New(rc)
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	reloads := newReloader(c, read, srv, log)
	ops, err := serveHTTP(c, srv, of, o.socks.HTTP, reloads, log) // before the journal is read, so that probes can say how far that is
	if err != nil {
		return err
	}
	defer ops.close()
	begin := srv.Start
	if of != nil {
		begin = func() error { return of.Follow(srv) }
	}
	early, ended, err := start(begin, signals, log.Logger)
	if err != nil {
		if of != nil {
			of.CloseSocket()
		}
		return explainJournal(c, err)
	} else if ended {
		return nil
	}
	if err := o.pid.write(c); err != nil {
		return err
	}
	failed := o.openDoors(srv, of)
	announce(c, srv, o.socks, log.Logger)
	notify(daemon.SdNotifyReady, log.Logger)
	defer startWatchdog(srv.Alive, log.Logger)()
	if waiting != nil && log.ToStderr {
		log.Warn("the log ends here, a daemon has no stderr: give --log-file or --syslog")
	}
	if err := waiting.release(); err != nil {
		return fault.New(fault.System, "%s: %v", c.Origin("daemon"), err)
	}

	w := &watch{c: c, srv: srv, ops: ops, log: log, reloads: reloads, exit: exit}
	if of != nil {
		return o.serveMember(w, of, dir, early, signals, failed)
	}
	failure := w.wait(early, signals, failed)
	if _, ok := errors.AsType[*router.JournalError](failure); ok {
		// Whatever waits for the journal must not be answered any more.
		return failure
	}
	if err := o.shutDown(srv, ops, dir, log.Logger); err != nil {
		return err
	}
	return failure
}

// shutDown ends the server with what is under way, for shutdownWait. The error is the
// journal's.
func (o *opened) shutDown(srv *router.Server, ops *operators, dir *journalDir, log *slog.Logger) error {
	notify(daemon.SdNotifyStopping, log)
	o.socks.RemoveFiles(log)
	ctx, cancel := context.WithTimeout(context.Background(), shutdownWait)
	defer cancel()
	ops.stop(ctx)
	err := srv.Shutdown(ctx)
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
	return nil
}

// openDoors lets clients in; of is nil for a server that is alone.
func (o *opened) openDoors(srv *router.Server, of *member.Member) (failed <-chan error) {
	if of != nil {
		return of.Open(o.socks.Beanstalkd, o.socks.Gearman)
	}
	return serveAll(srv, o.socks)
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
