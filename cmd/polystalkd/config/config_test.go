package config

import (
	"fmt"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/fault"
)

func parse(args []string, env map[string]string) (*Config, error) {
	return Parse(args, func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
}

// valid returns the validated result of Parse: valid(t)(parse(args, env)).
func valid(t *testing.T) func(c *Config, err error) *Config {
	return func(c *Config, err error) *Config {
		t.Helper()
		if err == nil {
			err = c.Validate()
		}
		if err != nil {
			t.Fatal(fault.All(err))
		}
		return c
	}
}

// TestVariablesOfOthers: variables with our prefix that images or Kubernetes set.
func TestVariablesOfOthers(t *testing.T) {
	c := valid(t)(parse(nil, map[string]string{"POLYSTALKD_VERSION": "1.2.3", "POLYSTALKD_HELP": "true", "POLYSTALKD_PORT": "tcp://10.0.0.1:11300"}))
	if c.Port != "11300" || len(c.Warnings) != 1 {
		t.Errorf("port %q, warnings %q", c.Port, c.Warnings)
	}
}

func TestFlagWinsOverVariable(t *testing.T) {
	env := map[string]string{
		"POLYSTALKD_PORT": "1", "POLYSTALKD_LISTEN": "::1, unix:/x", "POLYSTALKD_MAX_JOB_SIZE": "2",
		"POLYSTALKD_LOOPS": "3", "POLYSTALKD_VERBOSE": "2", "POLYSTALKD_NO_FSYNC": "true",
		"POLYSTALKD_FSYNC_MS": "0", "POLYSTALKD_BINLOG_SIZE": "", "POLYSTALKD_LOG_FORMAT": "json",
	}
	for _, tt := range []struct {
		args string
		want string
	}{
		{"", "1 [::1 unix:/x] 2 3 2 true 0s 10485760 json"},
		{"-p11300 -lfoo -z 99999 --loops 4 -V -F=false -f7 -s1 --log-format=text", "11300 [foo] 99999 4 1 false 7ms 1 text"},
		{"-l a -l b --listen c --port 5", "5 [a b c] 2 3 2 true 0s 10485760 json"},
		{"-F -f 50", "1 [::1 unix:/x] 2 3 2 false 50ms 10485760 json"},
		{"-f 50", "1 [::1 unix:/x] 2 3 2 false 50ms 10485760 json"},
	} {
		c, err := parse(strings.Fields(tt.args), env)
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		got := fmt.Sprint(c.Port, " ", c.Listen, " ", c.MaxJobSize, " ", c.Loops, " ", c.Verbose, " ", c.NoFsync, " ", c.FsyncEvery, " ", c.BinlogSize, " ", c.LogFormat)
		if got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.args, got, tt.want)
		}
	}
}

func TestDefaultsAreTheReferences(t *testing.T) {
	c := valid(t)(parse(nil, nil))
	if len(c.Addresses) != 1 || c.Addresses[0].Host != "0.0.0.0" || c.Addresses[0].Port != "11300" {
		t.Errorf("addresses %+v", c.Addresses)
	}
	if c.MaxJobSize != 65535 || c.BinlogSize != 10<<20 || c.FsyncEvery != 0 || c.NoFsync {
		t.Errorf("job size %d, binlog size %d, fsync every %v", c.MaxJobSize, c.BinlogSize, c.FsyncEvery)
	}
	if c.Loops < 1 || c.Shards < 4*c.Loops || c.Shards >= 8*c.Loops || c.Shards&(c.Shards-1) != 0 {
		t.Errorf("%d loops and %d shards", c.Loops, c.Shards)
	}
}

func TestOddValuesThatTheReferenceAccepts(t *testing.T) {
	for _, tt := range []struct {
		args  []string
		size  uint32
		warns int
	}{
		{[]string{"-z", "2000000000"}, jobSizeMax, 1},
		{[]string{"-z99999999999999999999999"}, jobSizeMax, 1},
		{[]string{"-z", "-1"}, jobSizeMax, 1},
		{[]string{"-z", "1073741824"}, jobSizeMax, 0},
		{[]string{"-z", " +12"}, 12, 0},
		{[]string{"-z0"}, 0, 0},
		{[]string{"-c", "-n"}, jobSizeDefault, 2},
		{[]string{"-Fz7"}, 7, 0},
	} {
		c, err := parse(tt.args, nil)
		if err != nil {
			t.Errorf("%q: %v", tt.args, err)
			continue
		}
		if c.MaxJobSize != tt.size || len(c.Warnings) != tt.warns {
			t.Errorf("%q: size %d, want %d; warnings %q, want %d", tt.args, c.MaxJobSize, tt.size, c.Warnings, tt.warns)
		}
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
