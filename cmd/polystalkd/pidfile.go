package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// A pidFile holds the process ID while the server runs.
type pidFile struct {
	path string
	file *os.File // nil: the id has been written
}

// openPidFile creates the file of --pid-file; nil: none is wanted. An existing file keeps its
// content until write, because another server may own it and make this start fail.
func openPidFile(c *config.Config) (*pidFile, error) {
	if c.PidFile == "" {
		return nil, nil
	}
	f, err := openOwnFile(c.PidFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, pidFileMode)
	if err == nil {
		p := &pidFile{c.PidFile, f}
		return p, p.write(c)
	}
	if errors.Is(err, fs.ErrExist) {
		f, err = openOwnFile(c.PidFile, os.O_WRONLY|os.O_CREATE, pidFileMode)
	}
	if err != nil {
		return nil, pidFault(c, err)
	}
	return &pidFile{c.PidFile, f}, nil
}

const pidFileMode = 0o644

func pidFault(c *config.Config, err error) *fault.Fault {
	return fault.New(fault.System, "%s: the process id cannot be written (%v): give a file that this user may write", c.Origin("pid-file"), err)
}

// write replaces the content of the file with the process ID, once. It needs no privileges.
func (p *pidFile) write(c *config.Config) error {
	if p == nil || p.file == nil {
		return nil
	}
	f := p.file
	p.file = nil
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.Write(pidLine())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return pidFault(c, err)
	}
	return nil
}

func pidLine() []byte { return fmt.Appendf(nil, "%d\n", os.Getpid()) }

// remove removes the file unless it belongs to another server: this process never wrote it, or
// another one has written it since.
func (p *pidFile) remove(log *slog.Logger) {
	if p == nil {
		return
	}
	if p.file != nil {
		p.file.Close()
		return
	}
	text, err := readOwnFile(p.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(text) != string(pidLine()) {
		return
	}
	if err == nil {
		err = os.Remove(p.path)
	}
	if err != nil {
		log.Warn("pid file left behind", "path", p.path, "err", err)
	}
}
