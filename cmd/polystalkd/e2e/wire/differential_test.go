package wire

import (
	"fmt"
	"sync"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// TestRandomSessionsAgree plays random sessions of several connections against
// the installed reference and the daemon in lock-step.
func TestRandomSessionsAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	program, unquoted := daemon.Reference(t)
	for _, shards := range daemon.ShardCounts {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			t.Parallel()
			// Two pairs of servers share the seeds: a pair is idle half of
			// its time.
			var wg sync.WaitGroup
			half := *daemon.Sessions / 2
			for _, part := range []struct {
				seed  uint64
				count int
			}{{*daemon.Seed, half}, {*daemon.Seed + uint64(half), *daemon.Sessions - half}} {
				wg.Go(func() {
					report, seed, err := conversation.Compare(program, daemon.Program(t), daemon.ShardArgs(shards), unquoted, part.seed, part.count, *daemon.Commands)
					if err != nil {
						t.Error(err)
					}
					if report != "" {
						t.Errorf("%s\n\nagain with: go test ./cmd/polystalkd -run 'TestRandomSessionsAgree/shards=%d' -sessions 1 -commands %d -seed %d",
							report, shards, *daemon.Commands, seed)
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestMalformedLinesAgree sends every malformed line to both.
func TestMalformedLinesAgree(t *testing.T) {
	program, unquoted := daemon.Reference(t)
	for _, shards := range daemon.ShardCounts {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			t.Parallel()
			reference, err := conversation.StartServer(program)
			if err != nil {
				t.Fatal(err)
			}
			defer reference.Stop()
			subject := daemon.Start(t, daemon.ShardArgs(shards)...)
			played, differences, err := conversation.CompareMalformed(reference.Address, subject.Address, unquoted)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range differences {
				t.Error(d)
			}
			t.Logf("%d lines played", played)
		})
	}
}
