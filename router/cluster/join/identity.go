package join

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"polystalk/router/cluster"
	"polystalk/shard/wal"
)

// Name is the file that a directory has while it is to become a node's: until there is a
// cluster.state, nothing else in it means anything.
const Name = "cluster.joining"

// idDigits is how an id is written: in hexadecimal, all digits.
const idDigits = 16

// Pending reports whether a directory is one that is to become a node's. What else is in it was
// received, perhaps in part: it is started with --cluster-join, and in no other way.
func Pending(d wal.Disk) (bool, error) {
	f, err := d.Open(Name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// NodeID is the id under which a directory is to become a node's: a random one, kept there so
// that a start after an end of the process goes on with it.
func NodeID(d wal.Disk) (uint64, error) {
	id, err := readID(d)
	if err != nil || id != 0 {
		return id, err
	}
	for !cluster.ValidID(id) {
		var b [8]byte
		rand.Read(b[:]) // never fails
		id = binary.LittleEndian.Uint64(b[:])
	}
	f, err := d.Create(Name)
	if err != nil {
		return 0, fmt.Errorf("making %s: %w", Name, err)
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%0*x\n", idDigits, id), 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.Sync()
	}
	if err != nil {
		return 0, fmt.Errorf("making %s: %w", Name, err)
	}
	return id, nil
}

// readID reads the id that is kept; zero: there is none. What was written only in part was never
// told to anybody, and is removed.
func readID(d wal.Disk) (uint64, error) {
	f, err := d.Open(Name)
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
	return 0, d.Remove(Name)
}
