package wire

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

var historiesFlag = flag.Int("histories", 40, "random Gearman histories for each number of shards, one more with a random seed")

// campaign returns a campaign against the installed reference, or skips the test.
func campaign(t *testing.T, p *conversation.Protocol, shards int) *conversation.Campaign {
	t.Helper()
	program, version, err := p.Reference()
	if err != nil {
		t.Skip(err)
	}
	c := &conversation.Campaign{
		Protocol: p, Version: version, Reference: conversation.StartBeanstalkd(program), Subject: starts(t, p, shards), Dir: t.TempDir(),
	}
	if p == conversation.Gearman {
		// One thread, so that requests run in the order of their arrival, and functions take
		// turns as in 2.0.0 (tag V).
		c.Reference = conversation.StartGearmand(program, "--threads", "1", "--round-robin")
	}
	return c
}

// compare plays count histories, and stops at the first that differs.
func compare(t *testing.T, c *conversation.Campaign, seed uint64, count int) {
	t.Helper()
	for ; count > 0; seed, count = seed+1, count-1 {
		report, err := c.Compare(seed, *daemon.Commands)
		if err != nil {
			t.Fatal(err)
		}
		if report != "" {
			t.Fatalf("%s\n\nagain with: go test ./cmd/polystalkd/e2e/wire -run '%s' -sessions 1 -histories 1 -commands %d -seed %d",
				report, t.Name(), *daemon.Commands, seed)
		}
	}
}

// TestRandomHistoriesAgree plays random conversations of several connections against the
// installed reference and the daemon in lock-step.
func TestRandomHistoriesAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	random := rand.Uint64()
	for _, p := range []*conversation.Protocol{conversation.Beanstalk, conversation.Gearman} {
		for _, shards := range settings {
			t.Run(fmt.Sprintf("%s/shards=%d", p.Name, shards), func(t *testing.T) {
				t.Parallel()
				c, count := campaign(t, p, cmp.Or(shards, 4)), *daemon.Sessions
				if p == conversation.Gearman {
					count = *historiesFlag
				}
				if shards == 0 {
					c.Subject, c.Journaled, count = journaled(c.Subject), true, count/5
				}
				compare(t, c, *daemon.Seed, count)
				compare(t, c, random, 1)
				t.Logf("%s %s: %d commands compared, %d passed over; the last with seed %d", p.Name, c.Version, c.Compared, c.PassedOver, random)
				if c.Compared < c.PassedOver {
					t.Error("most commands were passed over")
				}
			})
		}
	}
}

// A comparison that never finds anything proves nothing: each flag must be found, by what it
// changes.
func TestRandomHistoriesTellServersApart(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for flags, words := range map[string]string{
		"--gearman-prefix=H:x":   "H:x:1",
		"--gearman-retries=1":    "status",
		"--gearman-wakeup=1":     "NOOP",
		"--gearman-exceptions":   "WORK_EXCEPTION",
		"--gearman-failed=bury":  "show jobs",
		"--gearman-max-body=300": "DATA_TOO_LARGE",
		"--max-job-size=300":     "max-job-size",
	} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			p := conversation.Gearman
			if words == "max-job-size" {
				p = conversation.Beanstalk
			}
			c := campaign(t, p, 4)
			c.Patience, c.Whole = time.Second, true
			subject := c.Subject
			c.Subject = func(k *conversation.Conversation, dir string) (*conversation.Server, error) {
				with := *k
				with.Flags = append(slices.Clone(k.Flags), flags)
				return subject(&with, dir)
			}
			for seed := range uint64(40) {
				report, err := c.Compare(seed, 150)
				if err != nil {
					t.Fatal(err)
				}
				why, _, _ := strings.Cut(report, "--- the conversation")
				if strings.Contains(why, words) {
					return
				}
			}
			t.Error("not told apart")
		})
	}
}

// TestMalformedLinesAgree sends every malformed line to both.
func TestMalformedLinesAgree(t *testing.T) {
	program, version := daemon.Reference(t)
	for _, shards := range daemon.ShardCounts {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			if testing.Short() && shards != 4 {
				t.Skip("long")
			}
			t.Parallel()
			reference, err := conversation.StartServer(program)
			if err != nil {
				t.Fatal(err)
			}
			defer reference.Stop()
			subject := daemon.Start(t, daemon.ShardArgs(shards)...)
			played, differences, err := conversation.CompareMalformed(reference.Address, subject.Address, version)
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
