package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	// daemon speaks sd_notify(3).
	"github.com/coreos/go-systemd/v22/daemon"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/cmd/polystalkd/listen"
	"polystalk/cmd/polystalkd/member"
	"polystalk/shard/commit"
)

// newMember makes the server a member of a cluster; nil: c has no cluster.
func (o *opened) newMember(c *config.Config, dir *journalDir, log *slog.Logger) (*member.Member, error) {
	if c.Cluster.Listen == "" {
		return nil, nil
	}
	return member.New(member.Options{Config: c, Listener: o.socks.Of[listen.Cluster][0], Log: log}, dir.cfg)
}

// endMember ends a member of a cluster that has served clients. why is the cause; nil: an orderly
// shutdown. It does not return if the process executes itself again.
func (o *opened) endMember(w *watch, of *member.Member, dir *journalDir, why error, signals <-chan os.Signal) error {
	if why == nil {
		return o.leaveCluster(w, of, dir, signals)
	}
	fetched, isFetched := errors.AsType[*member.Fetched](why)
	f, isFailure := errors.AsType[*commit.Failure](why)
	if isFetched || isFailure && f.Cause == commit.Deposed {
		return o.restart(w, of, dir, why, fetched, signals)
	}
	if f := of.Expelled(why); f != nil {
		why = f
	} else if isFailure {
		why = journalFailed(why)
	}
	at, _ := w.endBy(func() { w.exit(why) })
	closeMember(w, of, at)
	return why
}

// restart closes the server and executes the process again. If fetched is not nil, it installs
// that journal for the next run.
func (o *opened) restart(w *watch, of *member.Member, dir *journalDir, why error, fetched *member.Fetched, signals <-chan os.Signal) error {
	next, err := o.leave()
	if err != nil {
		return fault.New(fault.System, "restarting in the same process: %v: start the server again", err)
	}
	anew := func() error { return o.beginAnew(next, why.Error(), signals, w.log.Logger) }
	at, done := w.endBy(func() { w.exit(anew()) })
	closeMember(w, of, at)
	if fetched != nil {
		at("the journal that was fetched")
		if err := fetched.Install(); err != nil {
			return journalFailed(err)
		}
	}
	dir.close()
	if !done() {
		select {} // the timer calls last, which restarts
	}
	return anew()
}

// closeMember closes the server. Waiting clients get no answer, because the changes in the shards may
// never be committed. It calls at with the name of each part before it waits for the part.
func closeMember(w *watch, of *member.Member, at func(part string)) {
	at("requests of operators") // such as the transfer to another leader
	w.ops.stop(context.Background())
	at("clients")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.srv.Stop(ctx)
	of.Close(at)
}

// endWithin bounds the time from the decision to end this run until the run has ended.
const endWithin = 8 * time.Second

// endBy starts the timer that bounds the end of this run. The caller passes the name of each part
// that it waits for to at. After endWithin, endBy logs the last name and calls last, which ends
// the process. done stops the timer, and reports whether last will not be called.
func (w *watch) endBy(last func()) (at func(part string), done func() bool) {
	var now atomic.Value
	now.Store("")
	timer := time.AfterFunc(endWithin, func() {
		within(writeWithin, func() {
			w.log.Error("the server did not close in time; the process ends anyway", "waits for", now.Load(), "within", endWithin)
		})
		last()
	})
	return func(part string) { now.Store(part) }, timer.Stop
}

// writeWithin bounds the time to log the cause of an end: the log may be on the hung disk.
const writeWithin = 500 * time.Millisecond

// within calls f and waits until it returns, but at most d.
func within(d time.Duration, f func()) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		f()
	}()
	select {
	case <-over:
	case <-time.After(d):
	}
}

const (
	// handOverWait bounds the transfer to another leader.
	handOverWait = 5 * time.Second
	// sameSignal is the time within which a second signal counts as the first one. A shell
	// signals a whole process group, and the parent may pass its own signal on as well.
	sameSignal = time.Second
)

// leaveCluster shuts the server down: it stops reading, answers commands in progress, and
// transfers the leadership. A second signal after sameSignal ends the server at once.
func (o *opened) leaveCluster(w *watch, of *member.Member, dir *journalDir, signals <-chan os.Signal) error {
	log := w.log.Logger
	asked := time.Now()
	at, _ := w.endBy(func() { w.exit(nil) })
	notify(daemon.SdNotifyStopping, log)
	o.socks.RemoveFiles(log)
	left := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), handOverWait)
		defer cancel()
		at("requests of operators")
		w.ops.stop(ctx)
		err := of.Leave(ctx, shutdownWait, at)
		dir.close()
		left <- err
	}()
	for {
		select {
		case err := <-left:
			if err != nil {
				log.Warn("shut down before all work was finished, or before another server led", "err", err)
			}
			return nil
		case sig := <-signals:
			if (sig == syscall.SIGTERM || sig == syscall.SIGINT) && time.Since(asked) > sameSignal {
				log.Warn("ending at once", "signal", sig.String())
				return nil
			}
		}
	}
}
