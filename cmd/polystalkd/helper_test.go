package main

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"polystalk/codec/wiretest"
)

// daemonBinary is the program the protocol tests play: what TestMain built, or
// another one named in POLYSTALKD_BIN.
func daemonBinary(t *testing.T) string {
	t.Helper()
	if program := os.Getenv("POLYSTALKD_BIN"); program != "" {
		return program
	}
	return binary
}

// startDaemon runs the daemon for the length of the test.
func startDaemon(t *testing.T, args ...string) *wiretest.Server {
	t.Helper()
	s, err := wiretest.StartServer(daemonBinary(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// dialDaemon opens a connection that is closed with the test.
func dialDaemon(t *testing.T, s *wiretest.Server) *wiretest.Client {
	t.Helper()
	c, err := wiretest.Dial("tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// expect sends a command and checks its reply.
func expect(t *testing.T, c *wiretest.Client, command, want string) {
	t.Helper()
	got, err := c.Ask(command)
	if err != nil {
		t.Fatalf("%q: %v", command, err)
	}
	if string(got) != want {
		t.Fatalf("%q: got %q, want %q", command, got, want)
	}
}

// installedReference finds the reference server, or skips the test.
func installedReference(t *testing.T) (program string, unquoted bool) {
	t.Helper()
	program, unquoted, err := wiretest.Reference()
	if err != nil {
		t.Skip(err)
	}
	return program, unquoted
}

// shardCounts are the numbers of shards that every protocol test is run with.
var shardCounts = []int{1, 4, 16}

func shardArgs(shards int) []string {
	if os.Getenv("POLYSTALKD_BIN") != "" {
		return nil // somebody else's server
	}
	return []string{"--shards", strconv.Itoa(shards), "--log-level", "error"}
}

var (
	seedFlag     = flag.Uint64("seed", 1, "seed of the first random session")
	sessionsFlag = flag.Int("sessions", 200, "random sessions for each number of shards")
	commandsFlag = flag.Int("commands", 150, "commands of a random session")
)
