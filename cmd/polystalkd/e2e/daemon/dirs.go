package daemon

import (
	"os"
	"testing"
)

// ShortDir is a directory with a path short enough for unix sockets.
func ShortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "ps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// PublicDir is a directory that every user may enter.
func PublicDir(t *testing.T) string {
	dir := ShortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
