package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"polystalk/codec/binlog"
	"polystalk/shard/wal"
)

// Backup receives a journal into a new directory, in which a server without a cluster can start. out
// must be empty or not exist, also after an error. If the process dies before the end, no server
// starts in out. progress may be nil: see ReceiveOptions.
func Backup(ctx context.Context, from io.Reader, out string, progress func(received, all int64)) (r *Received, err error) {
	made, err := makeEmpty(out)
	if err != nil {
		return nil, err
	}
	lock, err := binlog.Lock(out)
	if err != nil {
		if made {
			os.Remove(out)
		}
		return nil, fmt.Errorf("%s cannot be used: %w", out, err)
	}
	defer func() {
		if err != nil {
			os.Remove(filepath.Join(out, "lock"))
			if made {
				defer os.Remove(out)
			}
		}
		err = errors.Join(err, lock.Unlock())
	}()
	r, err = Receive(ctx, from, wal.Dir(out), ReceiveOptions{Progress: progress})
	if err != nil {
		return nil, err
	}
	if err := r.install(); err != nil {
		return nil, errors.Join(err, r.Discard())
	}
	if made {
		err = wal.Dir(filepath.Dir(filepath.Clean(out))).Sync()
		if errors.Is(err, fs.ErrPermission) {
			err = nil // the parent may be writable and not readable
		}
	}
	return r, err
}

// makeEmpty makes a directory, or checks that it is empty.
func makeEmpty(out string) (made bool, err error) {
	switch err := os.Mkdir(out, 0o700); {
	case err == nil:
		return true, nil
	case !errors.Is(err, fs.ErrExist):
		return false, fmt.Errorf("the directory for the backup cannot be made: %w", err)
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		return false, fmt.Errorf("the directory for the backup cannot be used: %w", err)
	}
	for _, e := range entries {
		if e.Name() != "lost+found" { // new file systems have it
			return false, fmt.Errorf("%s is not empty, there is %s: give a directory that is, or that does not exist", out, e.Name())
		}
	}
	return false, nil
}
