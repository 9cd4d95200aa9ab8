package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// bookmarkSuffix ends the name of a bookmark, after the name of the imported file.
const bookmarkSuffix = ".imported"

// A mark is the position in a file that is being imported.
type mark struct {
	Lines uint64 `json:"lines"` // number of first lines that were put
	// Ended reports that the import knew what it had put when it ended. If false, the job of the
	// next line may have been put.
	Ended  bool   `json:"ended"`
	Server string `json:"server"` // as given to --server

	// Size and Modified identify the file: another file with the same name has no bookmark yet.
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

// readBookmark returns the position in a file. found is false if the file has no bookmark.
func readBookmark(file string) (m mark, found bool, err error) {
	text, err := os.ReadFile(file + bookmarkSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, false, fmt.Errorf("%s%s is not a bookmark: %w", file, bookmarkSuffix, err)
	}
	s, err := os.Stat(file)
	if err != nil {
		return m, false, err
	}
	return m, s.Size() == m.Size && s.ModTime().Equal(m.Modified), nil
}

// A bookmark is the file next to an imported file that holds the position. It is written after
// each job without a sync: it survives a crash of the program, not a power cut. A nil one does
// nothing.
type bookmark struct {
	file *os.File
	mark mark
}

// newBookmark creates a bookmark and replaces an older one.
func newBookmark(file, server string, lines uint64) (*bookmark, error) {
	s, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !s.Mode().IsRegular() {
		return nil, nil // a pipe is not read again
	}
	f, err := os.Create(file + bookmarkSuffix)
	if err != nil {
		return nil, err
	}
	b := &bookmark{f, mark{Lines: lines, Server: server, Size: s.Size(), Modified: s.ModTime()}}
	if err := b.write(); err != nil {
		f.Close()
		return nil, err
	}
	return b, nil
}

// at moves the position.
func (b *bookmark) at(lines uint64) error {
	if b == nil {
		return nil
	}
	b.mark.Lines = lines
	return b.write()
}

// end closes the bookmark. certain reports that the next line was not put.
func (b *bookmark) end(certain bool) error {
	if b == nil {
		return nil
	}
	b.mark.Ended = certain
	return errors.Join(b.write(), b.file.Close())
}

// write overwrites the mark with one call. The number of lines only grows, so the text gets
// shorter by one byte at most (Ended becomes true), and only white space is left of the old one.
func (b *bookmark) write() error {
	text, err := json.Marshal(b.mark)
	if err != nil {
		return err
	}
	_, err = b.file.WriteAt(append(text, "\n\n"...), 0)
	return err
}
