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
	"polystalk/cmd/polystalkd/member"
	"polystalk/codec/binlog"
	"polystalk/router"
	"polystalk/shard/wal"
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

// openJournalDir locks the journal's directory against other servers. The process must already run
// as the account that writes it. again reports that this process had locked the directory before an
// exec. cfg is nil if jobs are in memory only. unlock is for a graceful shutdown, when no part of the
// server uses the directory; after an error the lock stays until the process ends, because a part of
// the server may still write.
func openJournalDir(c *config.Config, again bool, log *slog.Logger) (cfg *router.Journal, unlock func(), err error) {
	if err := checkDirName(c); err != nil || c.BinlogDir == "" {
		return nil, func() {}, err
	}
	lock, err := binlog.Lock(c.BinlogDir)
	if locked, ok := errors.AsType[binlog.LockedError](err); ok {
		return nil, nil, fault.New(fault.Journal, "%s: the directory is in use by another server: %v: stop that one first, or give another directory", c.Origin("binlog-dir"), locked)
	}
	if err != nil {
		return nil, nil, fault.New(fault.Journal, "%s: the journal's directory %q cannot be used: %v: create it for the user that runs the server, or give another", c.Origin("binlog-dir"), c.BinlogDir, err)
	}
	if err := member.Check(c, again); err != nil {
		lock.Unlock()
		return nil, nil, err
	}
	cfg = &router.Journal{Dir: c.BinlogDir, SegmentSize: c.BinlogSize, Every: c.FsyncEvery}
	switch {
	case c.NoFsync:
		cfg.Sync = wal.SyncNever
	case c.FsyncEvery > 0:
		cfg.Sync = wal.SyncEvery
	}
	if c.BinlogSize < wal.SegmentMin {
		log.Warn("segments of the journal are larger than requested", "bytes", wal.SegmentMin, "asked", c.BinlogSize)
	}
	return cfg, func() { lock.Unlock() }, nil
}

func checkDirName(c *config.Config) error {
	if c.BinlogDir == "" && c.IsSet("binlog-dir") {
		return fault.New(fault.Journal, "%s: the name of the journal's directory is empty: give one, or leave %s out to keep jobs in memory only", c.Origin("binlog-dir"), c.Spelling("binlog-dir"))
	}
	return nil
}

// explainJournal adds the remedy to an error of a journal that cannot be read.
func explainJournal(c *config.Config, err error) error {
	var damage *wal.Damage
	if errors.As(err, &damage) {
		return fault.New(fault.Journal, "%s: %v; nothing was changed: polystalk journal salvage %s NEWDIR copies what can be read",
			c.Origin("binlog-dir"), err, c.BinlogDir)
	}
	if _, ok := errors.AsType[*router.JournalError](err); ok {
		return fault.New(fault.Journal, "%s: the journal in %q cannot be used: %v", c.Origin("binlog-dir"), c.BinlogDir, err)
	}
	if _, ok := errors.AsType[*fault.Fault](err); ok {
		return err
	}
	return fmt.Errorf("starting: %w", err)
}
