package exchange

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"polystalk/shard/wal"
)

// Stage returns a Disk that shows only the new journal in the directory of d, with the names that
// its files will have after the exchange.
func Stage(d wal.Disk) wal.Disk { return stage{d} }

type stage struct{ wal.Disk }

// inside returns the name in the directory of a file of the stage.
func inside(name string) (string, error) {
	rest, ok := strings.CutPrefix(name, ours)
	if !ok {
		return "", fmt.Errorf("%s is not a file of a journal: %w", name, fs.ErrInvalid)
	}
	return theirs + rest, nil
}

func (s stage) List() ([]string, error) {
	names, err := named(s.Disk, theirs)
	names = slices.DeleteFunc(names, func(name string) bool { return name == stagedNote })
	for i, name := range names {
		names[i] = ours + strings.TrimPrefix(name, theirs)
	}
	return names, err
}

func (s stage) Create(name string) (wal.File, error) {
	name, err := inside(name)
	if err != nil {
		return nil, err
	}
	return s.Disk.Create(name)
}

func (s stage) Open(name string) (wal.File, error) {
	name, err := inside(name)
	if err != nil {
		return nil, err
	}
	return s.Disk.Open(name)
}

func (s stage) Rename(from, to string) error {
	from, err := inside(from)
	if err != nil {
		return err
	}
	if to, err = inside(to); err != nil {
		return err
	}
	return s.Disk.Rename(from, to)
}

func (s stage) Remove(name string) error {
	name, err := inside(name)
	if err != nil {
		return err
	}
	return s.Disk.Remove(name)
}

// Discard removes the staged journal, and syncs the directory. No exchange may have begun.
func Discard(d wal.Disk) error {
	_, err := removeAll(d, theirs)
	return err
}
