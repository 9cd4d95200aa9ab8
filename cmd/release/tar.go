package main

// A tar archive has the same bytes for the same files: entries are sorted by name, have the same
// time, and lack the owner of the file on disk.

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// A tarEntry is a file or a directory of an archive.
type tarEntry struct {
	Name   string // with slashes, relative
	Source string // file with the content; empty: it is a directory
	Mode   int64  // permissions
	Owner  int    // user and group, by number; 0: root
}

// writeTar writes entries, and the directories above them, to w. All have the time date, in whole
// seconds.
func writeTar(w io.Writer, entries []tarEntry, date time.Time) error {
	all := withParents(entries)
	slices.SortFunc(all, func(a, b tarEntry) int { return strings.Compare(a.Name, b.Name) })
	t := tar.NewWriter(w)
	for i, e := range all {
		if i > 0 && all[i-1].Name == e.Name {
			return fmt.Errorf("%s occurs twice in an archive", e.Name)
		}
		if err := writeEntry(t, e, date); err != nil {
			return fmt.Errorf("archiving %s: %w", e.Name, err)
		}
	}
	return t.Close()
}

// withParents adds the missing parent directories of entries.
func withParents(entries []tarEntry) []tarEntry {
	all := slices.Clone(entries)
	known := make(map[string]bool)
	for _, e := range entries {
		known[e.Name] = true
	}
	for _, e := range entries {
		for dir := path.Dir(e.Name); dir != "." && !known[dir]; dir = path.Dir(dir) {
			known[dir] = true
			all = append(all, tarEntry{Name: dir, Mode: 0o755})
		}
	}
	return all
}

func writeEntry(t *tar.Writer, e tarEntry, date time.Time) error {
	h := &tar.Header{
		Typeflag: tar.TypeDir, Name: e.Name + "/", Mode: e.Mode, Uid: e.Owner, Gid: e.Owner,
		ModTime: date.Truncate(time.Second), Format: tar.FormatUSTAR,
	}
	if e.Source == "" {
		return t.WriteHeader(h)
	}
	f, err := os.Open(e.Source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h.Typeflag, h.Name, h.Size = tar.TypeReg, e.Name, info.Size()
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}

// writeArchive is writeTar to a new file, which is compressed with gzip if its name ends in .gz.
func writeArchive(name string, entries []tarEntry, date time.Time) (err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	if !strings.HasSuffix(name, ".gz") {
		return writeTar(f, entries, date)
	}
	// The gzip header has neither a name nor a time.
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeTar(z, entries, date); err != nil {
		return err
	}
	return z.Close()
}
