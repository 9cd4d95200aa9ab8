package daemon

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"polystalk/codec/admin"
	"polystalk/codec/wiretest"
)

// A Place is where clients of both protocols are served.
type Place struct {
	Beanstalk, Gearman string // HOST:PORT
	Pid                int    // of the process that has the jobs
}

// Places runs a test at each place where clients are to be served alike: at one server, and at
// one of three that keep the same jobs, which hands them on to the one that leads.
func Places(t *testing.T, test func(*testing.T, *Place)) {
	t.Helper()
	t.Run("alone", func(t *testing.T) {
		s, gear := StartGearman(t)
		test(t, &Place{s.Address, gear, s.Cmd.Process.Pid})
	})
	if os.Getenv("POLYSTALKD_BIN") != "" {
		return // somebody else's server
	}
	t.Run("handed on", func(t *testing.T) { test(t, Follower(t)) })
}

// Follower starts three servers, and gives where one is that does not lead while the test runs.
func Follower(t *testing.T) *Place {
	t.Helper()
	leads, _, _, first := serveMember(t, "jobs1", "--cluster-new")
	leads.WaitLog("this server leads: clients are served here")
	var p Place
	var dir string
	for _, name := range []string{"jobs2", "jobs3"} {
		var s *Server
		s, dir, p.Gearman, _ = serveMember(t, name, "--cluster-join", first)
		p.Beanstalk = s.Listen[0]
	}
	p.Pid = leads.Cmd.Process.Pid
	var k *admin.Cluster
	for end := time.Now().Add(3 * Hang); !areThree(k); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to be that three servers vote: %+v", k)
		}
		k = askCluster(t, dir)
	}
	t.Cleanup(func() {
		if is := askCluster(t, dir); is == nil || is.Leader == nil || *is.Leader != "jobs1" || is.Term != k.Term {
			t.Errorf("jobs1 has not led all the time: %+v", is)
		}
	})
	return &p
}

// serveMember starts a server that speaks both protocols, on a directory of its own. Between the
// choice of a port and its use another process may take it, so that it is tried again.
func serveMember(t *testing.T, name string, more ...string) (s *Server, dir, gear, cluster string) {
	t.Helper()
	for range 5 {
		dir, gear, cluster = ShortDir(t), FreeAddress(t), FreeAddress(t)
		args := append([]string{
			"--log-format", "json", "-l", "127.0.0.1", "-p", "0", "--shards", "4", "-b", dir,
			"--gearman-listen", gear, "--gearman-prefix", "H:lap", "--cluster-node", name, "--cluster-listen", cluster,
			// On a machine that is busy for seconds the same server leads all the same.
			"--cluster-timeout", "5s",
		}, more...)
		cmd := exec.Command(Binary, args...)
		cmd.Env = CleanEnv()
		s = Launch(t, cmd)
		if s.Serves() {
			return s, dir, gear, cluster
		}
	}
	t.Fatalf("polystalkd ended instead of serving; stderr:\n%s", s.LogText())
	return nil, "", "", ""
}

// areThree reports whether the first of three leads, and all vote.
func areThree(k *admin.Cluster) bool {
	if k == nil || k.Leader == nil || *k.Leader != "jobs1" || len(k.Members) != 3 {
		return false
	}
	for _, m := range k.Members {
		if m.Kind != admin.MemberVotes || !m.Connected {
			return false
		}
	}
	return true
}

// askCluster is what the server of a directory says of its cluster; nil: it does not answer.
func askCluster(t *testing.T, dir string) *admin.Cluster {
	t.Helper()
	var d net.Dialer
	client := http.Client{Timeout: Hang, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", filepath.Join(dir, "cluster.sock"))
		},
	}}
	res, err := client.Get("http://localhost/api/v1/cluster")
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	k := new(admin.Cluster)
	if res.StatusCode != http.StatusOK || json.NewDecoder(res.Body).Decode(k) != nil {
		return nil
	}
	return k
}

// FreeAddress is one on this machine where nobody listens, and which the kernel gives to nobody
// until a server listens there.
func FreeAddress(t *testing.T) string {
	t.Helper()
	port, err := wiretest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
