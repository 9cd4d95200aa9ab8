package main

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
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
	if st, ok := infoSys(info); err == nil && ok && info.Mode().IsRegular() && st.Nlink > 1 {
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

func infoSys(info os.FileInfo) (st *syscall.Stat_t, ok bool) {
	if info != nil {
		st, ok = info.Sys().(*syscall.Stat_t)
	}
	return st, ok
}

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
