package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCredentialsAreTakenLast: where nothing else names a file, and they are there.
func TestCredentialsAreTakenLast(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"http-tokens", "http-tls-key"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	file := confFile(t, "http-tokens-file = \"/f\"\n")
	for _, l := range commandLines {
		for _, tt := range []struct {
			args  []string
			dir   string
			want  string
			where string
		}{
			{nil, dir, filepath.Join(dir, "http-tokens"), "credential http-tokens"},
			{nil, "", "", "flag --http-tokens-file"},
			{nil, filepath.Join(dir, "none"), "", "flag --http-tokens-file"},
			{[]string{"--config", file}, dir, "/f", "file " + file + ":1"},
			{[]string{"--http-tokens-file", "/g"}, dir, "/g", "flag --http-tokens-file"},
		} {
			c, err := l.parse(tt.args, map[string]string{"CREDENTIALS_DIRECTORY": tt.dir})
			if err != nil || len(c.faults) > 0 {
				t.Fatal(err, c.faults)
			}
			if got, where := c.HTTP.TokensFile, c.Origin("http-tokens-file"); got != tt.want || where != tt.where {
				t.Errorf("%s %+v: %q from %s", l.name, tt, got, where)
			}
			if c.HTTP.Cert != "" || (c.HTTP.Key != "") != (tt.dir == dir) {
				t.Errorf("%s %+v: certificate %q, key %q", l.name, tt, c.HTTP.Cert, c.HTTP.Key)
			}
		}
	}
}
