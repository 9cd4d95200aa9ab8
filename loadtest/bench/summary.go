package bench

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A metric is one figure of a run. A figure of zero is unknown, except that a server may keep no
// memory.
type metric struct {
	name     string
	of       func(*Run) float64
	absolute bool // meaningful without a baseline
}

var metrics = []metric{
	{"ops", func(r *Run) float64 { return r.OpsRate }, false},
	{"cpu", func(r *Run) float64 { return r.CPU }, false},
	{"busy", func(r *Run) float64 { return r.Busy }, true},
	{"p50", func(r *Run) float64 { return r.Latency.P50 }, false},
	{"p99", func(r *Run) float64 { return r.Latency.P99 }, false},
	{"p999", func(r *Run) float64 { return r.Latency.P999 }, false},
	{"max", func(r *Run) float64 { return r.Latency.Max }, false},
	{"rss", func(r *Run) float64 { return float64(r.RSSAfter) }, false},
	{"rss-before", func(r *Run) float64 { return float64(r.RSSBefore) }, false},
	{"load-cpu", func(r *Run) float64 { return r.LoadCPU }, false},
	{"load-busy", func(r *Run) float64 { return r.LoadBusy }, true},
	{"bytes", func(r *Run) float64 { return r.Memory.bytesPerJob() }, true},
	{"kept", func(r *Run) float64 { return r.Memory.kept() }, true},
	{"early", func(r *Run) float64 { return r.Growth.Early }, false},
	{"late", func(r *Run) float64 { return r.Growth.Late }, false},
	{"sustained", func(r *Run) float64 {
		return r.Growth.Late / max(r.Growth.Early, 1e-9)
	}, true},
}

// in returns the figure of a run, and whether it is known.
func (m metric) in(r *Run) (v float64, known bool) {
	v = m.of(r)
	return v, v != 0 || m.name == "kept" && r.Memory.Jobs > 0
}

// A side is a load and a server: one half of a ratio.
type side struct{ load, server string }

// sides lists the loads and servers that were run, in order.
func sides(runs []Run) (all []side) {
	for _, r := range runs {
		if s := (side{r.Load, r.Server}); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// A summary is the median over the rounds of one load against one server.
type summary struct {
	Load   string             `json:"load"`
	Server string             `json:"server"`
	Rounds int                `json:"rounds"`
	Median map[string]float64 `json:"median"` // by metric
	// Ratio is the median over the rounds of this server's figure divided by the baseline's figure
	// in the same round. Unknown metrics are missing.
	Ratio map[string]float64 `json:"ratio_to_baseline"`
}

func summarizeRuns(runs []Run, baseline string) []summary {
	var out []summary
	for _, at := range sides(runs) {
		s := summary{Load: at.load, Server: at.server, Median: map[string]float64{}, Ratio: map[string]float64{}}
		for _, m := range metrics {
			values := figures(runs, m, at)
			s.Rounds = max(s.Rounds, len(values))
			if v, ok := median(values); ok {
				s.Median[m.name] = v
			}
			if v, ok := medianRatio(runs, m, at, side{at.load, baseline}); ok {
				s.Ratio[m.name] = v
			}
		}
		out = append(out, s)
	}
	return out
}

// figures returns the known figures of one side.
func figures(runs []Run, m metric, at side) (values []float64) {
	for i := range runs {
		if v, known := m.in(&runs[i]); known && at == (side{runs[i].Load, runs[i].Server}) {
			values = append(values, v)
		}
	}
	return values
}

// medianRatio returns the median of the quotients of two sides. It pairs their runs by round, which
// cancels out influences on a whole round.
func medianRatio(runs []Run, m metric, num, den side) (float64, bool) {
	var ratios []float64
	for i := range runs {
		for j := range runs {
			a, b := &runs[i], &runs[j]
			if a.Round == b.Round && num == (side{a.Load, a.Server}) && den == (side{b.Load, b.Server}) && m.of(a) != 0 && m.of(b) != 0 {
				ratios = append(ratios, m.of(a)/m.of(b))
			}
		}
	}
	return median(ratios)
}

// median returns the median. For an even number of values it is the mean of the middle two.
func median(values []float64) (float64, bool) {
	n := len(values)
	if n == 0 {
		return 0, false
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(n-1)/2] + v[n/2]) / 2, true
}

// An assertion is a bound on one figure:
//
//	[load:] [server.]metric[/against] op number
//
//	cpu<=0.85                           every server against the baseline, under every load
//	cycle: polystalkd.cpu/floor<=1.08   against another server, under the load named cycle
//	tubes-5000: cpu/@tubes-50<=1.15     against the same server under another load
//	memory: bytes<=200                  absolute: bytes, kept and sustained are, without /against
//
// op is one of <= < >= >. Without a server the assertion holds for all servers except the baseline
// and the floor; without a load, for all loads.
type assertion struct {
	text         string
	load, server string
	metric       metric
	against      string // server; with a leading @, a load
	op           string
	bound        float64
}

var assertionForm = regexp.MustCompile(`^(?:([^<>]+?)\s*:)?\s*(?:([A-Za-z0-9._#-]+)\.)?([a-z][a-z0-9-]*)\s*(?:/\s*([^<>]+?))?\s*(<=|>=|<|>)\s*([0-9.eE+-]+)$`)

func parseAssertion(s string) (assertion, error) {
	m := assertionForm.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return assertion{}, fmt.Errorf("assertion %q is not of the form [load:][server.]metric[/against]<=number, such as cpu<=0.85", s)
	}
	a := assertion{text: strings.TrimSpace(s), load: m[1], server: m[2], against: m[4], op: m[5]}
	i := slices.IndexFunc(metrics, func(k metric) bool { return k.name == m[3] })
	if i < 0 {
		var names []string
		for _, m := range metrics {
			names = append(names, m.name)
		}
		return a, fmt.Errorf("assertion %q: there is no metric %q; the metrics are %s", s, m[3], strings.Join(names, " "))
	}
	a.metric = metrics[i]
	var err error
	if a.bound, err = strconv.ParseFloat(m[6], 64); err != nil {
		return a, fmt.Errorf("assertion %q: %q is not a number", s, m[6])
	}
	return a, nil
}

func parseAssertions(lines []string) ([]assertion, error) {
	all := make([]assertion, len(lines))
	for i, line := range lines {
		var err error
		if all[i], err = parseAssertion(line); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// A verdict is an assertion applied to one load and server.
type verdict struct {
	Assertion string  `json:"assertion"`
	Load      string  `json:"load"`
	Server    string  `json:"server"`
	Known     bool    `json:"known"` // both figures were measured
	Value     float64 `json:"value"`
	Holds     bool    `json:"holds"`
}

func (v verdict) measured() string {
	if !v.Known {
		return "–"
	}
	return strconv.FormatFloat(v.Value, 'g', 3, 64)
}

func (v verdict) word() string {
	switch {
	case !v.Known:
		return "not measured"
	case v.Holds:
		return "holds"
	default:
		return "MISSED"
	}
}

func (v verdict) String() string {
	return fmt.Sprintf("%-12s %s  (%s, %s: %s)", v.word(), v.Assertion, v.Load, v.Server, v.measured())
}

// judge applies a to all loads and servers that it matches. If none match, it returns one verdict
// that is not known.
func (a assertion) judge(runs []Run, targets []Target) []verdict {
	var out []verdict
	for _, at := range sides(runs) {
		i := slices.IndexFunc(targets, func(t Target) bool { return t.Name == at.server })
		other := a.server != "" && a.server != at.server
		implied := a.server == "" && len(targets) > 1 && (i == 0 || targets[i].Constant)
		if a.load != "" && a.load != at.load || other || implied {
			continue
		}
		v := verdict{Assertion: a.text, Load: at.load, Server: at.server}
		if v.Value, v.Known = a.value(runs, at, targets[0].Name); v.Known {
			v.Holds = a.holds(v.Value)
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		out = []verdict{{Assertion: a.text, Load: a.load, Server: a.server}}
	}
	return out
}

func (a assertion) value(runs []Run, num side, baseline string) (float64, bool) {
	den := side{num.load, baseline}
	switch load, isLoad := strings.CutPrefix(a.against, "@"); {
	case isLoad:
		den = side{load, num.server}
	case a.against != "":
		den.server = a.against
	case a.metric.absolute:
		return median(figures(runs, a.metric, num))
	}
	return medianRatio(runs, a.metric, num, den)
}

func (a assertion) holds(v float64) bool {
	switch a.op {
	case "<=":
		return v <= a.bound
	case "<":
		return v < a.bound
	case ">=":
		return v >= a.bound
	default:
		return v > a.bound
	}
}

// failures returns the failed verdicts as an error. An unknown verdict is a failure too: a check
// that checks nothing must not pass.
func failures(verdicts []verdict) error {
	var errs []error
	for _, v := range verdicts {
		if !v.Holds {
			errs = append(errs, errors.New("assertion: "+v.String()))
		}
	}
	return errors.Join(errs...)
}
