package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// runScript runs a script of testdata/clients.
func runScript(t *testing.T, interpreter, script string, args ...string) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), daemon.ClientTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, append([]string{filepath.Join("testdata", "clients", script)}, args...)...)
	cmd.Env = scriptEnv()
	var noise strings.Builder // Node's libraries write much
	cmd.Stderr = &noise
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", script, err, out, noise.String())
	}
	return string(out), err
}

// missingLibrary says what to install before a client can be used. probe is a command line
// that fails where the client's library is missing.
func missingLibrary(t *testing.T, interpreter string, probe []string, install string) string {
	t.Helper()
	if _, err := exec.LookPath(interpreter); err != nil {
		return fmt.Sprintf("%v: install %s", err, install)
	}
	ctx, cancel := context.WithTimeout(t.Context(), daemon.ClientTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, probe...)
	cmd.Env = scriptEnv()
	if cmd.Run() != nil {
		return fmt.Sprintf("no library for %s: install %s", interpreter, install)
	}
	return ""
}

// scriptEnv is our environment with the folders of Node's libraries.
func scriptEnv() []string {
	var dirs []string
	for _, name := range []string{"JACKD_DIR", "GEARMAN_NODE_DIR"} {
		if dir := os.Getenv(name); dir != "" {
			dirs = append(dirs, filepath.Join(dir, "node_modules"))
		}
	}
	env := append(os.Environ(), "NODE_NO_WARNINGS=1")
	if len(dirs) > 0 {
		env = append(env, "NODE_PATH="+strings.Join(dirs, ":"))
	}
	return env
}

// A clientScript is a script of testdata/clients that uses a client library, and ends with "ok".
type clientScript struct {
	name, interpreter string
	probe             []string // arguments with which the interpreter ends with 0 if the library is there
	install           string
	script            string
	args              []string
}

var (
	beaneaterProbe  = []string{"-e", "require 'beaneater'"}
	pheanstalkProbe = []string{"-r", "exit((include 'Pheanstalk/autoload.php') === false ? 1 : 0);"}
	jackdProbe      = []string{"-e", "require('jackd')"}
)

const jackdInstall = "node, and jackd with npm, and set NODE_PATH or JACKD_DIR"

// runClients runs each script. A missing library skips its script by name.
func runClients(t *testing.T, all []clientScript) {
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			if missing := missingLibrary(t, c.interpreter, c.probe, c.install); missing != "" {
				t.Skip(missing)
			}
			if out, err := runScript(t, c.interpreter, c.script, c.args...); err != nil || !strings.HasSuffix(out, "ok\n") {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
}

// TestBeanstalkClients takes a job through all that each client library can do with it.
func TestBeanstalkClients(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	places(t, func(t *testing.T, p *place) {
		host, port, _ := net.SplitHostPort(p.beanstalk)
		runClients(t, []clientScript{
			{"ruby", "ruby", beaneaterProbe, "ruby and ruby-beaneater", "whole_life.rb", []string{p.beanstalk}},
			{"php", "php", pheanstalkProbe, "php-cli and php-pda-pheanstalk", "whole_life.php", []string{host, port}},
			{"node", "node", jackdProbe, jackdInstall, "whole_life.js", []string{host, port}},
		})
		t.Run("go", func(t *testing.T) { goWholeLife(t, func() (net.Conn, error) { return net.Dial("tcp", p.beanstalk) }) })
	})
}

// unquoted removes YAML's quotes, which go-beanstalk keeps.
func unquoted(s string) string { return strings.Trim(s, `"`) }

// goWholeLife takes a job through everything go-beanstalk can do with it.
func goWholeLife(t *testing.T, dial func() (net.Conn, error)) {
	nc, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	c := beanstalk.NewConn(nc)
	defer c.Close()
	must := func(what string, err error, ok bool) {
		t.Helper()
		if err != nil || !ok {
			t.Fatalf("%s: %v", what, err)
		}
	}
	tube := beanstalk.NewTube(c, "go.life")
	watched := beanstalk.NewTubeSet(c, "go.life")

	id, err := tube.Put([]byte("first"), 10, 0, time.Minute)
	must("put", err, true)
	ready, body, err := tube.PeekReady()
	must("peek-ready", err, ready == id && string(body) == "first")
	_, _, err = tube.PeekBuried()
	must("peek-buried", nil, errors.Is(err, beanstalk.ErrNotFound))
	got, body, err := watched.Reserve(10 * time.Second)
	must("reserve", err, got == id && string(body) == "first")
	must("touch", c.Touch(id), true)
	stats, err := c.StatsJob(id)
	must("stats-job", err, stats["state"] == "reserved" && stats["ttr"] == "60" && unquoted(stats["tube"]) == "go.life" && stats["pri"] == "10")
	_, _, err = watched.Reserve(0)
	must("reserve with nothing there", nil, errors.Is(err, beanstalk.ErrTimeout))

	must("release", c.Release(id, 5, 100*time.Second), true)
	delayed, _, err := tube.PeekDelayed()
	must("peek-delayed", err, delayed == id)
	must("kick-job", c.KickJob(id), true)
	_, err = c.ReserveJob(id)
	must("reserve-job", err, true)
	must("bury", c.Bury(id, 3), true)
	stats, err = tube.Stats()
	must("stats-tube", err, stats["current-jobs-buried"] == "1" && unquoted(stats["name"]) == "go.life")
	n, err := tube.Kick(10)
	must("kick", err, n == 1)

	must("pause-tube", tube.Pause(100*time.Second), true)
	_, _, err = watched.Reserve(0)
	must("reserve from a paused tube", nil, errors.Is(err, beanstalk.ErrTimeout))
	must("pause-tube 0", tube.Pause(0), true)
	got, _, err = watched.Reserve(10 * time.Second)
	must("reserve after the pause", err, got == id)

	binary := make([]byte, 256, 258)
	for i := range binary {
		binary[i] = byte(i)
	}
	binary = append(binary, "\r\n"...)
	second, err := tube.Put(binary, 0, 0, time.Minute)
	must("put", err, true)
	body, err = c.Peek(second)
	must("peek", err, slices.Equal(body, binary))
	must("delete", errors.Join(c.Delete(id), c.Delete(second)), true)
	must("delete again", nil, errors.Is(c.Delete(id), beanstalk.ErrNotFound))
	tubes, err := c.ListTubes()
	must("list-tubes", err, slices.Contains(tubes, "go.life"))
	stats, err = c.Stats()
	must("stats", err, stats["current-jobs-ready"] == "0" && stats["version"] != "")
}
