package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"syscall"
	"time"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/cmd/polystalkd/listen"
)

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
	if err := l.Sockets.Pass(); err != nil {
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

// leave collects the state for the next run. Afterwards the listeners may be closed.
func (o *opened) leave() (*inherited, error) {
	next := &inherited{StartDir: config.StartDir()}
	var err error
	next.Sockets, err = o.socks.Keep()
	return next, err
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
