package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"polystalk/loadtest/proc"
)

// A comparison is every load against every target, several rounds.
type comparison struct {
	Loads   []Load
	Targets []target // the first one is the baseline of all ratios
	Rounds  int
	Show    *display
}

// run interleaves: within a round every load meets every target in turn, each
// a fresh process, so that a slow minute of the machine hits all of them; the
// target that begins moves on by one each round.
func (c *comparison) run(ctx context.Context, sp *proc.Spawner) ([]run, error) {
	var runs []run
	total := 0
	for round := range c.Rounds {
		for _, l := range c.Loads {
			for _, t := range c.Targets {
				if meets(l, t, round) {
					total++
				}
			}
		}
	}
	for round := range c.Rounds {
		for _, l := range c.Loads {
			for i := range c.Targets {
				t := &c.Targets[(i+round)%len(c.Targets)]
				if !meets(l, *t, round) {
					continue
				}
				c.Show.begin(fmt.Sprintf("[%d/%d] round %d  %s  %s", len(runs)+1, total, round+1, l.Name, t.Name))
				r, err := c.one(ctx, sp, l, t)
				if err != nil {
					return runs, fmt.Errorf("load %q on %s, round %d: %w", l.Name, t.Name, round+1, err)
				}
				r.Round, r.Server = round+1, t.Name
				runs = append(runs, *r)
				c.Show.end(*r)
			}
		}
	}
	return runs, nil
}

// meets tells whether l runs on t in this round, counted from 0. The floor
// keeps no jobs, so that most workloads make no sense there.
func meets(l Load, t target, round int) bool {
	if t.Constant && !l.spec().constant {
		return false
	}
	return (l.Rounds == 0 || round < l.Rounds) && !slices.Contains(l.Skip, t.Name)
}

func (c *comparison) one(ctx context.Context, sp *proc.Spawner, l Load, t *target) (_ *run, err error) {
	p := plan{Addr: t.addr, ServerPID: t.pid}
	if t.addr == "" {
		s, err := startTarget(ctx, sp, *t, l)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		p = plan{Addr: s.addr, ServerPID: s.pid, Constant: t.Constant, Throwaway: true}
	}
	if t.Version == "" && !t.Constant {
		if t.Version, err = l.protocol().version(ctx, p.Addr); err != nil {
			return nil, err
		}
	}
	return measure(ctx, sp, l, p, c.Show.progress)
}

var versionLine = regexp.MustCompile(`(?m)^version: "?([^"\n]*)"?$`)

// beanstalkdVersion asks the server.
func beanstalkdVersion(ctx context.Context, addr string) (string, error) {
	c, err := dial(ctx, addr, &Load{}, false)
	if err != nil {
		return "", err
	}
	defer c.NC.Close()
	c.NC.SetDeadline(time.Now().Add(grace))
	r, err := c.call(kindOK, "stats")
	if err != nil {
		return "", err
	}
	m := versionLine.FindSubmatch(r.body)
	if m == nil {
		return "", fmt.Errorf("stats has no version: %q", r.body)
	}
	return string(m[1]), c.quit()
}

// A summary is the median over the rounds of one load against one server.
type summary struct {
	Load   string             `json:"load"`
	Server string             `json:"server"`
	Rounds int                `json:"rounds"`
	Median map[string]float64 `json:"median"` // by metric
	// Ratio is the median, over the rounds, of this server's figure divided by
	// the baseline's in the same round; empty for metrics that are not known.
	Ratio map[string]float64 `json:"ratio_to_baseline"`
}

// A metric is one figure of a run. Figures that are zero are not known.
type metric struct {
	name string
	of   func(*run) float64
	// absolute figures mean something without a baseline
	absolute bool
}

var metrics = []metric{
	{"ops", func(r *run) float64 { return r.OpsRate }, false},
	{"cpu", func(r *run) float64 { return r.CPU }, false},
	{"busy", func(r *run) float64 { return r.Busy }, true},
	{"p50", func(r *run) float64 { return r.Latency.P50 }, false},
	{"p99", func(r *run) float64 { return r.Latency.P99 }, false},
	{"p999", func(r *run) float64 { return r.Latency.P999 }, false},
	{"max", func(r *run) float64 { return r.Latency.Max }, false},
	{"rss", func(r *run) float64 { return float64(r.RSSAfter) }, false},
	{"rss-before", func(r *run) float64 { return float64(r.RSSBefore) }, false},
	{"load-cpu", func(r *run) float64 { return r.LoadCPU }, false},
	{"load-busy", func(r *run) float64 { return r.LoadBusy }, true},
	{"bytes", func(r *run) float64 { return r.Memory.bytesPerJob() }, true},
	{"early", func(r *run) float64 { return r.Growth.early() }, false},
	{"late", func(r *run) float64 { return r.Growth.late() }, false},
	{"sustained", func(r *run) float64 { return r.Growth.sustained() }, true},
	{"kept", func(r *run) float64 { return r.Memory.kept() }, true},
}

func metricNamed(name string) (metric, bool) {
	i := slices.IndexFunc(metrics, func(m metric) bool { return m.name == name })
	if i < 0 {
		return metric{}, false
	}
	return metrics[i], true
}

// summarizeRuns keeps the order in which loads and servers first appear.
func summarizeRuns(runs []run, baseline string) []summary {
	var out []summary
	for _, first := range runs {
		if slices.ContainsFunc(out, func(s summary) bool { return s.Load == first.Load && s.Server == first.Server }) {
			continue
		}
		s := summary{Load: first.Load, Server: first.Server, Median: map[string]float64{}, Ratio: map[string]float64{}}
		for _, m := range metrics {
			values := figures(runs, first.Load, first.Server, m)
			s.Rounds = max(s.Rounds, len(values))
			if v, ok := median(values); ok && v != 0 {
				s.Median[m.name] = v
			}
			if v, ok := medianRatio(runs, m, side{first.Load, first.Server}, side{first.Load, baseline}); ok {
				s.Ratio[m.name] = v
			}
		}
		out = append(out, s)
	}
	return out
}

func figures(runs []run, load, server string, m metric) []float64 {
	var values []float64
	for i := range runs {
		if runs[i].Load == load && runs[i].Server == server {
			values = append(values, m.of(&runs[i]))
		}
	}
	return values
}

// A side is one half of a ratio.
type side struct{ load, server string }

// medianRatio pairs the runs of the two sides by round, which cancels what
// made a whole round slow, and takes the median of the quotients.
func medianRatio(runs []run, m metric, num, den side) (float64, bool) {
	var ratios []float64
	for i := range runs {
		a := &runs[i]
		if a.Load != num.load || a.Server != num.server {
			continue
		}
		for j := range runs {
			b := &runs[j]
			if b.Round == a.Round && b.Load == den.load && b.Server == den.server && m.of(b) != 0 && m.of(a) != 0 {
				ratios = append(ratios, m.of(a)/m.of(b))
			}
		}
	}
	return median(ratios)
}

// median of an even number of values is the mean of the middle two.
func median(values []float64) (float64, bool) {
	n := len(values)
	if n == 0 {
		return 0, false
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(n-1)/2] + v[n/2]) / 2, true
}
