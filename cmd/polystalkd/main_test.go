package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingHiddenOfAConfigurationIsShown: neither in its name nor in a faulty line.
func TestNothingHiddenOfAConfigurationIsShown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "\x1b[2J.toml")
	must(t, os.WriteFile(file, []byte("x = \"\x1b[2J\u202e\"\n"), 0o600))
	for _, args := range [][]string{{"--config", file}, {"--config", file, "--check-config"}, {"--config", file + "\u202e"}} {
		var out bytes.Buffer
		if code := run(append([]string{"polystalkd"}, args...), &out, &out); code == 0 || strings.ContainsAny(out.String(), "\x1b\u202e") || out.Len() == 0 {
			t.Errorf("%q: exit code %d, %q", args, code, out.String())
		}
	}
}
