package sim

import (
	"os"
	"path/filepath"
	"testing"

	"polystalk/router/access"
)

// An accessFile is an access file that a test changes.
type accessFile struct {
	path string
	ids  *access.Identities
}

func newAccessFile(t testing.TB, text string) *accessFile {
	t.Helper()
	f := &accessFile{path: filepath.Join(t.TempDir(), "access.toml")}
	err := os.WriteFile(f.path, []byte(text), 0o600)
	if err == nil {
		f.ids, err = access.Open(f.path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}
