package wal

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// ErrStopped is the error of a wait when the journal is closed.
var ErrStopped = errors.New("the journal is closed")

// A Disk is the directory of a journal. Tests use one that loses unsynced data.
type Disk interface {
	// List names the directory's files.
	List() ([]string, error)
	// Create makes a file for reading and writing; it must not exist.
	Create(name string) (File, error)
	// Open opens a file for reading and writing.
	Open(name string) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// Sync makes the directory's entries durable.
	Sync() error
	// Free is the number of bytes that can still be written; a very large number if it is unknown.
	Free() int64
}

// A File is one file of a Disk.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	// Sync makes the file's bytes durable, and its size.
	Sync() error
}

// A copyOnWriter is a File that knows whether overwriting its bytes needs new space. In that
// case filling the file does not reserve space.
type copyOnWriter interface {
	// CopyOnWrite is the name of the file system if that is the case, or empty.
	CopyOnWrite() string
}

// dirDisk is a directory of the operating system.
type dirDisk string

// Dir returns the Disk of a directory, which must exist.
func Dir(path string) Disk { return dirDisk(path) }

func (d dirDisk) path(name string) string { return filepath.Join(string(d), name) }

func (d dirDisk) List() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (d dirDisk) Create(name string) (File, error) {
	f, err := os.OpenFile(d.path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	overwriteInPlace(f)
	return dirFile{f}, nil
}

func (d dirDisk) Open(name string) (File, error) { return d.file(name, os.O_RDWR) }

func (d dirDisk) file(name string, flags int) (File, error) {
	f, err := os.OpenFile(d.path(name), flags, 0)
	if err != nil {
		return nil, err
	}
	return dirFile{f}, nil
}

func (d dirDisk) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

func (d dirDisk) Remove(name string) error { return os.Remove(d.path(name)) }

func (d dirDisk) Sync() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// dirFile is a file of a dirDisk.
type dirFile struct{ *os.File }

func (f dirFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f dirFile) Sync() error { return datasync(f.File) }

func (f dirFile) CopyOnWrite() string { return copyOnWrite(f.File) }

// readOnly is a Disk with files that cannot be changed: for inspecting a journal of another
// server, or a damaged one.
type readOnly struct{ dirDisk }

// ReadOnlyDir returns the Disk of a directory that must not be changed.
func ReadOnlyDir(path string) Disk { return readOnly{dirDisk(path)} }

func (d readOnly) Open(name string) (File, error) { return d.file(name, os.O_RDONLY) }
