package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	// daemon speaks sd_notify(3).
	"github.com/coreos/go-systemd/v22/daemon"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/cmd/polystalkd/member"
	"polystalk/shard/commit"
)

// newMember makes the server one of several, if it is to be; else it is nil.
func (o *opened) newMember(c *config.Config, dir *journalDir, log *slog.Logger) (*member.Member, error) {
	if c.Cluster.Listen == "" {
		return nil, nil
	}
	return member.New(member.Options{Config: c, Listener: o.socks.Cluster[0], Log: log}, dir.cfg)
}

// serveMember is the life of a server that is one of several, from when it lets clients in to its
// end: it ends, or the process begins anew.
func (o *opened) serveMember(w *watch, of *member.Member, dir *journalDir, early []os.Signal, signals <-chan os.Signal, failed <-chan error) error {
	why := o.waitMember(w, of, early, signals, failed)
	if why == nil {
		return o.leaveCluster(w, of, dir, signals)
	}
	fetched, isFetched := errors.AsType[*member.Fetched](why)
	if f, ok := errors.AsType[*commit.Failure](why); !isFetched && (!ok || f.Cause != commit.Deposed) {
		return o.failMember(w, of, why)
	}
	next, err := o.leave()
	if err != nil {
		return fault.New(fault.System, "beginning anew: %v: start it again", err)
	}
	w.ops.stop(context.Background()) // one of them may be who has another server lead
	// Whoever waits for an answer must not get one: what the shards hold may never come to be.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.srv.Stop(ctx)
	of.Close()
	if isFetched {
		if err := fetched.Install(); err != nil {
			return journalFailed(err)
		}
	}
	dir.close()
	return o.beginAnew(next, why.Error(), signals, w.log.Logger)
}

// waitMember waits for the end, and gives its cause; nil: it was asked for.
func (o *opened) waitMember(w *watch, of *member.Member, early []os.Signal, signals <-chan os.Signal, failed <-chan error) error {
	for _, sig := range early {
		w.handle(sig)
	}
	for {
		select {
		case err := <-of.Ended():
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

// failMember ends a server that cannot go on.
func (o *opened) failMember(w *watch, of *member.Member, why error) error {
	of.Close()
	if f := of.Expelled(why); f != nil {
		return f
	}
	return journalFailed(why)
}

const (
	// handOverWait bounds how long another server may take to lead in place of this one.
	handOverWait = 5 * time.Second
	// sameSignal is for how long another signal is the one that was there already: a shell
	// sends it to a whole group, and who started this server passes on its own as well.
	sameSignal = time.Second
)

// leaveCluster ends the server: input stops, what is under way is answered, another server leads.
// A second signal ends it at once, unless it comes with the first.
func (o *opened) leaveCluster(w *watch, of *member.Member, dir *journalDir, signals <-chan os.Signal) error {
	log := w.log.Logger
	asked := time.Now()
	notify(daemon.SdNotifyStopping, log)
	o.socks.RemoveFiles(log)
	left := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), handOverWait)
		defer cancel()
		w.ops.stop(ctx)
		err := of.Leave(ctx, shutdownWait)
		dir.close()
		left <- err
	}()
	for {
		select {
		case err := <-left:
			if err != nil {
				log.Warn("shut down before everything in flight was finished, or another server led", "err", err)
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
