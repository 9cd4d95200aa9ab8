package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"polystalk/loadtest/measure"
	"polystalk/loadtest/proc"
	"polystalk/loadtest/workload"
)

// A Comparison is every load against every target, several rounds.
type Comparison struct {
	Protocol *workload.Protocol // of all targets
	Loads    []workload.Load
	Targets  []Target // the first one is the baseline of all ratios
	Rounds   int
	Show     Display
}

// A Display is told what happens, for people who wait.
type Display interface {
	Begin(title string)
	Progress(ops int64, since time.Duration) // often, between Begin and End
	End(r measure.Run)
}

// Run interleaves: within a round every load meets every target in turn, each
// a fresh process, so that a slow minute of the machine hits all of them; the
// target that begins moves on by one each round. The versions of the targets are
// filled in. After an error what was measured before it is returned with it.
func (c *Comparison) Run(ctx context.Context, sp *proc.Spawner) ([]measure.Run, error) {
	var runs []measure.Run
	total := 0
	for round := range c.Rounds {
		for _, l := range c.Loads {
			for _, t := range c.Targets {
				if c.meets(l, t, round) {
					total++
				}
			}
		}
	}
	for round := range c.Rounds {
		for _, l := range c.Loads {
			for i := range c.Targets {
				t := &c.Targets[(i+round)%len(c.Targets)]
				if !c.meets(l, *t, round) {
					continue
				}
				c.Show.Begin(fmt.Sprintf("[%d/%d] round %d  %s  %s", len(runs)+1, total, round+1, l.Name, t.Name))
				r, err := c.one(ctx, sp, l, t)
				if err != nil {
					return runs, fmt.Errorf("load %q on %s, round %d: %w", l.Name, t.Name, round+1, err)
				}
				r.Round, r.Server = round+1, t.Name
				runs = append(runs, *r)
				c.Show.End(*r)
			}
		}
	}
	return runs, nil
}

// meets tells whether l runs on t in this round, counted from 0. The floor
// keeps no jobs, so that most workloads make no sense there.
func (c *Comparison) meets(l workload.Load, t Target, round int) bool {
	if t.Constant && !c.Protocol.Spec(l).Is(workload.Constant) {
		return false
	}
	return (l.Rounds == 0 || round < l.Rounds) && !slices.Contains(l.Skip, t.Name)
}

func (c *Comparison) one(ctx context.Context, sp *proc.Spawner, l workload.Load, t *Target) (_ *measure.Run, err error) {
	p := workload.Plan{Load: l, Addr: t.addr, ServerPID: t.pid}
	if t.addr == "" {
		s, err := Start(ctx, sp, c.Protocol, *t, l)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.Stop()) }()
		p = workload.Plan{Load: l, Addr: s.Addr, ServerPID: s.PID, Constant: t.Constant, Throwaway: true}
	}
	if t.Version == "" && !t.Constant {
		if t.Version, err = c.Protocol.Version(ctx, p.Addr); err != nil {
			return nil, err
		}
	}
	return measure.Measure(ctx, sp, p, c.Show.Progress)
}
