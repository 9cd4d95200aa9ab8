package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestUnknownVariablesAreNamed(t *testing.T) {
	environ := []string{
		"POLYSTALKD_MAX_JOBSIZE=1", "POLYSTALKD_=x", "POLYSTALKD_PORTS=1,2", "POLYSTALKD_CHECK_ARGS=true", "POLYSTALKD_PORT_TCP=1",

		"POLYSTALKD_PORT=1", "POLYSTALKD_LISTEN=::1", "POLYSTALKD_GEARMAN_MAX_BODY=1", "POLYSTALKD_COMPACT=1", "POLYSTALKD_VERBOSE=2",
		"POLYSTALKD_VERSION=1.2.3", "POLYSTALKD_HELP=me", "POLYSTALKD_UNSET=", "POLYSTALKD=/opt", "PATH=/bin", "GEARMAND_PORTS=1", ReportVariable + "=3",

		// Variables of services named polystalkd and polystalkd-gearman.
		"POLYSTALKD_SERVICE_HOST=10.0.0.1", "POLYSTALKD_SERVICE_PORT=11300", "POLYSTALKD_SERVICE_PORT_BEANSTALK=11300",
		"POLYSTALKD_PORT_11300_TCP=tcp://10.0.0.1:11300", "POLYSTALKD_PORT_11300_TCP_PROTO=tcp", "POLYSTALKD_PORT_11300_TCP_PORT=11300",
		"POLYSTALKD_PORT_11300_TCP_ADDR=10.0.0.1", "POLYSTALKD_GEARMAN_PORT=tcp://10.0.0.1:4730", "POLYSTALKD_GEARMAN_SERVICE_HOST=10.0.0.1",
		"POLYSTALKD_GEARMAN_PORT_4730_UDP_ADDR=10.0.0.1", "POLYSTALKD_NAME=/worker/polystalkd", "POLYSTALKD_ENV_PATH=/bin",
	}
	c := valid(t)(parse(nil, nil))
	c.WarnOfVariables(environ)
	want := []string{"POLYSTALKD_", "POLYSTALKD_CHECK_ARGS", "POLYSTALKD_MAX_JOBSIZE", "POLYSTALKD_PORTS", "POLYSTALKD_PORT_TCP"}
	for i, name := range want {
		want[i] = "variable " + name + " is unknown and has no effect: see polystalkd -h"
	}
	if !slices.Equal(c.Warnings, want) {
		t.Errorf("warnings %q,\nwant %q", c.Warnings, want)
	}

	c = newConfig()
	c.Gearmand = true
	c.WarnOfVariables(environ)
	if all := strings.Join(c.Warnings, "\n"); len(c.Warnings) != 10 || !strings.Contains(all, "variable POLYSTALKD_GEARMAN_MAX_BODY is not read in place of gearmand: give the flag") {
		t.Errorf("in place of gearmand: %s", all)
	}
}

// TestCredentialsAreTakenLast: only if no option names a file, and if the credential exists.
func TestCredentialsAreTakenLast(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"access-file", "http-tls-key"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o400))
	}
	file := confFile(t, "access-file = \"/f\"\n")
	for _, l := range commandLines {
		for _, tt := range []struct {
			args  []string
			dir   string
			want  string
			where string
		}{
			{nil, dir, filepath.Join(dir, "access-file"), "credential access-file"},
			{nil, "", "", "flag --access-file"},
			{nil, filepath.Join(dir, "none"), "", "flag --access-file"},
			{[]string{"--config", file}, dir, "/f", "file " + file + ":1"},
			{[]string{"--access-file", "/g"}, dir, "/g", "flag --access-file"},
		} {
			c, err := l.parse(tt.args, map[string]string{"CREDENTIALS_DIRECTORY": tt.dir})
			if err != nil || len(c.faults) > 0 {
				t.Fatal(err, c.faults)
			}
			if got, where := c.AccessFile, c.Origin("access-file"); got != tt.want || where != tt.where {
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

// TestTokensFileIsRefused wherever it is given, and the error names the replacement.
func TestTokensFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "http-tokens"), nil, 0o400))
	for _, l := range commandLines {
		for _, tt := range []struct {
			args []string
			env  map[string]string
			from string
		}{
			{[]string{"--http-tokens-file", "/f"}, nil, "flag --http-tokens-file"},
			{nil, map[string]string{"POLYSTALKD_HTTP_TOKENS_FILE": "/f"}, "variable POLYSTALKD_HTTP_TOKENS_FILE"},
			{[]string{"--config", confFile(t, "http-tokens-file = \"/f\"\n")}, nil, "http-tokens-file"},
			{nil, map[string]string{"CREDENTIALS_DIRECTORY": dir}, "credential http-tokens"},
		} {
			if _, isVariable := tt.env["POLYSTALKD_HTTP_TOKENS_FILE"]; isVariable && l.name != "polystalkd" {
				continue // in place of gearmand variables are not read
			}
			c, err := l.parse(tt.args, tt.env)
			if err == nil {
				err = c.Validate()
			}
			if err == nil || !strings.Contains(err.Error(), tt.from) || !strings.Contains(err.Error(), "polystalk access convert FILE") {
				t.Errorf("%s %v %v: %v", l.name, tt.args, tt.env, err)
			}
		}
	}
	c, err := parse([]string{"--access-file", "/a", "--http-anonymous", "read"}, nil)
	must(t, err)
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "[identity.default]") {
		t.Errorf("an access file beside --http-anonymous: %v", err)
	}
}
