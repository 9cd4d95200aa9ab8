package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// served is the byte that the daemon sends to its parent once it serves.
var served = []byte{'1'}

// detach starts this program again as a daemon, since a Go process cannot fork. It waits until
// the daemon serves (code 0) or has ended (the daemon's exit code). Until then the daemon writes
// its errors to our stderr.
func detach(c *config.Config) (code int, err error) {
	if os.Getenv("LISTEN_FDS") != "" && os.Getenv("LISTEN_PID") == strconv.Itoa(os.Getpid()) {
		return 0, fault.New(fault.Usage, "%s: it cannot be combined with sockets of the service manager: leave it out, the service manager keeps the server in the background", c.Origin("daemon"))
	}
	self, err := os.Executable()
	if err != nil {
		return 0, fault.New(fault.System, "%s: this program's file is not known: %v", c.Origin("daemon"), err)
	}
	report, w, err := os.Pipe()
	if err != nil {
		return 0, fault.New(fault.System, "%s: %v", c.Origin("daemon"), err)
	}
	defer report.Close()
	cmd := &exec.Cmd{
		Path: self, Args: os.Args, Stderr: os.Stderr,
		ExtraFiles: []*os.File{w}, // as descriptor 3
		Env:        append(os.Environ(), config.ReportVariable+"=3"),

		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	// Signals of the terminal do not reach the daemon, so detach passes them on.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	err = cmd.Start()
	w.Close()
	if err != nil {
		return 0, fault.New(fault.System, "%s: %v", c.Origin("daemon"), err)
	}
	go func() {
		for sig := range signals {
			cmd.Process.Signal(sig)
		}
	}()
	if _, err := io.ReadFull(report, make([]byte, len(served))); err == nil {
		return fault.OK, nil
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("the daemon: %w", err)
	}
	return fault.OK, nil // a signal ended the daemon before it served
}

// A parent is the process that waits until this daemon serves: see detach. It may be nil.
type parent struct{ report *os.File }

// takeParent returns the parent of a daemon; nil: this process is not a daemon. It may be called
// once.
func takeParent() *parent {
	fd, err := strconv.Atoi(os.Getenv(config.ReportVariable))
	if err != nil {
		return nil
	}
	os.Unsetenv(config.ReportVariable)
	syscall.CloseOnExec(fd)
	return &parent{os.NewFile(uintptr(fd), "report")}
}

// release leaves the parent's directory and stderr, and tells the parent that the daemon serves.
func (p *parent) release() error {
	if p == nil {
		return nil
	}
	defer p.report.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Dup2(int(null.Fd()), syscall.Stderr); err != nil {
		return os.NewSyscallError("dup2", err)
	}
	_, err = p.report.Write(served)
	return err
}
