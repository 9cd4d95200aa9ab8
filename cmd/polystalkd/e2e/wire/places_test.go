package wire

import (
	"os"
	"os/exec"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// A place is where clients of both protocols are served.
type place struct {
	beanstalk, gearman string // HOST:PORT
	pid                int    // of the process that has the jobs
}

// places runs a test at each place where clients are to be served alike: at one server, and at
// a follower, which hands them on to the leader.
func places(t *testing.T, test func(*testing.T, *place)) {
	t.Helper()
	t.Run("alone", func(t *testing.T) {
		s, gear := daemon.StartGearman(t)
		test(t, &place{s.Address, gear, s.Cmd.Process.Pid})
	})
	if os.Getenv("POLYSTALKD_BIN") != "" {
		return // another server
	}
	t.Run("handed on", func(t *testing.T) { test(t, standBy(t)) })
}

// standBy starts two servers, and returns the place of the one that never leads: there is no
// election to wait for.
func standBy(t *testing.T) *place {
	t.Helper()
	leads := serve(t, "jobs1", "--cluster-new")
	leads.WaitLog("this server leads: clients are served here")
	other := serve(t, "jobs2", "--cluster-join", leads.cluster, "--cluster-standby")
	return &place{other.Listen[0], other.gear, leads.Cmd.Process.Pid}
}

// A member is a server of a cluster that speaks both protocols, on a directory of its own.
type member struct {
	gear, cluster string
	*daemon.Server
}

// serve starts a member, and waits until it serves. Between the choice of a port and its use
// another process may take the port: then it starts another one.
func serve(t *testing.T, name string, more ...string) *member {
	t.Helper()
	var m *member
	for range 5 {
		m = &member{gear: daemon.FreeAddress(t), cluster: daemon.FreeAddress(t)}
		cmd := exec.Command(daemon.Binary, append([]string{
			"--log-format", "json", "-l", "127.0.0.1", "-p", "0", "--shards", "4", "-b", daemon.ShortDir(t),
			"--gearman-listen", m.gear, "--gearman-prefix", "H:lap", "--cluster-node", name, "--cluster-listen", m.cluster,
		}, more...)...)
		cmd.Env = daemon.CleanEnv()
		if m.Server = daemon.Launch(t, cmd); m.Serves() {
			return m
		}
	}
	t.Fatalf("polystalkd ended instead of serving; stderr:\n%s", m.LogText())
	return nil
}
