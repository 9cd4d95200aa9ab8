package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// openOwnFile opens a file of the command line for writing. The process may be root and the
// directory another user's, so openOwnFile refuses a symbolic or hard link in place of the file.
// It follows links in the path of the directory.
//
// It never blocks: otherwise a named pipe without a reader would block the start, or SIGHUP and
// with it SIGTERM, forever. /dev/stdout and similar links stand for the descriptors of the
// process.
func openOwnFile(path string, flags int, mode os.FileMode) (*os.File, error) {
	if fd, ok := descriptorOf(path); ok && flags&os.O_EXCL == 0 {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return os.NewFile(uintptr(own), path), nil
	}
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, mode)
	if errors.Is(err, syscall.ELOOP) {
		return nil, &os.PathError{Op: "open", Path: path, Err: errSymlink}
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && info.Sys().(*syscall.Stat_t).Nlink > 1 {
		err = &os.PathError{Op: "open", Path: path, Err: errHardLink}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readOwnFile reads the first 64 bytes of a file with the same rules.
func readOwnFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 64))
}

var (
	errSymlink  = errors.New("it is a symbolic link, which is not followed; name the file that it points to")
	errHardLink = errors.New("the file has a second name and may belong to another program; remove it, or give another file")
)

// descriptorOf returns the descriptor that a path names.
func descriptorOf(path string) (fd int, ok bool) {
	switch path {
	case "/dev/stdout":
		return 1, true
	case "/dev/stderr":
		return 2, true
	}
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if number, found := strings.CutPrefix(path, dir); found {
			n, err := strconv.ParseUint(number, 10, 31)
			return int(n), err == nil
		}
	}
	return 0, false
}

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
