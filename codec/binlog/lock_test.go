package binlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLockIsExclusive: a second lock by the same process, by whatever name, fails and does not end
// the first. Other processes are tested with beanstalkd (e2e/process).
func TestLockIsExclusive(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		l, err := Lock(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []string{dir, link, dir} {
			_, err := Lock(d)
			if e, ok := errors.AsType[LockedError](err); !ok || e.PID != os.Getpid() || e.Path != filepath.Join(d, "lock") {
				t.Errorf("second lock of %s: %v", d, err)
			}
		}
		if info, err := os.Stat(filepath.Join(dir, "lock")); err != nil || info.Mode() != 0o600 || info.Size() != 0 {
			t.Errorf("%v, %v", info, err)
		}
		if err := l.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	none := filepath.Join(dir, "none")
	_, err := Lock(none)
	if _, locked := errors.AsType[LockedError](err); err == nil || locked || !strings.Contains(err.Error(), none) {
		t.Error(err)
	}
}
