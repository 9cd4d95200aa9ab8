package binlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyRegularFilesAreALog(t *testing.T) {
	for _, make := range []struct {
		what string
		make func(path string) error
	}{
		{"link", func(path string) error { return os.Symlink("binlog.1", path) }},
		{"broken link", func(path string) error { return os.Symlink("nowhere", path) }},
		{"directory", func(path string) error { return os.Mkdir(path, 0o700) }},
	} {
		dir := dirOf(t, log(7))
		path := filepath.Join(dir, "binlog.2")
		if err := make.make(path); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadDir(dir, Options{Salvage: true}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", make.what, err)
		}
	}
}

func TestFilesAreReadByNumber(t *testing.T) {
	if _, err := ReadDir(filepath.Join(t.TempDir(), "none"), Options{}); err == nil {
		t.Error("no directory, and no error")
	}
	dir := t.TempDir()
	if files, err := Files(dir); err != nil || len(files) != 0 {
		t.Fatalf("an empty directory: %v, %v", files, err)
	}
	ignored := []string{"lock", "binlog", "binlog.", "binlog.0", "binlog.007", "binlog.+3", "binlog.-1", "binlog.4x",
		"binlog.1.tmp", "xbinlog.5", "BINLOG.6", "binlog.9223372036854775808", "binlog.1e3"}
	for _, name := range append(ignored, "binlog.10", "binlog.9", "binlog.2", "binlog.100") {
		write(t, filepath.Join(dir, name), []byte(name))
	}
	if err := os.Mkdir(filepath.Join(dir, "binlog.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f.Path))
		if f.Size != int64(len(filepath.Base(f.Path))) {
			t.Errorf("%s: size %d", f.Path, f.Size)
		}
	}
	if got := strings.Join(names, " "); got != "binlog.2 binlog.9 binlog.10 binlog.100" {
		t.Error(got)
	}
}
