package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"polystalk/codec/gearmantest"
)

var historiesFlag = flag.Int("histories", 12, "random Gearman histories for each number of shards, one more with a seed nobody has chosen")

// TestRandomHistoriesAgree plays random conversations of clients, workers and
// administrators against the installed gearmand and the daemon in lock-step.
func TestRandomHistoriesAgree(t *testing.T) {
	program, version, err := gearmantest.Reference()
	if err != nil {
		t.Skip(err)
	}
	t.Logf("gearmand %s", version)
	unchosen := rand.Uint64()
	for _, shards := range shardCounts {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			t.Parallel()
			play := func(seed uint64) {
				report, err := gearmantest.Compare(gearmantest.Lockstep(program), gearmanStart(daemonBinary(t), shards), t.TempDir(), seed, *commandsFlag)
				if err != nil {
					t.Fatal(err)
				}
				if report != "" {
					t.Fatalf("%s\n\nagain with: go test ./cmd/polystalkd -run 'TestRandomHistoriesAgree/shards=%d' -histories 1 -commands %d -seed %d",
						report, shards, *commandsFlag, seed)
				}
			}
			for i := range *historiesFlag {
				play(*seedFlag + uint64(i))
			}
			t.Logf("and seed %d", unchosen)
			play(unchosen)
		})
	}
}
