// Package daemon runs the polystalkd of these sources for tests that see it from
// outside, and talks to it: over its sockets, by signals, through its log and its exit
// code.
package daemon

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/codec/conversation"
)

// Binary is the path of the polystalkd under test. Main sets it.
var Binary string

// Main is a package's TestMain: it builds the program and runs the tests. Before it ends the
// process it calls after, which ends what tests have in common.
func Main(m *testing.M, after ...func()) {
	var err error
	if Binary, err = conversation.Program("polystalkd"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	for _, f := range after {
		f()
	}
	os.Exit(code)
}

// CLI returns the path of the operators' program, polystalk.
func CLI(t testing.TB) string {
	t.Helper()
	path, err := conversation.Program("polystalk")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Program is the program the protocol tests play: what Main built, or
// another one named in POLYSTALKD_BIN.
func Program(t *testing.T) string {
	t.Helper()
	if program := os.Getenv("POLYSTALKD_BIN"); program != "" {
		return program
	}
	return Binary
}

// Hang bounds every wait for the program; a test that meets it has failed.
const Hang = 20 * time.Second

// CleanEnv is our environment without what would configure the program.
func CleanEnv(extra ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "POLYSTALKD_") || strings.HasPrefix(v, "GEARMAND_") || strings.HasPrefix(v, "LISTEN_") || strings.HasPrefix(v, "NOTIFY_SOCKET=")
	})
	return append(env, extra...)
}

// noteSources looks at the sources of the program, once a test has begun: go test takes
// notice of that, and answers from its cache only if they are the same as then.
var noteSources = sync.OnceFunc(func() {
	for _, folder := range []string{"cmd", "codec", "router", "shard"} {
		_ = filepath.WalkDir(filepath.Join("..", "..", "..", "..", folder), func(name string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(name, ".go") {
				_, _ = os.Stat(name)
			}
			return err
		})
	}
})

// FreeAddress is one on this machine where nobody listens, and which the kernel gives to nobody
// until a server listens there.
func FreeAddress(t *testing.T) string {
	t.Helper()
	port, err := conversation.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
