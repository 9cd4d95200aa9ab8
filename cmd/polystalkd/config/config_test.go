package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"polystalk/cmd/internal/program"
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

// TestConnectionMemory: the bound is large enough that one client cannot make the server close the
// connection of another that sends the largest body.
func TestConnectionMemory(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want int64
		warn int
	}{
		{[]string{"--connection-memory", "100000000"}, 100000000, 0},
		{[]string{"--connection-memory", "1"}, connectionMemoryMin, 1},
		{[]string{"--connection-memory", "100000000", "-z", "100000000"}, 400000000, 1},
		{[]string{"--connection-memory", "100000000", "--gearman-listen", "127.0.0.1:4730"}, 256 << 20, 1},
	} {
		c, err := parse(tt.args, nil)
		if err == nil {
			err = c.Validate()
		}
		if err != nil || c.Router().ConnectionMemory != tt.want || len(c.Warnings) != tt.warn {
			t.Errorf("%q: %d bytes, warnings %q, %v, want %d", tt.args, c.ConnectionMemory, c.Warnings, err, tt.want)
		}
	}
	c := valid(t)(parse(nil, nil))
	// The default is a quarter of the machine's memory, or of the limit of its control groups.
	have, err := memlimit.FromSystem()
	must(t, err)
	if limit, err := memlimit.FromCgroup(); err == nil && limit > 0 {
		have = min(have, limit)
	}
	if got, want := c.ConnectionMemory, max(connectionMemoryMin, int64(have/connectionMemoryPart)); got != want {
		t.Errorf("by default %d bytes, want %d", got, want)
	}
}

// TestVersionsOfRepliesAreSemantic: a version has at most one "+", and ours follows it.
func TestVersionsOfRepliesAreSemantic(t *testing.T) {
	defer func(was string) { program.Version = was }(program.Version)
	program.Version = "0.2.0-rc.1+modified"
	for got, want := range map[string]string{
		statsVersion(): "1.13.0+polystalk.0.2.0-rc.1.modified", gearmanVersion(): "2.0.0+polystalk.0.2.0-rc.1.modified",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if line := VersionLine(false); !strings.HasPrefix(line, "polystalkd 0.2.0-rc.1+modified (speaks ") {
		t.Errorf("%s", line)
	}
}

// TestClusterIsRefused: invalid settings of a cluster, and the messages.
func TestClusterIsRefused(t *testing.T) {
	const good = "-b /d --cluster-listen 127.0.0.1:1 --cluster-node n1"
	for _, tt := range []struct {
		args string
		says []string // all in one fault
	}{
		{"--cluster-new", []string{"--cluster-new", "no effect", "without --cluster-listen"}},
		{"--cluster-timeout 1s", []string{"--cluster-timeout", "without --cluster-listen"}},
		{"-b /d --cluster-listen=", []string{"--cluster-listen", "empty", "leave it out"}},
		{"-b /d --cluster-listen 127.0.0.1", []string{`"127.0.0.1"`, "HOST:PORT"}},
		{"-b /d --cluster-listen 127.0.0.1:0", []string{`"127.0.0.1:0"`, "HOST:PORT"}},
		{"--cluster-listen 127.0.0.1:1", []string{"--cluster-listen", "give -b"}},
		{good + " -f 50", []string{"-f", "majority", "leave it out"}},
		{good + " -F", []string{"-F", "majority", "leave it out"}},
		{good + " --cluster-new --cluster-join 127.0.0.1:2", []string{"--cluster-new", "--cluster-join out"}},
		{good + " --cluster-new --cluster-standby", []string{"--cluster-standby", "leave one"}},
		{good + " --cluster-bootstrap 127.0.0.1:2,127.0.0.1:3", []string{"--cluster-bootstrap", `"127.0.0.1:1"`, "--cluster-advertise"}},
		{good + " --cluster-new --cluster-bootstrap 127.0.0.1:1", []string{"--cluster-bootstrap", "leave --cluster-new"}},
		{good + " --cluster-join 127.0.0.1:2 --cluster-bootstrap 127.0.0.1:1", []string{"--cluster-bootstrap", "--cluster-join"}},
		{good + " --cluster-standby --cluster-bootstrap 127.0.0.1:1", []string{"--cluster-bootstrap", "--cluster-standby"}},
		{good + " --cluster-bootstrap 127.0.0.1:1,127.0.0.1:1", []string{"--cluster-bootstrap", "twice: name each server once"}},
		{good + " --cluster-bootstrap 127.0.0.1", []string{"--cluster-bootstrap", `"127.0.0.1"`, "HOST:PORT"}},
		{good + " --cluster-join 127.0.0.1:2,:3", []string{"--cluster-join", `":3"`, "HOST:PORT"}},
		{good + " --cluster-advertise here", []string{"--cluster-advertise", `"here"`, "HOST:PORT"}},
		{"-b /d --cluster-plaintext --cluster-listen 0.0.0.0:1", []string{`"0.0.0.0:1"`, "give --cluster-advertise"}},
		{"-b /d --cluster-plaintext --cluster-listen [::]:1", []string{`"[::]:1"`, "give --cluster-advertise"}},
		{"-b /d --cluster-plaintext --cluster-listen :1", []string{`":1"`, "give --cluster-advertise"}},
		{"-b /d --cluster-listen 10.0.0.1:1", []string{`"10.0.0.1:1"`, "give --cluster-cert", "--cluster-plaintext"}},
		{good + " --cluster-cert c", []string{"--cluster-cert", "needs --cluster-ca", "none of them"}},
		{good + " --cluster-cert c --cluster-key k --cluster-ca a --cluster-plaintext", []string{"--cluster-plaintext", "leave one of the two out"}},
		{good + " --cluster-node a/b", []string{"--cluster-node", `"a/b"`, "use 1 to 63 of a-z"}},
		{"-b /d --cluster-listen 127.0.0.1:1 --cluster-node N1", []string{"--cluster-node", `"N1"`, "a-z"}},
	} {
		c, err := parse(strings.Fields(tt.args), nil)
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		err = c.Validate()
		if all := fault.All(err); len(all) != 1 || all[0].Code != fault.Usage {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		for _, s := range tt.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: it says %q, without %q", tt.args, err, s)
			}
		}
	}
	for _, args := range []string{"--cluster-timeout 50ms", "--cluster-timeout 2", "--cluster-wait -1s", "--cluster-disk-timeout 10ms", "--cluster-catchup-rate fast", "--loops many"} {
		_, err := parse(strings.Fields(args), nil)
		name, _, _ := strings.Cut(args, " ")
		if _, ok := errors.AsType[*fault.Fault](err); !ok || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "give a") {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestClusterDefaults: defaults come from the machine or from other settings.
func TestClusterDefaults(t *testing.T) {
	env := map[string]string{"POLYSTALKD_CLUSTER_JOIN": "a:1, b:2", "POLYSTALKD_CLUSTER_TIMEOUT": "2s"}
	c := valid(t)(parse(strings.Fields("-b /d -f 0 --cluster-listen 10.0.0.1:5 --cluster-plaintext"), env))
	k := c.Cluster
	if k.Node == "" || k.Advertise != "10.0.0.1:5" || strings.Join(k.Join, " ") != "a:1 b:2" ||
		k.Timeout != 2*time.Second || k.Wait != 4*time.Second || k.DiskTimeout != 10*time.Second || k.Address.Port != "5" {
		t.Errorf("%+v", k)
	}
	c = valid(t)(parse([]string{"-b", "/d", "--cluster-listen", "127.0.0.1:5", "--cluster-join", "a:1, b:2", "--cluster-join", "b:2"}, nil))
	if strings.Join(c.Cluster.Join, " ") != "a:1 b:2" {
		t.Errorf("%v", c.Cluster.Join)
	}
	env = map[string]string{"POLYSTALKD_CLUSTER_BOOTSTRAP": "b:2,127.0.0.1:5"}
	c = valid(t)(parse([]string{"-b", "/d", "--cluster-listen", "127.0.0.1:5"}, env))
	if strings.Join(c.Cluster.Bootstrap, " ") != "b:2 127.0.0.1:5" {
		t.Errorf("%v", c.Cluster.Bootstrap)
	}
}
