package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Kept holds listening sockets as descriptors that survive an exec of the same process. New
// clients wait in the backlog meanwhile. The numbers are valid in this process only.
//
// LISTEN_FDS is not used: its descriptors start at 3, and by then these belong to the Go runtime,
// which may use them until the exec.
type Kept struct {
	Of    map[string][]int // by protocol: see Sockets.Of
	Files []keptFile

	open []*os.File // keeps the descriptors open
}

// A keptFile is a socketFile.
type keptFile struct {
	Path string
	Dir  int // a descriptor

	// Device, Inode and Made identify the file: see sameFile.
	Device, Inode uint64
	Made          time.Time
}

// Keep duplicates the descriptors of all sockets, so the listeners may be closed. An exec
// closes the duplicates unless Pass was called.
func (s *Sockets) Keep() (_ *Kept, err error) {
	k := &Kept{Of: make(map[string][]int)}
	defer func() {
		if err != nil {
			k.Close()
		}
	}()
	for protocol, ls := range s.Of {
		for _, l := range ls {
			fd, err := k.listener(l)
			if err != nil {
				return nil, err
			}
			k.Of[protocol] = append(k.Of[protocol], fd)
		}
	}
	for _, f := range s.files {
		st := f.made.Sys().(*syscall.Stat_t)
		dir, err := unix.FcntlInt(f.dir.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, fmt.Errorf("keeping the directory of %s: %w", f.path, err)
		}
		k.open = append(k.open, os.NewFile(uintptr(dir), f.path))
		k.Files = append(k.Files, keptFile{Path: f.path, Dir: dir, Device: uint64(st.Dev), Inode: uint64(st.Ino), Made: f.made.ModTime()})
	}
	return k, nil
}

// listener adds a listener, a *net.TCPListener or *net.UnixListener.
func (k *Kept) listener(l net.Listener) (fd int, err error) {
	f, err := l.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		return -1, fmt.Errorf("keeping the socket of %s: %w", l.Addr(), err)
	}
	k.open = append(k.open, f)
	raw, err := f.SyscallConn()
	if err == nil {
		// Fd would switch the socket to blocking mode.
		err = raw.Control(func(n uintptr) { fd = int(n) })
	}
	return fd, err
}

// Pass makes the descriptors survive the exec.
func (k *Kept) Pass() error {
	for _, f := range k.open {
		raw, err := f.SyscallConn()
		if err == nil {
			var flagErr error
			err = raw.Control(func(fd uintptr) { _, flagErr = unix.FcntlInt(fd, unix.F_SETFD, 0) })
			err = errors.Join(err, flagErr)
		}
		if err != nil {
			return fmt.Errorf("passing on the socket of %s: %w", f.Name(), err)
		}
	}
	return nil
}

// Close closes the descriptors.
func (k *Kept) Close() {
	for _, f := range k.open {
		f.Close()
	}
	k.open = nil
}

// Sockets returns the kept sockets in the process after the exec. It may be called once. After
// an error the process must end.
func (k *Kept) Sockets() (*Sockets, error) {
	s := &Sockets{Of: make(map[string][]net.Listener)}
	for protocol, fds := range k.Of {
		for _, fd := range fds {
			l, err := passed(fd)
			if err != nil {
				return nil, err
			}
			s.Of[protocol] = append(s.Of[protocol], l)
		}
	}
	for _, f := range k.Files {
		syscall.CloseOnExec(f.Dir)
		dir := os.NewFile(uintptr(f.Dir), f.Path)
		made, err := os.Lstat(f.Path)
		if st, ok := sysOf(made); err != nil || !ok || uint64(st.Dev) != f.Device || uint64(st.Ino) != f.Inode || !made.ModTime().Equal(f.Made) {
			dir.Close() // it now belongs to another program
			continue
		}
		s.files = append(s.files, &socketFile{f.Path, made, dir})
	}
	return s, nil
}

func sysOf(info fs.FileInfo) (st *syscall.Stat_t, ok bool) {
	if info != nil {
		st, ok = info.Sys().(*syscall.Stat_t)
	}
	return st, ok
}

// passed returns the listener of a descriptor that was passed to this process.
func passed(fd int) (net.Listener, error) {
	syscall.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "passed")
	if f == nil {
		return nil, fmt.Errorf("descriptor %d was not passed on", fd)
	}
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d, which was passed on: %w", fd, err)
	}
	return l, nil
}
