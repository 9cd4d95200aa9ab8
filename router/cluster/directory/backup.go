package directory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"polystalk/codec/binlog"
	"polystalk/router/cluster/snapshot"
	"polystalk/shard/wal"
)

// Backup receives a journal that a node sends, as the plain directory of a server that is alone.
// out must be empty or not exist. After an error it is as it was, or, if the process ends before,
// holds nothing that a server would start from. Of bytes received, and of how many about, progress
// hears if it is not nil.
func Backup(ctx context.Context, from io.Reader, out string, progress func(received, all int64)) (r *snapshot.Received, err error) {
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
	r, err = snapshot.Receive(ctx, from, wal.Dir(out), snapshot.ReceiveOptions{Progress: progress})
	if err != nil {
		return nil, err
	}
	if err := r.Install(); err != nil {
		return nil, errors.Join(err, r.Discard())
	}
	if made {
		err = syncParent(out)
	}
	return r, err
}

// makeEmpty makes a directory, or sees that the one there is is empty.
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
		if e.Name() != "lost+found" { // every new file system has it
			return false, fmt.Errorf("%s is not empty, there is %s: give a directory that is, or that does not exist", out, e.Name())
		}
	}
	return false, nil
}

// syncParent makes the name of a directory durable that was made.
func syncParent(out string) error {
	err := wal.Dir(filepath.Dir(filepath.Clean(out))).Sync()
	if errors.Is(err, fs.ErrPermission) {
		return nil // one can make a directory where one may not read
	}
	return err
}
