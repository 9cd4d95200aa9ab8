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
	// The table of a report shows medians in a column with this title and format, and ratios in the
	// next one. Without a format there is no column.
	title  string
	format string
	scale  float64
	ratio  string
}

var metrics = []metric{
	{"ops", func(r *Run) float64 { return r.OpsRate }, false, "ops/s", "%.0f", 1, "%.3g"},
	{"cpu", func(r *Run) float64 { return r.CPU }, false, "CPU µs/op", "%.3f", 1, "%.3f"},
	{"busy", func(r *Run) float64 { return r.Busy }, true, "busy", "%.0f%%", 100, ""},
	{"p50", func(r *Run) float64 { return r.Latency.P50 }, false, "p50 µs", "%.0f", 1, ""},
	{"p99", func(r *Run) float64 { return r.Latency.P99 }, false, "p99 µs", "%.0f", 1, "%.2f"},
	{"p999", func(r *Run) float64 { return r.Latency.P999 }, false, "p99.9 µs", "%.0f", 1, ""},
	{"max", func(r *Run) float64 { return r.Latency.Max }, false, "max µs", "%.0f", 1, ""},
	{"rss-before", func(r *Run) float64 { return float64(r.RSSBefore) }, false, "RSS MB before", "%.1f", 1e-6, ""},
	{"rss", func(r *Run) float64 { return float64(r.RSSAfter) }, false, "after", "%.1f", 1e-6, ""},
	{"load-cpu", func(r *Run) float64 { return r.LoadCPU }, false, "", "", 0, ""},
	{"load-busy", func(r *Run) float64 { return r.LoadBusy }, true, "load busy", "%.0f%%", 100, ""},
	{"early", func(r *Run) float64 { return r.Growth.Early }, false, "early/s", "%.0f", 1, ""},
	{"late", func(r *Run) float64 { return r.Growth.Late }, false, "late/s", "%.0f", 1, ""},
	{"sustained", func(r *Run) float64 { return r.Growth.Late / max(r.Growth.Early, 1e-9) }, true, "late/early", "%.2f", 1, ""},
	{"bytes", func(r *Run) float64 { return r.Memory.bytesPerJob() }, true, "B/job", "%.0f", 1, ""},
	{"kept", func(r *Run) float64 { return r.Memory.kept() }, true, "kept", "%.0f%%", 100, ""},
}

// in returns the figure of a run, and whether it is known.
func (m metric) in(r *Run) (v float64, known bool) {
	v = m.of(r)
	return v, v != 0 || m.name == "kept" && r.Memory.Jobs > 0
}

// A side is a load and a server: one half of a ratio.
type side struct{ load, server string }

func (r *Run) side() side { return side{r.Load, r.Server} }

// sides lists the loads and servers that were run, in order.
func sides(runs []Run) (all []side) {
	for i := range runs {
		if s := runs[i].side(); !slices.Contains(all, s) {
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
		if v, known := m.in(&runs[i]); known && at == runs[i].side() {
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
			if a.Round == b.Round && num == a.side() && den == b.side() && m.of(a) != 0 && m.of(b) != 0 {
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
	holds        func(value, bound float64) bool
	bound        float64
}

var comparisons = map[string]func(a, b float64) bool{
	"<=": func(a, b float64) bool { return a <= b },
	"<":  func(a, b float64) bool { return a < b },
	">=": func(a, b float64) bool { return a >= b },
	">":  func(a, b float64) bool { return a > b },
}

var assertionForm = regexp.MustCompile(`^(?:([^<>]+?)\s*:)?\s*(?:([A-Za-z0-9._#-]+)\.)?([a-z][a-z0-9-]*)\s*(?:/\s*([^<>]+?))?\s*(<=|>=|<|>)\s*([0-9.eE+-]+)$`)

func parseAssertion(s string) (assertion, error) {
	m := assertionForm.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return assertion{}, fmt.Errorf("assertion %q is not of the form [load:][server.]metric[/against]<=number, such as cpu<=0.85", s)
	}
	a := assertion{text: strings.TrimSpace(s), load: m[1], server: m[2], against: m[4], holds: comparisons[m[5]]}
	var names []string
	for _, k := range metrics {
		names = append(names, k.name)
		if k.name == m[3] {
			a.metric = k
		}
	}
	if a.metric.of == nil {
		return a, fmt.Errorf("assertion %q: there is no metric %q; the metrics are %s", s, m[3], strings.Join(names, " "))
	}
	var err error
	if a.bound, err = strconv.ParseFloat(m[6], 64); err != nil {
		return a, fmt.Errorf("assertion %q: %q is not a number", s, m[6])
	}
	return a, nil
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
		v.Value, v.Known = a.value(runs, at, targets[0].Name)
		v.Holds = v.Known && a.holds(v.Value, a.bound)
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
