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

// A target is the directory that a command writes. It is new or empty, and no server can use it
// before it is complete.
type target struct {
	dir  string
	made bool // true if openTarget made dir
	lock *binlog.DirLock
}

// openTarget makes and locks the directory. It must not be in the source, which must not change.
func openTarget(dir, source string) (*target, error) {
	if inside(dir, source) {
		return nil, client.Errorf(client.Dir, "%s is in %s, which must not change: give a directory elsewhere", dir, source)
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
			return nil, client.Errorf(client.Dir, "%s is not empty, there is %s: give an empty or a new directory", dir, e.Name())
		}
	}
	t.lock, err = binlog.Lock(dir)
	if err := lockFault(dir, err); err != nil {
		t.discard()
		return nil, err
	}
	return t, nil
}

// inside reports whether dir is source or below it. dir need not exist.
func inside(dir, source string) bool {
	real := func(path string) string {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		if r, err := filepath.EvalSymlinks(path); err == nil {
			return r
		}
		// It does not exist yet.
		if r, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			return filepath.Join(r, filepath.Base(path))
		}
		return path
	}
	rel, err := filepath.Rel(real(source), real(dir))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// close makes a complete target durable and unlocks it. Afterwards the source may be removed.
func (t *target) close() error {
	if err := t.sync(); err != nil {
		return fmt.Errorf("making %s durable: %w", t.dir, err)
	}
	if err := t.lock.Unlock(); err != nil {
		return fmt.Errorf("unlocking %s: %w", t.dir, err)
	}
	return nil
}

// sync makes the directory entries in the target durable, and the target's own entry.
func (t *target) sync() error {
	if err := wal.Dir(t.dir).Sync(); err != nil || !t.made {
		return err
	}
	err := wal.Dir(filepath.Dir(filepath.Clean(t.dir))).Sync()
	if errors.Is(err, fs.ErrPermission) {
		return nil // an account may create directories where it may not read
	}
	return err
}

// discard undoes openTarget. The caller must have removed the other files.
func (t *target) discard() {
	os.Remove(filepath.Join(t.dir, "lock"))
	if t.lock != nil {
		t.lock.Unlock()
	}
	if t.made {
		os.Remove(t.dir)
	}
}
