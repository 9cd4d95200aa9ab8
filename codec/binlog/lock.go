package binlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// A DirLock keeps other servers, including beanstalkd, out of a directory.
type DirLock struct {
	file *os.File
	id   inode
}

// A LockedError says that another server has locked a directory. PID is 0 if it is unknown.
type LockedError struct {
	Path string // of the lock's file
	PID  int
}

func (e LockedError) Error() string {
	switch e.PID {
	case 0:
		return e.Path + " is locked by another process"
	case os.Getpid():
		return e.Path + " is locked by this process"
	}
	return fmt.Sprintf("%s is locked by process %d", e.Path, e.PID)
}

type inode struct{ dev, ino uint64 }

// held are the locks of this process. With fcntl locks, a second lock by the same process would
// succeed, and closing any file of that inode would end the first lock. So such a file must not even
// be opened. held also keeps the collector from closing a lock's file.
var held = struct {
	sync.Mutex
	locks map[inode]*DirLock
}{locks: make(map[inode]*DirLock)}

// Lock takes the lock of dir as beanstalkd does: an fcntl write lock on the whole file named lock,
// which is created with mode 0600. If another process has the lock, the error is a LockedError. The
// kernel ends the lock with the process; the file stays. No other code of the process may open that
// file.
func Lock(dir string) (*DirLock, error) {
	held.Lock()
	defer held.Unlock()
	path := filepath.Join(dir, "lock")
	var st unix.Stat_t
	switch err := unix.Stat(path, &st); {
	case err == nil:
		if held.locks[inodeOf(&st)] != nil {
			return nil, LockedError{path, os.Getpid()}
		}
	case !errors.Is(err, unix.ENOENT):
		return nil, fmt.Errorf("lock the directory: %w", &os.PathError{Op: "stat", Path: path, Err: err})
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the directory: %w", err)
	}
	if err := lockFile(f, &st); err != nil {
		f.Close()
		return nil, err
	}
	l := &DirLock{f, inodeOf(&st)}
	held.locks[l.id] = l
	return l, nil
}

// lockFile locks f and fills st with its status.
func lockFile(f *os.File, st *unix.Stat_t) error {
	whole := unix.Flock_t{Type: unix.F_WRLCK} // whence, start and length 0
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &whole)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EAGAIN) {
		holder := unix.Flock_t{Type: unix.F_WRLCK}
		if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &holder) != nil || holder.Type == unix.F_UNLCK {
			holder.Pid = 0 // it has ended, or is not visible
		}
		return LockedError{f.Name(), int(holder.Pid)}
	}
	if err == nil {
		err = unix.Fstat(int(f.Fd()), st)
	}
	if err != nil {
		return fmt.Errorf("lock the directory: %w", &os.PathError{Op: "fcntl", Path: f.Name(), Err: err})
	}
	return nil
}

// Unlock releases the lock. The file stays, as with beanstalkd.
func (l *DirLock) Unlock() error {
	held.Lock()
	defer held.Unlock()
	delete(held.locks, l.id)
	return l.file.Close()
}

// inodeOf converts st, since the types of its fields differ between systems.
func inodeOf(st *unix.Stat_t) inode { return inode{uint64(st.Dev), uint64(st.Ino)} }
