package exchange

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"polystalk/shard/wal"
)

// A note comes with the new journal: further data for the server that starts from it, which stores
// the data elsewhere after the start. The note exists from the exchange until DropNote.
const (
	stagedNote = "incoming.note"
	note       = "exchange.note"
)

// noteMax is the maximum size of a note, in bytes.
const noteMax = 64 << 10

// StageNote adds a note to the staged journal. It replaces an earlier staged note.
func StageNote(d wal.Disk, b []byte) error {
	if len(b) > noteMax {
		return fmt.Errorf("the note of a journal has %d bytes, the limit is %d", len(b), noteMax)
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

// Note returns the note of a directory's journal; nil: there was none, or it was dropped.
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
		err = fmt.Errorf("%s has %d bytes, the limit is %d", note, size, noteMax)
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

// DropNote removes the note of a directory's journal, if there is one, and syncs the directory.
func DropNote(d wal.Disk) error {
	if err := remove(d, note); err != nil {
		return err
	}
	return d.Sync()
}

// remove removes a file if it exists.
func remove(d wal.Disk, name string) error {
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
