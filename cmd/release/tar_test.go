package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var date = time.Unix(1700000000, 5)

func TestArchiveIsTheSameInAnyOrder(t *testing.T) {
	dir := t.TempDir()
	var entries []tarEntry
	for i, name := range []string{"b/two", "a", "b/c/three"} {
		file := filepath.Join(dir, fmt.Sprint(i))
		must(t, os.WriteFile(file, []byte(name), 0o600))
		entries = append(entries, tarEntry{Name: name, Source: file, Mode: 0o644})
	}
	entries = append(entries, tarEntry{Name: "state", Mode: 0o700, Owner: 7})
	var first, second bytes.Buffer
	must(t, writeTar(&first, entries, date))
	slices.Reverse(entries)
	for _, e := range entries { // what the disk knows of a file does not matter
		if e.Source != "" {
			must(t, os.Chtimes(e.Source, time.Now(), time.Unix(1, 0)))
		}
	}
	must(t, writeTar(&second, entries, date))
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the archives differ")
	}
	var got []string
	for r := tar.NewReader(&first); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		must(t, err)
		got = append(got, fmt.Sprintf("%s %o %d %d %q", h.Name, h.Mode, h.Uid, h.ModTime.UnixNano(), text))
	}
	want := []string{
		`a 644 0 1700000000000000000 "a"`, `b/ 755 0 1700000000000000000 ""`, `b/c/ 755 0 1700000000000000000 ""`,
		`b/c/three 644 0 1700000000000000000 "b/c/three"`, `b/two 644 0 1700000000000000000 "b/two"`, `state/ 700 7 1700000000000000000 ""`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestArchiveThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a")
	must(t, os.WriteFile(file, nil, 0o600))
	twice := []tarEntry{{Name: "a", Source: file}, {Name: "a", Source: file}}
	if err := writeTar(io.Discard, twice, date); err == nil || !strings.Contains(err.Error(), "a occurs twice") {
		t.Errorf("%v", err)
	}
	if err := writeTar(io.Discard, []tarEntry{{Name: "b", Source: file + "none"}}, date); err == nil || !strings.Contains(err.Error(), "archiving b") {
		t.Errorf("%v", err)
	}
	if err := writeArchive(file, nil, date); err == nil {
		t.Error("a file that was there is written over")
	}
}
