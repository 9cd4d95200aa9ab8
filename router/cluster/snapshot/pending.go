package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"polystalk/router/cluster"
	"polystalk/shard/wal"
)

// PendingName is the file that marks the directory of a joining server. Until there is a
// cluster.state, the server may discard the other files.
const PendingName = "cluster.joining"

// idDigits is the length of an ID in hexadecimal, with leading zeros.
const idDigits = 16

// Pending reports whether a directory's server has begun to join, and has not joined yet. The
// directory may hold a part of a journal; it can only be started with --cluster-join or
// --cluster-bootstrap.
func Pending(d wal.Disk) (bool, error) {
	f, err := d.Open(PendingName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// NodeID returns the random ID under which the directory's server joins. It is kept in the
// directory, so that a later start uses it again.
func NodeID(d wal.Disk) (uint64, error) {
	id, err := readID(d)
	if err != nil || id != 0 {
		return id, err
	}
	id = cluster.RandomID()
	f, err := d.Create(PendingName)
	if err != nil {
		return 0, fmt.Errorf("making %s: %w", PendingName, err)
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%0*x\n", idDigits, id), 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.Sync()
	}
	if err != nil {
		return 0, fmt.Errorf("making %s: %w", PendingName, err)
	}
	return id, nil
}

// readID reads the ID of the directory; zero: there is none. It removes an incomplete file: its
// ID was never used.
func readID(d wal.Disk) (uint64, error) {
	f, err := d.Open(PendingName)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	b := make([]byte, idDigits+1)
	n, _ := f.ReadAt(b, 0)
	if err := f.Close(); err != nil {
		return 0, err
	}
	id, err := strconv.ParseUint(string(b[:min(n, idDigits)]), 16, 64)
	if n == len(b) && b[idDigits] == '\n' && err == nil && cluster.ValidID(id) {
		return id, nil
	}
	return 0, d.Remove(PendingName)
}

// boundSize is the length of the text to which an ID is bound: see package bootstrap.
const boundSize = 64

// Bound returns the text to which the ID of the directory is bound; empty: it is not bound. An
// incomplete text was never used.
func Bound(d wal.Disk) (string, error) {
	f, err := d.Open(PendingName)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, boundSize+1)
	if n, err := f.ReadAt(b, idDigits+1); n < len(b) || b[boundSize] != '\n' {
		if err == nil || errors.Is(err, io.EOF) {
			return "", nil
		}
		return "", err
	}
	return string(b[:boundSize]), nil
}

// Bind durably binds the ID of the directory to a text of boundSize bytes. It is called once for an ID.
func Bind(d wal.Disk, to string) error {
	f, err := d.Open(PendingName)
	if err == nil {
		_, err = f.WriteAt([]byte(to+"\n"), idDigits+1)
		if err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", PendingName, err)
	}
	return nil
}

// Discard durably removes the ID of the directory. The next start makes another.
func Discard(d wal.Disk) error { return errors.Join(d.Remove(PendingName), d.Sync()) }
