package exchange

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"polystalk/shard/wal"
)

// A note comes with the new journal: what a server that starts from it must know besides, and
// stores elsewhere once it has started. It is there from the exchange until DropNote.
const (
	stagedNote = "incoming.note"
	note       = "exchange.note"
)

// noteMax is the most that a note has, in bytes.
const noteMax = 64 << 10

// StageNote has a note come with the journal that is staged. It replaces one that was staged
// before.
func StageNote(d wal.Disk, b []byte) error {
	if len(b) > noteMax {
		return fmt.Errorf("a note of %d bytes comes with a journal, and %d are the most", len(b), noteMax)
	}
	if err := remove(d, stagedNote); err != nil {
		return err
	}
	f, err := d.Create(stagedNote)
	if err != nil {
		return err
	}
	if len(b) > 0 {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Note is what has come with the journal that a directory holds; nil: nothing, or it was dropped.
func Note(d wal.Disk) ([]byte, error) {
	f, err := d.Open(note)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err == nil && size > noteMax {
		err = fmt.Errorf("%s has %d bytes, and %d are the most", note, size, noteMax)
	}
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, fmt.Errorf("reading %s: %w", note, err)
	}
	return b, nil
}

// DropNote removes the note of the journal that a directory holds, durably, if there is one.
func DropNote(d wal.Disk) error {
	if err := remove(d, note); err != nil {
		return err
	}
	return d.Sync()
}

// remove removes a file if it is there.
func remove(d wal.Disk, name string) error {
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
