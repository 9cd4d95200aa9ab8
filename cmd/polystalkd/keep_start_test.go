package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What an import that did not end has left is not served as if it were whole,
// and does not lie in wait for the day on which there are files to import.
func TestInterruptedImportWithoutItsFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "importing"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := runToEnd(t, binary, cleanEnv(), "-l127.0.0.1", "-p0", "-b", dir)
	if got.code != exitBinlog || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "put them back") {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
}
