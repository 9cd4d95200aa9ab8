package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/binlog"
	"polystalk/shard/wal"
)

// A target is the directory that is written: new or empty, and held against
// servers until it is complete.
type target struct {
	dir  string
	made bool // by us
	lock *binlog.DirLock
}

// openTarget makes and locks it. It must not lie in the source, which is not to
// be changed.
func openTarget(dir, source string) (*target, error) {
	if inside(dir, source) {
		return nil, client.Errorf(client.Dir, "%s lies in %s, which is not to be changed: give a directory elsewhere", dir, source)
	}
	t := &target{dir: dir}
	switch err := os.Mkdir(dir, 0o755); {
	case err == nil:
		t.made = true
	case !errors.Is(err, fs.ErrExist):
		return nil, client.Errorf(client.Dir, "the directory to be written cannot be made: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, client.Errorf(client.Dir, "the directory to be written cannot be used: %v", err)
	}
	for _, e := range entries {
		if e.Name() != "lost+found" { // every new file system has it
			return nil, client.Errorf(client.Dir, "%s is not empty, there is %s: give a directory that is, or that does not exist", dir, e.Name())
		}
	}
	t.lock, err = binlog.Lock(dir)
	if err := lockFault(dir, err); err != nil {
		t.discard()
		return nil, err
	}
	return t, nil
}

// inside reports whether dir is, or would be, in source or below it.
func inside(dir, source string) bool {
	real := func(path string) string {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		if r, err := filepath.EvalSymlinks(path); err == nil {
			return r
		}
		// It is not there yet.
		if r, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			return filepath.Join(r, filepath.Base(path))
		}
		return path
	}
	rel, err := filepath.Rel(real(source), real(dir))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// close gives a complete target to whoever comes. It lasts then, so that the
// source may be removed.
func (t *target) close() error {
	if err := t.sync(); err != nil {
		return fmt.Errorf("making %s durable: %w", t.dir, err)
	}
	if err := t.lock.Unlock(); err != nil {
		return fmt.Errorf("unlocking %s: %w", t.dir, err)
	}
	return nil
}

// sync makes the names in the target durable, and its own.
func (t *target) sync() error {
	if err := wal.Dir(t.dir).Sync(); err != nil || !t.made {
		return err
	}
	err := wal.Dir(filepath.Dir(filepath.Clean(t.dir))).Sync()
	if errors.Is(err, fs.ErrPermission) {
		return nil // one can make a directory where one may not read
	}
	return err
}

// discard takes back what openTarget did; the rest was taken back by its maker.
func (t *target) discard() {
	os.Remove(filepath.Join(t.dir, "lock"))
	if t.lock != nil {
		t.lock.Unlock()
	}
	if t.made {
		os.Remove(t.dir)
	}
}
