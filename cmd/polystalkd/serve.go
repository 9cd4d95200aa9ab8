package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	// daemon speaks sd_notify(3).
	"github.com/coreos/go-systemd/v22/daemon"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/cmd/polystalkd/listen"
	"polystalk/cmd/polystalkd/member"
	"polystalk/router"
	"polystalk/router/cluster/bootstrap"
	web "polystalk/router/http"
	"polystalk/shard/commit"
	"polystalk/shard/wal"
)

// shutdownWait bounds the time for work in progress after SIGTERM, so the process ends within a
// second of the signal.
const shutdownWait = 800 * time.Millisecond

// serve runs the server until a signal ends it (nil) or something fails. It releases waiting once
// it serves. read reads the configuration again. last is the state of an earlier run of the
// process; nil: this is the first. exit ends the process at once: see watch.endBy.
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
		// A log in a file or in syslog lacks the text on stderr.
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

// opened holds what the server opens before it drops privileges.
type opened struct {
	socks *listen.Sockets
	pid   *pidFile // nil: none

	last *inherited // the earlier run that left the sockets; nil: none
}

// openAll opens the sockets and files of c. It may replace dead unix sockets of the users in
// owners. On an error nothing stays behind.
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

// close removes the files that openAll made.
func (o *opened) close(log *slog.Logger) {
	o.pid.remove(log)
	o.socks.Close(log)
}

// serve runs the server after it has dropped privileges: it reads the journal, serves until the
// end, and shuts down.
func (o *opened) serve(c *config.Config, read func() (*config.Config, error), signals <-chan os.Signal, waiting *parent, log *logger, exit func(error)) error {
	setProcs(c)
	journal, unlock, err := openJournalDir(c, o.last != nil, log.Logger)
	if err != nil {
		return err
	}
	rc := c.Router()
	rc.Journal, rc.Log = journal, log.Logger
	clients, err := openClientTLS(c, log.Logger)
	if err != nil {
		return err
	}
	rc.TLS = len(o.socks.Of[listen.BeanstalkdTLS])+len(o.socks.Of[listen.GearmanTLS]) > 0
	var of *member.Member // nil: c has no cluster
	if n := len(o.socks.Of[listen.HTTP]); n > 0 || c.Cluster.Listen != "" {
		rc.OtherDescriptors = n + web.Descriptors
	}
	if c.Cluster.Listen != "" {
		if of, err = member.New(member.Options{Config: c, Listener: o.socks.Of[listen.Cluster][0], Log: log.Logger}, journal); err != nil {
			return err
		}
		rc.OtherDescriptors += member.Descriptors
		rc.Cluster = of
	}
	ids, err := openAccess(c)
	if err != nil {
		return err
	}
	rc.Access = ids
	srv, err := router.New(rc)
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	reloads := newReloader(c, read, srv, log)
	if clients != nil {
		reloads.parts = append(reloads.parts, clients.prepare)
	}
	switch {
	case ids == nil && c.TLS.CA != "":
		reloads.parts = append(reloads.parts, func(*config.Config) (func(), error) { return func() { reloads.reauthorize(srv, of) }, nil })
	case ids != nil:
		reloads.parts = append(reloads.parts, reloads.readAccess(ids, srv, of))
		warnOfExposure(ids, c, log)
	}
	ops, err := serveHTTP(c, srv, ids, of, clients, o.socks.Of[listen.HTTP], reloads, log) // before the journal is read, so probes can report the progress
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
		if errors.Is(err, bootstrap.ErrDiscarded) {
			return o.restartEarly(err, signals, log.Logger)
		}
		return explainJournal(c, err)
	} else if ended {
		return nil
	}
	if err := o.pid.write(c); err != nil {
		return err
	}
	failed := o.acceptClients(srv, of, clients)
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
		return o.endMember(w, of, unlock, w.wait(early, signals, failed, of.Ended()), signals)
	}
	failure := w.wait(early, signals, failed, nil)
	if _, ok := errors.AsType[*commit.Failure](failure); ok {
		return journalFailed(failure) // replies that wait for the journal must no longer be sent
	}
	if err := o.shutDown(srv, ops, unlock, log.Logger); err != nil {
		return err
	}
	return failure
}

// shutDown finishes the work in progress within shutdownWait and ends the server. The error is
// the journal's.
func (o *opened) shutDown(srv *router.Server, ops *operators, unlock func(), log *slog.Logger) error {
	notify(daemon.SdNotifyStopping, log)
	o.socks.RemoveFiles(log)
	ctx, cancel := context.WithTimeout(context.Background(), shutdownWait)
	defer cancel()
	ops.stop(ctx)
	err := srv.Shutdown(ctx)
	unlock()
	select {
	case e := <-srv.Failed():
		err = &router.JournalError{Err: e}
	default:
	}
	if _, ok := errors.AsType[*router.JournalError](err); ok {
		return journalFailed(err)
	}
	if err != nil {
		log.Warn("shut down before all work was finished", "err", err)
	}
	return nil
}

// acceptClients starts to accept clients. of is nil without a cluster. failed delivers the error of
// a listener that the server did not close.
func (o *opened) acceptClients(srv *router.Server, of *member.Member, clients *clientTLS) (failed <-chan error) {
	most := 0
	for _, ls := range o.socks.Of {
		most += len(ls)
	}
	errs := make(chan error, most)
	accept := func(kind, protocol string, serve func(net.Listener) error) {
		for _, l := range o.socks.Of[kind] {
			l = srv.Balanced(l)
			if kind == listen.BeanstalkdTLS || kind == listen.GearmanTLS {
				l = srv.Secure(l, clients.config(kind), clients.isRevoked)
			}
			go func() {
				var err error
				if of != nil {
					err = of.Serve(l, protocol, serve)
				} else {
					err = serve(l)
				}
				if err != nil {
					errs <- err
				}
			}()
		}
	}
	names := srv.Operator().Protocols()
	accept(listen.Beanstalkd, names[0], srv.Serve)
	accept(listen.BeanstalkdTLS, names[0], srv.Serve)
	accept(listen.Gearman, names[1], srv.ServeGearman)
	accept(listen.GearmanTLS, names[1], srv.ServeGearman)
	return errs
}

// journalFailed wraps an error of the journal. Acknowledged changes are as safe as -f and -F
// promise. No further change can be acknowledged.
func journalFailed(err error) error {
	return fmt.Errorf("the journal has failed, and what was not acknowledged may be lost: %w", &router.JournalError{Err: err})
}

// announce logs the addresses and the settings in effect. Sizes are bytes.
func announce(c *config.Config, srv *router.Server, socks *listen.Sockets, log *slog.Logger) {
	if len(socks.Of[listen.Gearman])+len(socks.Of[listen.GearmanTLS]) > 0 {
		gear := srv.Gearman()
		about := []any{"listen", listen.Names(socks.Of[listen.Gearman])}
		if ls := socks.Of[listen.GearmanTLS]; len(ls) > 0 {
			about = append(about, "tls-listen", listen.Names(ls))
		}
		about = append(about, "speaks", "gearmand "+config.SpokenGearman,
			"prefix", gear.Prefix, "max-body", gear.MaxBody, "max-unread", gear.MaxUnread, "shutdown", c.Gearman.Shutdown)
		log.Info("serving Gearman", about...)
	}
	var about []any
	if len(socks.Of[listen.Beanstalkd]) > 0 {
		about = append(about, "listen", listen.Names(socks.Of[listen.Beanstalkd]), "speaks", "beanstalkd "+config.Spoken)
	}
	if ls := socks.Of[listen.BeanstalkdTLS]; len(ls) > 0 {
		about = append(about, "tls-listen", listen.Names(ls))
	}
	about = append(about, "loops", c.Loops, "shards", c.Shards, "max-job-size", c.MaxJobSize)
	if c.BinlogDir == "" {
		about = append(about, "journal", "none")
	} else {
		about = append(about, "journal", c.BinlogDir, "fsync", fsync(c), "segment-size", max(c.BinlogSize, wal.SegmentMin))
	}
	if c.AccessFile != "" {
		about = append(about, "access", c.AccessFile)
	}
	connections, from := srv.ConnectionLimit()
	about = append(about, "max-connections", connections, "max-connections-from", from, "version", program.Version, "pid", os.Getpid())
	log.Info("serving", about...)
	warnOfRisks(c, socks, log)
}

// warnOfRisks logs what a new operator may not expect: strangers reach the queue, or a restart loses
// the jobs. beanstalkd has the same defaults.
func warnOfRisks(c *config.Config, socks *listen.Sockets, log *slog.Logger) {
	clients := slices.Concat(socks.Of[listen.Beanstalkd], socks.Of[listen.Gearman])
	if !c.TLS.RequiresCertificates() { // else strangers cannot connect to the others
		clients = slices.Concat(clients, socks.Of[listen.BeanstalkdTLS], socks.Of[listen.GearmanTLS])
	}
	for _, l := range socks.Of[listen.HTTP] {
		if c.AnonymousOn(l.Addr()) == "operate" {
			clients = append(clients, l)
		}
	}
	if open := beyond(socks.Of[listen.HTTP]); len(open) > 0 && c.AccessFile != "" && c.HTTP.Cert == "" && len(c.HTTP.ProxyNetworks) == 0 {
		log.Warn("HTTP has no TLS here: tokens from other machines are refused, or can be read by others with plaintext-tokens = true", "listen", listen.Names(open),
			"remedy", "give --http-tls-cert and --http-tls-key, or a proxy with TLS and --http-trusted-proxy")
	}
	if open := beyond(clients); len(open) > 0 && c.AccessFile == "" {
		log.Warn("every machine that reaches these addresses may put, reserve and delete jobs: clients need no password", "listen", listen.Names(open),
			"remedy", "listen on 127.0.0.1, on a private address or on a unix socket, or with TLS and --tls-clients require, or give --access-file")
	}
	if c.BinlogDir == "" {
		log.Warn("jobs are in memory only and end with the process", "remedy", "give "+c.Spelling("binlog-dir")+" and a directory to keep them")
	}
}

// beyond returns the listeners that other machines may reach.
func beyond(all []net.Listener) (open []net.Listener) {
	for _, l := range all {
		if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
			open = append(open, l)
		}
	}
	return open
}

// fsync describes when the journal is flushed.
func fsync(c *config.Config) string {
	switch {
	case c.NoFsync:
		return "left to the kernel"
	case c.FsyncEvery > 0:
		return "within " + c.FsyncEvery.String()
	}
	return "before answering"
}
