package daemon

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"polystalk/codec/conversation"
)

// Start runs Program for the length of the test.
func Start(t *testing.T, args ...string) *conversation.Server {
	t.Helper()
	noteSources()
	s, err := conversation.StartServer(Program(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Kill ends a server as a crash of the process would.
func Kill(s *conversation.Server) {
	s.Kill()
}

// AwaitStat waits until the server's stats show a value.
func AwaitStat(t *testing.T, s *conversation.Server, key string, value uint64) {
	t.Helper()
	d := &conversation.NetDriver{Address: s.Address}
	defer d.Shutdown()
	if err := d.Await(key, strconv.FormatUint(value, 10)); err != nil {
		t.Fatal(err)
	}
}

// ShardCounts are the numbers of shards that every protocol test is run with.
var ShardCounts = []int{1, 4, 16}

// ShardArgs are the arguments for a server with so many shards.
func ShardArgs(shards int) []string {
	if os.Getenv("POLYSTALKD_BIN") != "" {
		return nil // somebody else's server
	}
	return []string{"--shards", strconv.Itoa(shards), "--log-level", "error"}
}

// Amount is how much of something a test does: n, or what the environment
// says.
func Amount(t *testing.T, name string, n int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return n
	}
	m, err := strconv.Atoi(v)
	if err != nil || m <= 0 {
		t.Fatalf("%s=%q: want a number above 0", name, v)
	}
	return m
}

// The flags of tests that play random sessions.
var (
	Seed     = flag.Uint64("seed", 1, "seed of the first random session")
	Sessions = flag.Int("sessions", 200, "random sessions for each number of shards")
	Commands = flag.Int("commands", 150, "commands of a random session")
)
