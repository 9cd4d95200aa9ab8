package gearman

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/gearmantest"
)

var historiesFlag = flag.Int("histories", 20, "random Gearman histories for each number of shards, one more with a seed nobody has chosen")

// TestRandomHistoriesAgree plays random conversations of clients, workers and
// administrators against the installed gearmand and the daemon in lock-step.
func TestRandomHistoriesAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	program, version, err := gearmantest.Reference()
	if err != nil {
		t.Skip(err)
	}
	t.Logf("gearmand %s", version)
	unchosen := rand.Uint64()
	for _, shards := range daemon.ShardCounts {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			t.Parallel()
			c := &gearmantest.Campaign{
				Reference: gearmantest.Lockstep(program), Subject: gearmanStart(daemon.Program(t), shards), Dir: t.TempDir(),
			}
			play := func(seed uint64) {
				report, err := c.Compare(seed, *daemon.Commands)
				if err != nil {
					t.Fatal(err)
				}
				if report != "" {
					t.Fatalf("%s\n\nagain with: go test ./cmd/polystalkd -run 'TestRandomHistoriesAgree/shards=%d' -histories 1 -commands %d -seed %d",
						report, shards, *daemon.Commands, seed)
				}
			}
			for i := range *historiesFlag {
				play(*daemon.Seed + uint64(i))
			}
			t.Logf("and seed %d", unchosen)
			play(unchosen)
			compared, passed := 0, 0
			for op, n := range c.Compared {
				compared += n
				passed += c.PassedOver[op]
			}
			t.Logf("%d requests compared, %d passed over", compared, passed)
			if compared < passed {
				t.Error("most requests were passed over")
			}
		})
	}
}

// A comparison that never finds anything proves nothing: each of these must be
// told from gearmand, by what it does differently.
func TestRandomHistoriesTellServersApart(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	program, _, err := gearmantest.Reference()
	if err != nil {
		t.Skip(err)
	}
	for flags, words := range map[string]string{
		"--gearman-prefix=H:x":   "H:x:1",
		"--gearman-retries=1":    "status",
		"--gearman-wakeup=1":     "NOOP",
		"--gearman-exceptions":   "WORK_EXCEPTION",
		"--gearman-failed=bury":  "show jobs",
		"--gearman-max-body=300": "DATA_TOO_LARGE",
	} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			ours := gearmanStart(daemon.Program(t), 4)
			c := &gearmantest.Campaign{
				Reference: gearmantest.Lockstep(program), Dir: t.TempDir(), Patience: time.Second, Whole: true,
				Subject: func(c *gearmantest.Case, dir string) (*gearmantest.Server, error) {
					with := *c
					with.Opts = append(slices.Clone(c.Opts), flags)
					return ours(&with, dir)
				},
			}
			for seed := range uint64(40) {
				report, err := c.Compare(seed, 150)
				if err != nil {
					t.Fatal(err)
				}
				why, _, _ := strings.Cut(report, "--- said until then")
				if strings.Contains(why, words) {
					return
				}
			}
			t.Error("not told apart")
		})
	}
}
