package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/binlog"
	"polystalk/shard/wal"
)

// A source is a directory that a command reads. No server can use it meanwhile.
type source struct {
	dir    string
	lock   *binlog.DirLock // nil: no server can be using it
	survey *wal.Survey     // nil: there is no journal
}

// openSource locks a directory and surveys the journal in it.
func openSource(dir string) (*source, error) {
	if st, err := os.Stat(dir); err != nil {
		return nil, client.Errorf(client.Dir, "the directory cannot be used: %v", err)
	} else if !st.IsDir() {
		return nil, client.Errorf(client.Dir, "%s is not a directory: give the one of polystalkd's -b", dir)
	}
	s := &source{dir: dir}
	var err error
	if s.lock, err = lockSource(dir); err != nil {
		return nil, err
	}
	if s.survey, err = wal.Look(wal.ReadOnlyDir(dir)); err != nil {
		s.close()
		return nil, fmt.Errorf("reading the journal in %s: %w", dir, err)
	}
	return s, nil
}

// lockSource takes the lock of the servers. If the lock file is missing or the file system is
// read-only, no server can be running. lockSource does not create the file: the source must not
// change, and the server's account could not open it later.
func lockSource(dir string) (*binlog.DirLock, error) {
	if _, err := os.Lstat(filepath.Join(dir, "lock")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	lock, err := binlog.Lock(dir)
	if errors.Is(err, syscall.EROFS) {
		return nil, nil
	}
	return lock, lockFault(dir, err)
}

// lockFault returns the error for a directory that cannot be locked.
func lockFault(dir string, err error) error {
	if locked, ok := errors.AsType[binlog.LockedError](err); ok {
		return client.Errorf(client.Dir, "%s is in use by a server: %v: stop that one first, or work on a copy", dir, locked)
	}
	if err != nil {
		return client.Errorf(client.Dir, "%s cannot be used: %v", dir, err)
	}
	return nil
}

func (s *source) close() {
	if s.lock != nil {
		s.lock.Unlock()
	}
}

// journal returns the survey, or an error if there is no journal.
func (s *source) journal() (*wal.Survey, error) {
	if s.survey != nil {
		return s.survey, nil
	}
	if files, err := binlog.Files(s.dir); err == nil && len(files) > 0 {
		return nil, client.Errorf(client.Dir, "%s holds no journal of polystalkd, but files of beanstalkd, up to binlog.%d: polystalkd -b %s imports those",
			s.dir, files[len(files)-1].Number, s.dir)
	}
	return nil, client.Errorf(client.Dir, "%s holds no journal of polystalkd", s.dir)
}

// damaged returns the error for a damaged journal; nil: no damage.
func (s *source) damaged(advice string) error {
	switch n := len(s.survey.Losses); n {
	case 0:
		return nil
	case 1:
		return client.Errorf(client.Damage, "%v; %s", &s.survey.Losses[0].Damage, advice)
	default:
		return client.Errorf(client.Damage, "%v, and it is damaged in %d more places; %s", &s.survey.Losses[0].Damage, n-1, advice)
	}
}

// salvageAdvice returns the remedy for damage.
func (s *source) salvageAdvice() string {
	return fmt.Sprintf("polystalk journal salvage %s NEWDIR copies what can be read", s.dir)
}

// writeTorn reports a torn end.
func (s *source) writeTorn(w io.Writer, what string) {
	t := s.survey.Torn
	if t == nil {
		return
	}
	fmt.Fprintf(w, "torn end: %s at offset %d: %s, and was not acknowledged as durable; %s", t.File, t.Offset, t.Reason, what)
	if t.Behind > 0 {
		fmt.Fprintf(w, ", with %s behind it", counted(t.Behind, "batch", "batches"))
	}
	fmt.Fprintln(w)
}

// writeLosses reports the damage, each on a line.
func (s *source) writeLosses(w io.Writer) {
	for i := range s.survey.Losses {
		l := &s.survey.Losses[i]
		fmt.Fprintf(w, "damage: %s at offset %d: %s", l.File, l.Offset, l.Reason)
		if l.End > l.Offset {
			fmt.Fprintf(w, " (bytes %d to %d)", l.Offset, l.End-1)
		}
		if l.Count() > 0 {
			fmt.Fprintf(w, " (batches %d to %d)", l.First, l.Next-1)
		}
		fmt.Fprintln(w)
	}
}

// counted returns a number with its noun.
func counted[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

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
