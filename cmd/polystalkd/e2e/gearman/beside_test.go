package gearman

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/e2e/operator"
	"polystalk/codec/gearman"
	"polystalk/codec/gearmantest"
)

// operated is how many jobs of his own an operator has, beside a history.
const operated = 40

// TestRandomHistoriesAgreeBesideAnOperator is TestRandomHistoriesAgree with somebody who
// operates our server by HTTP meanwhile. His jobs are put before anybody comes, and
// the reference has given as many handles by then: nothing may differ but that lists tell of
// them too.
func TestRandomHistoriesAgreeBesideAnOperator(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	program, _, err := gearmantest.Reference()
	if err != nil {
		t.Skip(err)
	}
	for _, shards := range daemon.ShardCounts {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			t.Parallel()
			dir, n := daemon.ShortDir(t), new(atomic.Int64)
			did := map[string]int{}
			reference, subject := gearmantest.Lockstep(program), gearmanStart(daemon.Program(t), shards)
			c := &gearmantest.Campaign{
				Dir:     t.TempDir(),
				Without: withoutOperator,
				Reference: func(c *gearmantest.Case, dir string) (*gearmantest.Server, error) {
					s, err := reference(c, dir)
					if err == nil {
						giveHandles(t, s.Address)
					}
					return s, err
				},
				Subject: func(c *gearmantest.Case, d string) (*gearmantest.Server, error) {
					o := operator.New(filepath.Join(dir, fmt.Sprint(n.Add(1))), *daemon.Seed+uint64(n.Load()))
					with := *c
					with.Opts = append(slices.Clone(c.Opts), o.Flags()...)
					s, err := subject(&with, d)
					if err == nil {
						err = o.PutFirst(operated)
					}
					if err != nil {
						return s, err
					}
					o.Begin()
					stop := s.Stop
					s.Stop = func() {
						if err := o.End(); err != nil {
							t.Error(err)
						}
						for what, n := range o.Did() {
							did[what] += n
						}
						stop()
					}
					return s, nil
				},
			}
			for i := range max(1, *historiesFlag/2) {
				seed := *daemon.Seed + uint64(i)
				report, err := c.Compare(seed, *daemon.Commands)
				if err != nil {
					t.Fatal(err)
				}
				if report != "" {
					t.Fatalf("%s\n\nagain with: go test ./cmd/polystalkd/e2e/gearman -run '%s' -histories 2 -commands %d -seed %d", report, t.Name(), *daemon.Commands, seed)
				}
			}
			for _, what := range []string{"look", "list", "look at a job", "edited to the same", "edit", "kick", "bury", "bulk", "pause"} {
				if did[what] == 0 {
					t.Errorf("%s: never in %v", what, did)
				}
			}
			t.Logf("the operator's: %v", did)
		})
	}
}

// withoutOperator is a list without the operator's jobs. They live for ever, and have no
// unique ids.
func withoutOperator(list string, lines []string) []string {
	left := operated
	return slices.DeleteFunc(lines, func(line string) bool {
		switch list {
		case "status", "prioritystatus":
			return strings.HasPrefix(line, "operator-")
		case "show jobs":
			n := 0
			_, err := fmt.Sscanf(line, "H:lap:%d\t", &n)
			return err == nil && n <= operated
		case "show unique jobs":
			if line == "\n" {
				left--
			}
			return line == "\n" && left >= 0
		}
		return false
	})
}

// giveHandles has the reference give as many handles as the operator's jobs have ids, and
// forget what for.
func giveHandles(t *testing.T, address string) {
	t.Helper()
	c := daemon.DialGearman(t, address)
	defer c.Close()
	for i := range operated {
		if n := c.Created(t, gearman.SubmitJobBG, "for-handles", "", ""); n != i+1 {
			t.Fatalf("handle %d is the first of %d", n, i+1)
		}
	}
	c.Send([]byte(daemon.Request(gearman.CanDo, "for-handles")))
	for i := range operated {
		c.Ask(t, daemon.Request(gearman.GrabJob), gearman.JobAssign, fmt.Sprintf("H:lap:%d\x00for-handles\x00", i+1))
		c.Send([]byte(daemon.Request(gearman.WorkComplete, fmt.Sprintf("H:lap:%d", i+1), "")))
	}
	c.Send([]byte(daemon.Request(gearman.CantDo, "for-handles") + "drop function for-handles\n"))
	if text, err := c.R.ReadString('\n'); text != gearman.MsgOK {
		t.Fatalf("drop function: %q, %v", text, err)
	}
}
