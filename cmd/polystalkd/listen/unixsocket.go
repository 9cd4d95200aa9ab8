package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"polystalk/cmd/polystalkd/fault"
)

// unixPathMax is the longest path of a unix socket, in bytes, without the NUL.
const unixPathMax = len(syscall.RawSockaddrUnix{}.Path) - 1

const (
	dirLockWait  = 2 * time.Second        // at start
	exitLockWait = 100 * time.Millisecond // at exit, which takes up to a second
	dirLockPause = 5 * time.Millisecond
	probeWait    = time.Second // for a listening socket to accept our probe
)

// A socketFile is the file of a unix socket that this process made.
//
// Device, inode and time of change tell it from another process's file at the same path. While
// the listener is open, the kernel keeps the inode and gives its number to no other file, so
// remove must run before the listener is closed. The directory stays open, so remove can lock it
// even if there are no descriptors left or -u took away the right to open it.
type socketFile struct {
	path string
	made fs.FileInfo
	dir  *os.File
}

// listenUnix opens a listening socket at path. It replaces a socket there only if one of the
// owners (user IDs) owns it and no process listens on it: a killed server left it behind. Between
// that check and the bind, a lock on the directory keeps other instances of polystalkd out; the
// lock leaves no file.
func listenUnix(path string, owners []int) (*net.UnixListener, *socketFile, error) {
	if path[0] == '@' {
		path = "./" + path // otherwise net reads it as a name in Linux's abstract namespace
	}
	if len(path) > unixPathMax {
		return nil, nil, fmt.Errorf("the path has %d bytes, at most %d are possible: choose a shorter one", len(path), unixPathMax)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: choose a directory that exists and that this user may read", err)
	}
	l, made, err := bindUnix(path, dir, owners)
	if err != nil {
		dir.Close()
		return nil, nil, err
	}
	return l, &socketFile{path, made, dir}, nil
}

// bindUnix does the work of listenUnix under the directory's lock.
func bindUnix(path string, dir *os.File, owners []int) (*net.UnixListener, fs.FileInfo, error) {
	if err := lock(dir, dirLockWait); err != nil {
		return nil, nil, err
	}
	defer unlock(dir)
	if err := clearStale(path, owners); err != nil {
		return nil, nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return nil, nil, fmt.Errorf("%w: choose a path that this user may create", fault.Cause(err))
	}
	l.SetUnlinkOnClose(false) // it would remove any file that has the path at that time
	made, err := os.Lstat(path)
	if err != nil {
		l.Close()
		return nil, nil, fmt.Errorf("the socket vanished at once (%w): choose a directory that no program cleans up", err)
	}
	return l, made, nil
}

// clearStale removes a dead socket at path. It fails if anything else is there.
func clearStale(path string, owners []int) error {
	found, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: choose a path that this user may create", fault.Cause(err))
	}
	const remedy = "choose another path, or remove it yourself"
	switch mode := found.Mode(); {
	case mode.IsDir():
		return fmt.Errorf("the path is a directory: name a file in it, as in unix:%s", filepath.Join(path, "polystalkd.sock"))
	case mode.IsRegular():
		return fmt.Errorf("the path is a regular file, not a socket: %s", remedy)
	case mode&fs.ModeSymlink != 0:
		return fmt.Errorf("the path is a symbolic link, not a socket: %s", remedy)
	case mode&fs.ModeSocket == 0:
		return fmt.Errorf("the path is not a socket: %s", remedy)
	}

	// Only a refused connection shows that no process listens. A used datagram socket, a full backlog
	// or a missing permission cause other errors.
	probe, err := net.DialTimeout("unix", path, probeWait)
	switch {
	case err == nil:
		probe.Close()
		return fmt.Errorf("the socket is in use, a server answers there: stop it, or choose another path")
	case errors.Is(err, syscall.ENOENT):
		return nil
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("a socket is there and may be in use (%w): %s", fault.Cause(err), remedy)
	}
	if owner := int(found.Sys().(*syscall.Stat_t).Uid); !slices.Contains(owners, owner) {
		return fmt.Errorf("a socket left behind by another user (id %d) is there: %s", owner, remedy)
	}
	again, err := os.Lstat(path)
	if err != nil || !sameFile(found, again) {
		return fmt.Errorf("another process is changing this path: choose another path, or stop that process")
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing the socket left behind there: %w: %s", fault.Cause(err), remedy)
	}
	return nil
}

// remove removes the file if it is still ours. It is called once.
func (f *socketFile) remove() error {
	defer f.dir.Close()
	if err := lock(f.dir, exitLockWait); err != nil {
		return err
	}
	defer unlock(f.dir)
	now, err := os.Lstat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !sameFile(f.made, now) {
		return errors.New("another file has taken the path")
	}
	return os.Remove(f.path)
}

func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}

// lock takes the advisory lock of a directory, and retries until wait is over.
func lock(dir *os.File, wait time.Duration) error {
	for deadline := time.Now().Add(wait); ; time.Sleep(dirLockPause) {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) || time.Now().After(deadline) {
			return fmt.Errorf("locking the directory %s: %w: end the process that holds its lock, or choose another directory", dir.Name(), err)
		}
	}
}

func unlock(dir *os.File) {
	syscall.Flock(int(dir.Fd()), syscall.LOCK_UN) // fails only for a bad descriptor
}

// A Private is a listening unix socket that only the process's user may connect to.
type Private struct {
	net.Listener
	file *socketFile
}

// ListenPrivate opens a socket at path. It replaces a dead socket of the same user.
func ListenPrivate(path string) (*Private, error) {
	// The umask decides the mode of the new file. The process creates no other file meanwhile.
	mask := syscall.Umask(0o077)
	l, file, err := listenUnix(path, []int{os.Geteuid()})
	syscall.Umask(mask)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		file.remove()
		l.Close()
		return nil, err
	}
	return &Private{l, file}, nil
}

// End closes the socket and removes its file.
func (p *Private) End(log *slog.Logger) {
	if err := p.file.remove(); err != nil {
		log.Warn("unix socket file left behind", "path", p.file.path, "err", err)
	}
	p.Close()
}
