package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrInUse is the error of a directory that another server has.
var ErrInUse = errors.New("the directory is in use by another server")

// A DirLock keeps a directory from other servers, beanstalkd included: it is
// the same lock on the same file (source: its walg.c, waldirlock).
type DirLock struct{ f *os.File }

// Lock locks a directory. It lasts until Close, or the end of the process.
func Lock(dir string) (*DirLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if err == unix.EACCES || err == unix.EAGAIN {
		err = fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &DirLock{f}, nil
}

// Close gives the directory free.
func (l *DirLock) Close() error { return l.f.Close() }
