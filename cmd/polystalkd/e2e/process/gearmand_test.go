package process

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/gearman"
)

var (
	grab = daemon.Request(gearman.CanDo, "f") + daemon.Request(gearman.GrabJob)
	bg   = daemon.Request(gearman.SubmitJobBG, "f", "", "x")
)

func created(id string) string { return daemon.Response(gearman.JobCreated, "H:x:"+id) }

func assigned(id string) string { return daemon.Response(gearman.JobAssign, "H:x:"+id, "f", "x") }

// TestGearmandUnderItsName: the program's name alone selects gearmand's command line.
func TestGearmandUnderItsName(t *testing.T) {
	link, port := filepath.Join(t.TempDir(), "gearmand"), freePort(t)
	must(t, os.Symlink(daemon.Binary, link))
	cmd := daemon.Command("-L", "localhost", "--threads=4", "--round-robin")
	cmd.Path, cmd.Args[0] = link, link
	cmd.Env = append(cmd.Env, "GEARMAND_PORT="+port)
	s := daemon.Await(t, cmd)
	for _, gear := range s.Gearman() {
		if !strings.HasSuffix(gear, ":"+port) {
			t.Errorf("it listens on %s, not on port %s", gear, port)
		}
		daemon.Says(t, daemon.Dial(t, gear), "maxqueue f 1\ngetpid\n", "OK\r\nOK "+strconv.Itoa(s.Cmd.Process.Pid)+"\n")
	}
	if line := logged(t, s, "serving Gearman"); line["speaks"] != "gearmand 2.0.0" {
		t.Errorf("the log says: %v", line)
	}
	// A protocol without a listener is not mentioned.
	if line := logged(t, s, "serving"); line["listen"] != nil || line["speaks"] != nil || line["pid"] == nil {
		t.Errorf("the log says: %v", line)
	}
	logs(t, s, "flag -t has no effect: ", "flag -R has no effect: ")
	wants(t, daemon.RunToEnd(t, link, daemon.CleanEnv(), "--nosuch"), 1, "gearmand: ", "see gearmand --help")
	if got := daemon.RunToEnd(t, link, daemon.CleanEnv(), "--version"); got.Code != 0 || !strings.HasPrefix(got.Stdout, "polystalkd ") {
		t.Errorf("%+v", got)
	}
}

// TestGearmandGoesWhenItsJobsAreDone: after SIGUSR1, at once if there is no job. Open connections
// are still served, and may even submit.
func TestGearmandGoesWhenItsJobsAreDone(t *testing.T) {
	idle, _ := daemon.GearmandWith(t)
	ends(t, idle, syscall.SIGUSR1)

	s, gear := daemon.GearmandWith(t, "--beanstalk-listen", "127.0.0.1:0")
	conn := daemon.Dial(t, gear)
	daemon.Says(t, conn, bg, created("1"))
	s.Signal(syscall.SIGUSR1)
	logged(t, s, "no new connections are accepted; the server ends when no job is left")
	for _, addr := range []string{gear, s.Listen[0]} {
		if late, err := net.DialTimeout("tcp", addr, daemon.Hang); err == nil {
			late.Close()
			t.Errorf("%s accepts connections", addr)
		}
	}
	s.Signal(syscall.SIGUSR1) // again: nothing new
	daemon.Says(t, conn, daemon.Request(gearman.SubmitJob, "f", "", "x"), created("2"))
	daemon.Says(t, conn, grab, assigned("1"))
	daemon.Says(t, conn, daemon.Request(gearman.WorkComplete, "H:x:1", "")+daemon.Request(gearman.GrabJob), assigned("2"))
	daemon.Says(t, conn, daemon.Request(gearman.WorkComplete, "H:x:2", "done"), daemon.Response(gearman.WorkComplete, "H:x:2", "done"))
	s.EndsWith(0)
}

// TestGearmandLosesNothingWhenItGoes: no job is acknowledged between the last check for jobs and
// the end. A client that always has a job, or is about to submit one, tests that moment.
func TestGearmandLosesNothingWhenItGoes(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for range 10 {
		s, gear := daemon.GearmandWith(t)
		c := daemon.DialGearman(t, gear)
		c.Ask(t, daemon.Request(gearman.CanDo, "f")+daemon.Request(gearman.EchoReq, "a"), gearman.EchoRes, "a")
		s.Signal(syscall.SIGUSR1)
		for id := 1; ; id++ { // no other client has jobs
			_ = c.Send([]byte(bg)) // Reply tells
			if _, _, err := c.Reply(); err != nil {
				break // refused, or the server has gone
			}
			_ = c.Send([]byte(daemon.Request(gearman.GrabJob)))
			if kind, _, err := c.Reply(); kind != gearman.JobAssign {
				t.Fatalf("a job was acknowledged and lost: packet %d, %v", kind, err)
			}
			_ = c.Send([]byte(daemon.Request(gearman.WorkComplete, "H:x:"+strconv.Itoa(id), "")))
		}
		s.EndsWith(0)
	}
}

// TestGearmandLimitsDescriptors: the limit shows in the number of connections. gearmand accepts -f
// 4, as in its own tests, but could not serve with it.
func TestGearmandLimitsDescriptors(t *testing.T) {
	s, _ := daemon.GearmandWith(t, "-f", "100", "--max-connections", "5000")
	line := logged(t, s, "the limit of descriptors allows fewer connections than --max-connections; raise it (ulimit -n, LimitNOFILE)")
	if line["served"].(float64) > 100 {
		t.Errorf("the log says %v", line)
	}
	for n, raised := range map[string]bool{"4": true, "63": true, "0": false, "-1": false} {
		s, gear := daemon.GearmandWith(t, "-f", n)
		daemon.Says(t, daemon.Dial(t, gear), "status\n", ".\n")
		if s.LogHas("flag -f: "+n+" descriptors are too few; the limit is set to 64") != raised {
			t.Errorf("-f %s: %s", n, s.LogText())
		}
	}
}

// TestShutdownSaysWhoSentIt: through TCP, and a unix socket of the service manager.
func TestShutdownSaysWhoSentIt(t *testing.T) {
	s, gear := daemon.GearmandWith(t)
	conn := daemon.Dial(t, gear)
	daemon.Says(t, conn, "shutdown\n", "OK\r\n")
	s.EndsWith(0)
	if line := logged(t, s, "a Gearman administrator sent shutdown"); line["conn"] != conn.LocalAddr().String() {
		t.Errorf("from %s: the log says %v", conn.LocalAddr(), line)
	}
	l, path := listenUnix(t)
	s = daemon.Await(t, activated(t, []listener{l}, "gearmand", "--config-file", os.DevNull))
	daemon.Says(t, daemon.Dial(t, "unix:"+path), "shutdown graceful\n", "OK\r\n")
	s.EndsWith(0)
	if line := logged(t, s, "a Gearman administrator sent shutdown graceful"); line["conn"] != "unix" {
		t.Errorf("from a unix socket: the log says %v", line)
	}
}
