package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An assertion is a bound on one figure:
//
//	[load:] [server.]metric[/against] op number
//
//	cpu<=0.85                      every server against the baseline, under every load
//	cycle: polystalkd.cpu/floor<=1.08   against another server, under the load named cycle
//	tubes-5000: cpu/@tubes-50<=1.15     against the same server under another load
//	memory: bytes<=200             absolute: bytes, kept and sustained are, unless /against is given
//
// Metrics are the names in the table metrics; op is one of <= < >= >. Without
// a server it holds for all but the baseline and the floor; without a load,
// for all loads.
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
	var ok bool
	if a.metric, ok = metricNamed(m[3]); !ok {
		names := make([]string, len(metrics))
		for i, m := range metrics {
			names[i] = m.name
		}
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

// judge applies a to all that it speaks of. An assertion about nothing that
// was run gives one verdict that is not known.
func (a assertion) judge(runs []run, targets []target) []verdict {
	var out []verdict
	for _, pair := range pairs(runs) {
		if a.load != "" && a.load != pair.load {
			continue
		}
		i := slices.IndexFunc(targets, func(t target) bool { return t.Name == pair.server })
		if a.server != "" && a.server != pair.server {
			continue
		}
		if a.server == "" && len(targets) > 1 && (i == 0 || targets[i].Constant) {
			continue
		}
		v := verdict{Assertion: a.text, Load: pair.load, Server: pair.server}
		v.Value, v.Known = a.value(runs, pair, targets[0].Name)
		if v.Known {
			v.Holds = a.holds(v.Value)
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		out = []verdict{{Assertion: a.text, Load: a.load, Server: a.server}}
	}
	return out
}

func pairs(runs []run) []side {
	var out []side
	for _, r := range runs {
		if p := (side{r.Load, r.Server}); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

func (a assertion) value(runs []run, num side, baseline string) (float64, bool) {
	den := side{num.load, baseline}
	switch {
	case strings.HasPrefix(a.against, "@"):
		den = side{a.against[1:], num.server}
	case a.against != "":
		den.server = a.against
	case a.metric.absolute:
		values := figures(runs, num.load, num.server, a.metric)
		// Zero is "not known" for every metric but kept, which a server may
		// well bring down to nothing: bytes tells whether it was measured.
		if a.metric.name == "kept" {
			bytes, _ := metricNamed("bytes")
			if v, ok := median(figures(runs, num.load, num.server, bytes)); !ok || v == 0 {
				return 0, false
			}
			return median(values)
		}
		v, ok := median(values)
		return v, ok && v != 0
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

// failures turns verdicts into an error; what was not measured is a failure
// too, since a check that checks nothing must not pass.
func failures(verdicts []verdict) error {
	var errs []error
	for _, v := range verdicts {
		if !v.Holds {
			errs = append(errs, errors.New("assertion: "+v.String()))
		}
	}
	return errors.Join(errs...)
}
