package wire

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// startWithDescriptors starts the daemon with at most n descriptors.
func startWithDescriptors(t *testing.T, n int, args ...string) *conversation.Server {
	t.Helper()
	script := filepath.Join(t.TempDir(), "few-descriptors")
	text := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec '%s' \"$@\"\n", n, daemon.Program(t))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := conversation.StartServer(script, append(daemon.ShardArgs(4), args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// tryConnection returns a new connection that is served, or nil.
func tryConnection(address string) *conversation.Client {
	c, err := conversation.Dial("tcp", address)
	if err != nil {
		return nil
	}
	if err := c.Say([]byte("list-tube-used\r\n")); err == nil && c.Ready(4*conversation.Silence) {
		if reply, err := c.Reply(conversation.Patience); err == nil && string(reply) == "USING default\r\n" {
			return c
		}
	}
	c.Close()
	return nil
}

// TestTooManyConnectionsAreRefused: without a free place or descriptor connections are
// refused, and served again once others have left.
func TestTooManyConnectionsAreRefused(t *testing.T) {
	recovers := func(t *testing.T, s *conversation.Server) {
		t.Helper()
		for end := time.Now().Add(conversation.Patience); time.Now().Before(end); {
			if c := tryConnection(s.Address); c != nil {
				c.Close()
				return
			}
		}
		t.Fatal("no connection is served again")
	}
	for name, tt := range map[string]struct{ descriptors, least, most int }{
		"limit":       {1000, 10, 10},
		"descriptors": {64, 1, 64},
	} {
		t.Run(name, func(t *testing.T) {
			limit := tt.most
			if name == "descriptors" {
				limit = 1000 // above the descriptors, so that they run out first
				if testing.Short() {
					t.Skip("long")
				}
			}
			s := startWithDescriptors(t, tt.descriptors, "--max-connections", fmt.Sprint(limit))
			for range 3 {
				var crowd []*conversation.Client
				for refused := 0; refused < 10 && len(crowd) <= tt.most; refused++ {
					if c := tryConnection(s.Address); c != nil {
						crowd, refused = append(crowd, c), -1
					}
				}
				if len(crowd) < tt.least || len(crowd) > tt.most {
					t.Fatalf("%d connections are served, want %d to %d", len(crowd), tt.least, tt.most)
				}
				for i, c := range crowd {
					daemon.Expect(t, c, "list-tube-used\r\n", "USING default\r\n")
					c.Close()
					if i == len(crowd)/2 {
						recovers(t, s)
					}
				}
				recovers(t, s)
			}
			daemon.AwaitStat(t, s, "current-connections", 0)
		})
	}
}
