// Package bookmark remembers how far a file was imported, in a small file beside it, so that
// nothing is put twice by who runs the same command again.
//
// The mark is written after each job, without waiting for the disk: it outlives the program,
// however that ends, and not a power cut.
package bookmark

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Suffix follows the name of the file in that of its bookmark.
const Suffix = ".imported"

// A Mark is how far a file was imported.
type Mark struct {
	Lines uint64 `json:"lines"` // from the first on, whose jobs were put
	// Ended: what imported them knew what it did when it ended. Otherwise the job of the next
	// line may have been put or not.
	Ended  bool   `json:"ended"`
	Server string `json:"server"` // into which, as --server has it

	// Of the file: another one of the name has no bookmark yet.
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

// Read is the mark of a file; false: it has none.
func Read(file string) (m Mark, found bool, err error) {
	text, err := os.ReadFile(file + Suffix)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, false, fmt.Errorf("%s%s is no bookmark: %w", file, Suffix, err)
	}
	s, err := os.Stat(file)
	if err != nil {
		return m, false, err
	}
	return m, s.Size() == m.Size && s.ModTime().Equal(m.Modified), nil
}

// A Bookmark is one that is being moved. A nil one remembers nothing.
type Bookmark struct {
	file *os.File
	mark Mark
}

// Begin is a bookmark of a file, after so many lines of it, in place of the one before.
func Begin(file, server string, lines uint64) (*Bookmark, error) {
	s, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !s.Mode().IsRegular() {
		return nil, nil // what is read from a pipe is not read again
	}
	f, err := os.Create(file + Suffix)
	if err != nil {
		return nil, err
	}
	b := &Bookmark{f, Mark{Lines: lines, Server: server, Size: s.Size(), Modified: s.ModTime()}}
	if err := b.write(); err != nil {
		f.Close()
		return nil, err
	}
	return b, nil
}

// At moves it behind so many lines.
func (b *Bookmark) At(lines uint64) error {
	if b == nil {
		return nil
	}
	b.mark.Lines = lines
	return b.write()
}

// End leaves it where it is; certain: the line behind it was not put.
func (b *Bookmark) End(certain bool) error {
	if b == nil {
		return nil
	}
	b.mark.Ended = certain
	return errors.Join(b.write(), b.file.Close())
}

// write writes all of it with one call, over what was there: as the number of lines only
// grows, a text is shorter by a letter at most, and what is left of the one before is blank.
func (b *Bookmark) write() error {
	text, err := json.Marshal(b.mark)
	if err != nil {
		return err
	}
	_, err = b.file.WriteAt(append(text, "\n\n"...), 0)
	return err
}
