package wire

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/admin"
)

// A place is where clients of both protocols are served.
type place struct {
	beanstalk, gearman string // HOST:PORT
	pid                int    // of the process that has the jobs
}

// places runs a test at each place where clients are to be served alike: at one server, and at
// one of three that keep the same jobs, which hands them on to the one that leads.
func places(t *testing.T, test func(*testing.T, *place)) {
	t.Helper()
	t.Run("alone", func(t *testing.T) {
		s, gear := daemon.StartGearman(t)
		test(t, &place{s.Address, gear, s.Cmd.Process.Pid})
	})
	if os.Getenv("POLYSTALKD_BIN") != "" {
		return // another server
	}
	t.Run("handed on", func(t *testing.T) { test(t, follower(t)) })
}

// follower starts three servers, and returns the place of one that does not lead during the
// test.
func follower(t *testing.T) *place {
	t.Helper()
	// On a machine that is busy for seconds the same server leads all the same.
	steady := []string{"--cluster-timeout", "10s"}
	leads := serveFirst(t, steady...)
	others, join := []*member{newMember(t, "jobs2"), newMember(t, "jobs3")}, append(steady, "--cluster-join", leads.cluster)
	for _, m := range others {
		m.launch(t, join...)
	}
	for _, m := range others { // both come at the same time, which is sooner
		m.serve(t, join...)
	}
	last := others[1]
	var k *admin.Cluster
	for end := time.Now().Add(3 * daemon.Hang); !areThree(k); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to be that three servers vote: %+v", k)
		}
		k = askCluster(t, last.dir)
	}
	t.Cleanup(func() {
		var is *admin.Cluster
		for end := time.Now().Add(daemon.Hang); is == nil && time.Now().Before(end); {
			is = askCluster(t, last.dir)
		}
		if is == nil || is.Leader == nil || *is.Leader != "jobs1" || is.Term != k.Term {
			t.Errorf("jobs1 has not led all the time: %+v", is)
		}
	})
	return &place{last.Listen[0], last.gear, leads.Cmd.Process.Pid}
}

// standBy starts two servers, and returns the place of the one that never leads: there is no
// election to wait for.
func standBy(t *testing.T) *place {
	t.Helper()
	leads := serveFirst(t)
	other := newMember(t, "jobs2")
	join := []string{"--cluster-join", leads.cluster, "--cluster-standby"}
	other.launch(t, join...)
	other.serve(t, join...)
	return &place{other.Listen[0], other.gear, leads.Cmd.Process.Pid}
}

// A member is a server of a cluster that speaks both protocols, on a directory of its own.
type member struct {
	name, dir, gear, cluster string
	*daemon.Server
}

func newMember(t *testing.T, name string) *member {
	t.Helper()
	return &member{name: name, dir: daemon.ShortDir(t), gear: daemon.FreeAddress(t), cluster: daemon.FreeAddress(t)}
}

// serveFirst has one serve that makes a cluster, and leads it.
func serveFirst(t *testing.T, more ...string) *member {
	t.Helper()
	m, args := newMember(t, "jobs1"), append(more, "--cluster-new")
	m.launch(t, args...)
	m.serve(t, args...)
	m.WaitLog("this server leads: clients are served here")
	return m
}

// launch starts its process, with more flags.
func (m *member) launch(t *testing.T, more ...string) {
	t.Helper()
	args := append([]string{
		"--log-format", "json", "-l", "127.0.0.1", "-p", "0", "--shards", "4", "-b", m.dir,
		"--gearman-listen", m.gear, "--gearman-prefix", "H:lap", "--cluster-node", m.name, "--cluster-listen", m.cluster,
	}, more...)
	cmd := exec.Command(daemon.Binary, args...)
	cmd.Env = daemon.CleanEnv()
	m.Server = daemon.Launch(t, cmd)
}

// serve waits until it serves. Between the choice of a port and its use another process may take
// it, so that it is tried again, as another one.
func (m *member) serve(t *testing.T, more ...string) {
	t.Helper()
	for try := 0; !m.Serves(); try++ {
		if try == 5 {
			t.Fatalf("polystalkd ended instead of serving; stderr:\n%s", m.LogText())
		}
		*m = *newMember(t, m.name)
		m.launch(t, more...)
	}
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
	k := new(admin.Cluster)
	if _, _, err := daemon.NewAPI(filepath.Join(dir, "cluster.sock")).Do("GET", "/api/v1/cluster", "", nil, k); err != nil {
		return nil
	}
	return k
}
