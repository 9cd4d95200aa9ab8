package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCredentialsAreTakenLast: only if no option names a file, and if the credential exists.
func TestCredentialsAreTakenLast(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"http-tokens", "http-tls-key"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o400))
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

// TestCredentialsOfACluster are used only by a server of a cluster.
func TestCredentialsOfACluster(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"cluster-cert", "cluster-key", "cluster-ca"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o400))
	}
	file := confFile(t, "binlog-dir = \"/d\"\ncluster-listen = \"10.0.0.1:11390\"\n")
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"", []string{"", "", ""}},
		{"--config " + file, []string{filepath.Join(dir, "cluster-cert"), filepath.Join(dir, "cluster-key"), filepath.Join(dir, "cluster-ca")}},
		{"--config " + file + " --cluster-ca /ca", []string{filepath.Join(dir, "cluster-cert"), filepath.Join(dir, "cluster-key"), "/ca"}},
	} {
		c, err := parse(strings.Fields(tt.args), map[string]string{"CREDENTIALS_DIRECTORY": dir})
		if err == nil {
			err = c.Validate()
		}
		if got := []string{c.Cluster.Cert, c.Cluster.Key, c.Cluster.CA}; err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v, want %q", tt.args, got, err, tt.want)
		}
	}
}

// TestUnitLoadsCredentials: the unit loads all credentials of the server, from the guide's paths.
func TestUnitLoadsCredentials(t *testing.T) {
	unit, err := os.ReadFile("../systemd/polystalkd.service")
	must(t, err)
	for _, k := range credentials {
		if line := "LoadCredential=" + k.credential + ":polystalkd." + k.credential; !slices.Contains(strings.Split(string(unit), "\n"), line) {
			t.Errorf("the unit has no line %s", line)
		}
	}
}
