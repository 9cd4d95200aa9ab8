package listen

import (
	"errors"
	"fmt"
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
}

// A keptFile is a socketFile.
type keptFile struct {
	Path string
	Dir  int // a descriptor

	// Device, Inode and Made identify the file: see sameFile.
	Device, Inode uint64
	Made          time.Time
}

// Keep duplicates the descriptors of all sockets, so the listeners may be closed. The process must
// end or exec soon: no other program that it starts may get the duplicates.
func (s *Sockets) Keep() (*Kept, error) {
	k := &Kept{Of: make(map[string][]int)}
	for protocol, ls := range s.Of {
		for _, l := range ls {
			fd, err := duplicate(l.(syscall.Conn))
			if err != nil {
				return nil, fmt.Errorf("keeping the socket of %s: %w", l.Addr(), err)
			}
			k.Of[protocol] = append(k.Of[protocol], fd)
		}
	}
	for _, f := range s.files {
		st := f.made.Sys().(*syscall.Stat_t)
		dir, err := duplicate(f.dir)
		if err != nil {
			return nil, fmt.Errorf("keeping the directory of %s: %w", f.path, err)
		}
		k.Files = append(k.Files, keptFile{Path: f.path, Dir: dir, Device: uint64(st.Dev), Inode: uint64(st.Ino), Made: f.made.ModTime()})
	}
	return k, nil
}

// duplicate returns a duplicate of a descriptor that an exec leaves open.
func duplicate(c syscall.Conn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err == nil {
		var dupErr error
		err = raw.Control(func(n uintptr) { fd, dupErr = unix.FcntlInt(n, unix.F_DUPFD, 3) })
		err = errors.Join(err, dupErr)
	}
	return fd, err
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
		if err == nil {
			if st := made.Sys().(*syscall.Stat_t); uint64(st.Dev) == f.Device && uint64(st.Ino) == f.Inode && made.ModTime().Equal(f.Made) {
				s.files = append(s.files, &socketFile{f.Path, made, dir})
				continue
			}
		}
		dir.Close() // it now belongs to another program
	}
	return s, nil
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
