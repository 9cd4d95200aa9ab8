package main

import (
	"fmt"
	"sync"
	"testing"

	"polystalk/codec/wiretest"
)

// TestRandomSessionsAgree plays random sessions of several connections against
// the installed reference and the daemon in lock-step.
func TestRandomSessionsAgree(t *testing.T) {
	program, unquoted := installedReference(t)
	for _, shards := range shardCounts {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			t.Parallel()
			// Two pairs of servers share the seeds: a pair is idle half of
			// its time.
			var wg sync.WaitGroup
			half := *sessionsFlag / 2
			for _, part := range []struct {
				seed  uint64
				count int
			}{{*seedFlag, half}, {*seedFlag + uint64(half), *sessionsFlag - half}} {
				wg.Go(func() {
					report, seed, err := wiretest.Compare(program, daemonBinary(t), shardArgs(shards), unquoted, part.seed, part.count, *commandsFlag)
					if err != nil {
						t.Error(err)
					}
					if report != "" {
						t.Errorf("%s\n\nagain with: go test ./cmd/polystalkd -run 'TestRandomSessionsAgree/shards=%d' -sessions 1 -commands %d -seed %d",
							report, shards, *commandsFlag, seed)
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestMalformedLinesAgree sends every malformed line to both.
func TestMalformedLinesAgree(t *testing.T) {
	program, unquoted := installedReference(t)
	for _, shards := range shardCounts {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			t.Parallel()
			reference, err := wiretest.StartServer(program)
			if err != nil {
				t.Fatal(err)
			}
			defer reference.Stop()
			subject := startDaemon(t, shardArgs(shards)...)
			played, differences, err := wiretest.CompareMalformed(reference.Address, subject.Address, unquoted)
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
