package main

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"time"

	"polystalk/cmd/polystalkd/again"
	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// began is when this life of the process did.
var began = time.Now()

// lastLife is what the life before this one has left, nil if this is the first. The working
// directory is the one that the first began in: the command line is read once more.
func lastLife() (*again.Legacy, error) {
	last, err := again.Take()
	if err != nil {
		return nil, fault.New(fault.System, "%v", err)
	}
	if last != nil && last.StartDir != "" {
		if err := os.Chdir(last.StartDir); err != nil {
			return nil, fault.New(fault.System, "the directory that the program was started in: %v: give paths that begin with /", err)
		}
	}
	return last, nil
}

// reopen takes over what the life before this one had open. The process's id, and so what the
// file of it says, is the same.
func reopen(c *config.Config, last *again.Legacy) (o *opened, err error) {
	o = &opened{last: last}
	if o.socks, err = last.Sockets.Sockets(); err != nil {
		return nil, fault.New(fault.System, "beginning anew: %v", err)
	}
	if c.PidFile != "" {
		o.pid = &pidFile{path: c.PidFile}
	}
	if c.Daemon {
		err = os.Chdir("/") // as before: see parent.release
	}
	return o, err
}

// leave keeps what the next life is to have. The listeners may be closed from then on.
func (o *opened) leave() (*again.Legacy, error) {
	next := &again.Legacy{StartDir: config.StartDir()}
	var err error
	next.Sockets, err = o.socks.Keep()
	return next, err
}

// beginAnew has the process execute itself with what leave has kept. It returns only with an
// error, after which nothing may be used any more. stop ends the wait before it.
func (o *opened) beginAnew(next *again.Legacy, why string, stop <-chan os.Signal, log *slog.Logger) error {
	var pause time.Duration
	pause, next.Short = again.Pause(o.last, time.Since(began))
	level := slog.LevelInfo
	if pause > 0 { // it has just done so, and something is not as it should be
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, "beginning anew", "why", why, "next", "the same process reads its journal and follows: nothing that was acknowledged is lost", "in", pause)
	if sig := endSignal(stop, pause); sig != nil {
		log.Info("ending instead", "signal", sig.String())
		return nil
	}
	return fault.New(fault.System, "beginning anew: %v: start it again", next.Exec())
}

// endSignal waits for a signal that ends the server, for as long as pause. It also returns one that has
// come before, since the next life would not see it; nil: there is none.
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
