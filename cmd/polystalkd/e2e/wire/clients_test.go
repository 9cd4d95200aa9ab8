package wire

import (
	"context"
	"errors"
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
	"polystalk/codec/conversation"
)

// atServers runs a test of a client at each server: that of POLYSTALKD_ADDR, or those of the
// test's own.
func atServers(t *testing.T, test func(t *testing.T, address string)) {
	t.Helper()
	if address := os.Getenv("POLYSTALKD_ADDR"); address != "" {
		test(t, address)
		return
	}
	daemon.Places(t, func(t *testing.T, p *daemon.Place) { test(t, p.Beanstalk) })
}

// runClient runs a script of testdata/clients with an installed interpreter.
// probe is a program text that fails where the client library is missing.
func runClient(t *testing.T, interpreter, option, probe, script, install string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(interpreter); err != nil {
		t.Skipf("%v: install %s", err, install)
	}
	env := os.Environ()
	if dir := os.Getenv("JACKD_DIR"); dir != "" {
		env = append(env, "NODE_PATH="+filepath.Join(dir, "node_modules"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), daemon.ClientTime)
	defer cancel()
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, interpreter, args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if _, err := run(option, probe); err != nil {
		t.Skipf("no library for %s: install %s", interpreter, install)
	}
	out, err := run(append([]string{filepath.Join("testdata", "clients", script)}, args...)...)
	if err != nil || !strings.HasSuffix(out, "ok\n") {
		t.Errorf("%s: %v\n%s", script, err, out)
	}
}

func TestRubyBeaneater(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	atServers(t, func(t *testing.T, address string) {
		runClient(t, "ruby", "-e", "require 'beaneater'", "whole_life.rb", "ruby and ruby-beaneater", address)
	})
}

func TestPHPPheanstalk(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	atServers(t, func(t *testing.T, address string) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		runClient(t, "php", "-r", "exit((include 'Pheanstalk/autoload.php') === false ? 1 : 0);", "whole_life.php", "php-cli and php-pda-pheanstalk", host, port)
	})
}

func TestNodeJackd(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	atServers(t, func(t *testing.T, address string) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		runClient(t, "node", "-e", "require('jackd')", "whole_life.js", "node, and jackd with npm, and set NODE_PATH or JACKD_DIR", host, port)
	})
}

func TestGoBeanstalk(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	atServers(t, func(t *testing.T, address string) { goWholeLife(t, "tcp", address) })
}

func TestGoBeanstalkOverUnixSocket(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "s")
	args := []string{"-l", "unix:" + path}
	if os.Getenv("POLYSTALKD_BIN") == "" {
		args = append(args, "--log-level", "error")
	}
	s := conversation.NewServer(exec.Command(daemon.Program(t), args...), path)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if err := s.AwaitAccept("unix", path); err != nil {
		t.Fatal(err)
	}
	goWholeLife(t, "unix", path)
}

// unquoted takes off YAML's quotes, which go-beanstalk keeps.
func unquoted(s string) string { return strings.Trim(s, `"`) }

// goWholeLife takes a job through everything go-beanstalk can do with it.
func goWholeLife(t *testing.T, network, address string) {
	c, err := beanstalk.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	tube := beanstalk.NewTube(c, "go.life")
	watched := beanstalk.NewTubeSet(c, "go.life")

	id, err := tube.Put([]byte("first"), 10, 0, time.Minute)
	must("put", err)
	ready, body, err := tube.PeekReady()
	must("peek-ready", err)
	if ready != id || string(body) != "first" {
		t.Errorf("peek-ready: %d %q", ready, body)
	}
	if _, _, err = tube.PeekBuried(); !errors.Is(err, beanstalk.ErrNotFound) {
		t.Errorf("peek-buried: %v", err)
	}
	got, body, err := watched.Reserve(10 * time.Second)
	must("reserve", err)
	if got != id || string(body) != "first" {
		t.Errorf("reserve: %d %q", got, body)
	}
	must("touch", c.Touch(id))
	stats, err := c.StatsJob(id)
	must("stats-job", err)
	if stats["state"] != "reserved" || stats["ttr"] != "60" || unquoted(stats["tube"]) != "go.life" || stats["pri"] != "10" {
		t.Errorf("stats-job: %v", stats)
	}
	if _, _, err = watched.Reserve(0); !errors.Is(err, beanstalk.ErrTimeout) {
		t.Errorf("reserve with nothing there: %v", err)
	}

	must("release", c.Release(id, 5, 100*time.Second))
	delayed, _, err := tube.PeekDelayed()
	must("peek-delayed", err)
	if delayed != id {
		t.Errorf("peek-delayed: %d", delayed)
	}
	must("kick-job", c.KickJob(id))
	if _, err = c.ReserveJob(id); err != nil {
		t.Errorf("reserve-job: %v", err)
	}
	must("bury", c.Bury(id, 3))
	tubeStats, err := tube.Stats()
	must("stats-tube", err)
	if tubeStats["current-jobs-buried"] != "1" || unquoted(tubeStats["name"]) != "go.life" {
		t.Errorf("stats-tube: %v", tubeStats)
	}
	n, err := tube.Kick(10)
	must("kick", err)
	if n != 1 {
		t.Errorf("kick: %d", n)
	}

	must("pause-tube", tube.Pause(100*time.Second))
	if _, _, err = watched.Reserve(0); !errors.Is(err, beanstalk.ErrTimeout) {
		t.Errorf("reserve from a paused tube: %v", err)
	}
	must("pause-tube 0", tube.Pause(0))
	if got, _, err = watched.Reserve(10 * time.Second); err != nil || got != id {
		t.Errorf("reserve after the pause: %d, %v", got, err)
	}

	binary := make([]byte, 256, 258)
	for i := range binary {
		binary[i] = byte(i)
	}
	binary = append(binary, "\r\n"...)
	second, err := tube.Put(binary, 0, 0, time.Minute)
	must("put", err)
	if body, err = c.Peek(second); err != nil || !slices.Equal(body, binary) {
		t.Errorf("peek: %q, %v", body, err)
	}
	must("delete", c.Delete(id))
	must("delete", c.Delete(second))
	if err = c.Delete(id); !errors.Is(err, beanstalk.ErrNotFound) {
		t.Errorf("delete again: %v", err)
	}
	tubes, err := c.ListTubes()
	must("list-tubes", err)
	if !slices.Contains(tubes, "go.life") {
		t.Errorf("list-tubes: %q", tubes)
	}
	all, err := c.Stats()
	must("stats", err)
	if all["current-jobs-ready"] != "0" || all["version"] == "" {
		t.Errorf("stats: %v", all)
	}
}
