package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/fault"
)

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
	for _, args := range []string{"--cluster-timeout 50ms", "--cluster-timeout 2", "--cluster-wait -1s", "--cluster-disk-timeout 10ms", "--cluster-catchup-rate fast"} {
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
	c = valid(t)(parse(strings.Fields("-b /d --cluster-listen 127.0.0.1:5 --cluster-join a:1,b:2 --cluster-join b:2"), nil))
	if strings.Join(c.Cluster.Join, " ") != "a:1 b:2" {
		t.Errorf("%v", c.Cluster.Join)
	}
}
