package main

import (
	"context"
	"encoding/json"
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

// endMember ends a member of a cluster that has served clients. why is the cause; nil: an orderly
// shutdown. It does not return if the process executes itself again.
func (o *opened) endMember(w *watch, of *member.Member, unlock func(), why error, signals <-chan os.Signal) error {
	if why == nil {
		return o.leaveCluster(w, of, unlock, signals)
	}
	fetched, isFetched := errors.AsType[*member.Fetched](why)
	f, isFailure := errors.AsType[*commit.Failure](why)
	if isFetched || isFailure && f.Cause == commit.Deposed {
		return o.restart(w, of, unlock, why, fetched, signals)
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
func (o *opened) restart(w *watch, of *member.Member, unlock func(), why error, fetched *member.Fetched, signals <-chan os.Signal) error {
	next, err := o.keep()
	if err != nil {
		return err
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
	unlock()
	if !done() {
		select {} // the timer calls last, which restarts
	}
	return anew()
}

// keep returns the state that the next run inherits. Afterwards the listeners may be closed.
func (o *opened) keep() (next *inherited, err error) {
	next = &inherited{StartDir: config.StartDir()}
	if next.Sockets, err = o.socks.Keep(); err != nil {
		return nil, fault.New(fault.System, "restarting in the same process: %v: start the server again", err)
	}
	return next, nil
}

// restartEarly executes the process again before its server has a journal.
func (o *opened) restartEarly(why error, signals <-chan os.Signal, log *slog.Logger) error {
	next, err := o.keep()
	if err != nil {
		return err
	}
	return o.beginAnew(next, why.Error(), signals, log)
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
func (o *opened) leaveCluster(w *watch, of *member.Member, unlock func(), signals <-chan os.Signal) error {
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
		unlock()
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

// A member of a cluster restarts in the same process when its shards contain entries that may
// never be committed, or when its journal was replaced: a normal start repairs both. The process
// executes itself with the same ID, command line and listening sockets. Clients that connect
// meanwhile wait in the backlog. A second process could do the same, but a service manager or a
// script with a PID file would think that the server has ended.

// restartVariable has the JSON of an inherited.
const restartVariable = "POLYSTALKD_AGAIN"

// An inherited is the state that the process keeps over a restart.
type inherited struct {
	Sockets  *listen.Kept
	StartDir string // the working directory of the first start, for relative paths
	Short    int    // number of short runs in a row, including this one
}

// began is the time of this start.
var began = time.Now()

// readInherited returns the state of the run before; nil: this is the first run. It removes the
// variable from the environment. It changes to the first run's working directory, because the
// command line is read again.
func readInherited() (*inherited, error) {
	text, ok := os.LookupEnv(restartVariable)
	if !ok {
		return nil, nil
	}
	os.Unsetenv(restartVariable)
	last := &inherited{Sockets: new(listen.Kept)}
	if err := json.Unmarshal([]byte(text), last); err != nil {
		return nil, fault.New(fault.System, "variable %s: %v: it is the program's own: leave it out", restartVariable, err)
	}
	if last.StartDir != "" {
		if err := os.Chdir(last.StartDir); err != nil {
			return nil, fault.New(fault.System, "the directory that the program was started in: %v: give paths that begin with /", err)
		}
	}
	return last, nil
}

const (
	shortRun = time.Minute // after a longer run the next one begins at once
	pauseMin = 100 * time.Millisecond
	pauseMax = 10 * time.Second
)

// restartPause returns the pause before the next run, and the number of short runs in a row. A
// process that cannot run must not keep a processor busy with restarts. A deposed leader is
// needed soon, so the first pause is zero. last is nil in the first run.
func restartPause(last *inherited, lasted time.Duration) (pause time.Duration, short int) {
	if last == nil || lasted >= shortRun {
		return 0, 0
	}
	short = last.Short + 1
	return min(pauseMin<<min(short-1, 20), pauseMax), short
}

// exec begins the next run. It returns only with an error; then the process must end.
func (l *inherited) exec() error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	path, err := executablePath()
	if err != nil {
		return err
	}
	return os.NewSyscallError("exec "+path, syscall.Exec(path, os.Args, append(os.Environ(), restartVariable+"="+string(text))))
}

// executablePath returns the path of the running program; on Linux also if the file was replaced
// by an installer, which will start the new one. It prefers the file's own name, which ps shows.
func executablePath() (string, error) {
	const self = "/proc/self/exe"
	running, err := os.Stat(self)
	if err != nil {
		return os.Executable() // not Linux
	}
	path, err := os.Readlink(self)
	if err != nil {
		return "", err
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(there, running) {
		return self, nil
	}
	return path, nil
}

// reopen adopts the sockets of the run before. The PID file stays valid: the ID is the same.
func reopen(c *config.Config, last *inherited) (o *opened, err error) {
	o = &opened{last: last}
	if o.socks, err = last.Sockets.Sockets(); err != nil {
		return nil, fault.New(fault.System, "restarting in the same process: %v", err)
	}
	if c.PidFile != "" {
		o.pid = &pidFile{path: c.PidFile}
	}
	if c.Daemon {
		err = os.Chdir("/") // as before: see parent.release
	}
	return o, err
}

// beginAnew executes the process with next, after a pause if runs are short. It returns only with
// an error or after a signal from stop, which ends the pause; then the process must end.
func (o *opened) beginAnew(next *inherited, why string, stop <-chan os.Signal, log *slog.Logger) error {
	var pause time.Duration
	pause, next.Short = restartPause(o.last, time.Since(began))
	level := slog.LevelInfo
	if pause > 0 { // it was started a short time ago, so something is wrong
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, "restarting in the same process", "why", why, "next", "the same process reads its journal and follows: nothing that was acknowledged is lost", "in", pause)
	if sig := endSignal(stop, pause); sig != nil {
		log.Info("ending instead", "signal", sig.String())
		return nil
	}
	return fault.New(fault.System, "restarting in the same process: %v: start the server again", next.exec())
}

// endSignal waits up to pause for a signal that ends the server; nil: none came. It also returns
// a signal that came before, since the next run would not see it.
func endSignal(stop <-chan os.Signal, pause time.Duration) os.Signal {
	over := time.After(pause)
	for waits := true; waits || len(stop) > 0; {
		select {
		case sig := <-stop:
			if sig == syscall.SIGTERM || sig == syscall.SIGINT {
				return sig
			}
		case <-over:
			waits = false
		}
	}
	return nil
}
