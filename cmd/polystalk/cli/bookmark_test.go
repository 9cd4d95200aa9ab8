package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBookmark(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs")
	if _, found, err := readBookmark(file); found || err != nil {
		t.Fatalf("there is one from the beginning: %v", err)
	}
	if _, err := newBookmark(file, "x", 0); err == nil {
		t.Error("there is one of no file")
	}
	must(t, os.WriteFile(file, []byte("a\nb\n"), 0o600))
	b, err := newBookmark(file, `ser"ver`, 9)
	must(t, err)
	read := func(lines uint64, ended bool) {
		t.Helper()
		m, found, err := readBookmark(file)
		if !found || err != nil || m.Lines != lines || m.Ended != ended || m.Server != `ser"ver` {
			t.Errorf("%+v, %v, %v; want %d, %v", m, found, err, lines, ended)
		}
	}
	read(9, false)
	for _, n := range []uint64{10, 11, 99, 100, 1 << 63} {
		must(t, b.at(n))
		read(n, false)
	}
	must(t, b.end(true))
	read(1<<63, true)
	// A new bookmark starts at its position.
	if b, err = newBookmark(file, `ser"ver`, 1); err != nil {
		t.Fatal(err)
	}
	read(1, false)
	must(t, b.end(false))
	read(1, false)
	// Another file with the same name has no bookmark.
	must(t, os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)))
	if _, found, err := readBookmark(file); found || err != nil {
		t.Errorf("another file has it: %v", err)
	}
	must(t, os.WriteFile(file+bookmarkSuffix, []byte("?"), 0o600))
	if _, _, err := readBookmark(file); err == nil || !strings.Contains(err.Error(), "is not a bookmark") {
		t.Errorf("%v", err)
	}
	var none *bookmark
	if none.at(1) != nil || none.end(true) != nil {
		t.Error("none fails")
	}
	if b, err := newBookmark(os.DevNull, "x", 0); b != nil || err != nil {
		t.Errorf("of a device: %v, %v", b, err)
	}
}
