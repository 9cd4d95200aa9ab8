package wire

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
	"polystalk/codec/gearman"
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

// operated is how many jobs of its own an operator has beside a Gearman history.
const operated = 40

// TestRandomHistoriesAgreeBesideAnOperator is TestRandomHistoriesAgree while an operator uses
// our server by HTTP. Its own jobs are left out; nothing else may differ.
func TestRandomHistoriesAgreeBesideAnOperator(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, p := range []*conversation.Protocol{conversation.Beanstalk, conversation.Gearman} {
		for _, shards := range daemon.ShardCounts {
			t.Run(fmt.Sprintf("%s/shards=%d", p.Name, shards), func(t *testing.T) {
				t.Parallel()
				must := []string{"look", "list", "look at a job", "edited to the same", "edit", "kick", "bury", "bulk", "pause"}
				count := max(1, *historiesFlag/2)
				if p == conversation.Beanstalk {
					must = append(must, "put", "delete", "move", "copy", "move many", "flush")
					count = max(1, *daemon.Sessions/2)
				}
				c := campaign(t, p, shards)
				did := beside(t, c)
				compare(t, c, *daemon.Seed, count)
				for _, what := range must {
					if did[what] == 0 {
						t.Errorf("%s: never in %v", what, did)
					}
				}
				t.Logf("the operator did %v", did)
			})
		}
	}
}

// beside lets an operator use the subject of a campaign, and counts what it does.
//
// With Gearman it puts its jobs before the first connection, and the reference gives as many
// handles first: then job handles are the same on both.
func beside(t *testing.T, c *conversation.Campaign) (did map[string]int) {
	dir, n := daemon.ShortDir(t), new(atomic.Int64)
	did = map[string]int{}
	var o *operator
	reference, subject := c.Reference, c.Subject
	tubes := operatorTubes
	if c.Protocol == conversation.Gearman {
		tubes = nil // a job of its own is in each of them
	}
	c.Beside = &conversation.Beside{
		Tubes:   tubes,
		Begin:   func() { o.begin() },
		Still:   func() (own map[string]uint64, goOn func()) { return o.still() },
		Without: withoutOperator,
	}
	c.Reference = func(k *conversation.Conversation, dir string) (*conversation.Server, error) {
		s, err := reference(k, dir)
		if err == nil && c.Protocol == conversation.Gearman {
			giveHandles(t, s.Address)
		}
		return s, err
	}
	c.Subject = func(k *conversation.Conversation, d string) (*conversation.Server, error) {
		o = newOperator(filepath.Join(dir, fmt.Sprint(n.Add(1))), *daemon.Seed+uint64(n.Load()))
		with := *k
		with.Flags = append(slices.Clone(k.Flags), o.flags()...)
		s, err := subject(&with, d)
		if err == nil && c.Protocol == conversation.Gearman {
			err = o.putFirst(operated)
		}
		if err != nil {
			return s, err
		}
		s.BeforeStop = func() {
			if err := o.end(); err != nil {
				t.Error(err)
			}
			for what, n := range o.did {
				did[what] += n
			}
		}
		return s, nil
	}
	return did
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

// giveHandles has the reference give as many handles as the operator has jobs, for jobs that
// are then gone.
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
