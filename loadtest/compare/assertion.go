package compare

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"polystalk/loadtest/measure"
)

// An Assertion is a bound on one figure:
//
//	[load:] [server.]metric[/against] op number
//
//	cpu<=0.85                      every server against the baseline, under every load
//	cycle: polystalkd.cpu/floor<=1.08   against another server, under the load named cycle
//	tubes-5000: cpu/@tubes-50<=1.15     against the same server under another load
//	memory: bytes<=200             absolute: bytes, kept and sustained are, unless /against is given
//
// Metrics are the names in the table Metrics; op is one of <= < >= >. Without
// a server it holds for all but the baseline and the floor; without a load,
// for all loads.
type Assertion struct {
	text         string
	load, server string
	metric       Metric
	against      string // server; with a leading @, a load
	op           string
	bound        float64
}

var assertionForm = regexp.MustCompile(`^(?:([^<>]+?)\s*:)?\s*(?:([A-Za-z0-9._#-]+)\.)?([a-z][a-z0-9-]*)\s*(?:/\s*([^<>]+?))?\s*(<=|>=|<|>)\s*([0-9.eE+-]+)$`)

// ParseAssertion reads one in that form.
func ParseAssertion(s string) (Assertion, error) {
	m := assertionForm.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return Assertion{}, fmt.Errorf("assertion %q is not of the form [load:][server.]metric[/against]<=number, such as cpu<=0.85", s)
	}
	a := Assertion{text: strings.TrimSpace(s), load: m[1], server: m[2], against: m[4], op: m[5]}
	var ok bool
	if a.metric, ok = metricNamed(m[3]); !ok {
		names := make([]string, len(Metrics))
		for i, m := range Metrics {
			names[i] = m.Name
		}
		return a, fmt.Errorf("assertion %q: there is no metric %q; the metrics are %s", s, m[3], strings.Join(names, " "))
	}
	var err error
	if a.bound, err = strconv.ParseFloat(m[6], 64); err != nil {
		return a, fmt.Errorf("assertion %q: %q is not a number", s, m[6])
	}
	return a, nil
}

// A Verdict is an assertion applied to one load and server.
type Verdict struct {
	Assertion string  `json:"assertion"`
	Load      string  `json:"load"`
	Server    string  `json:"server"`
	Known     bool    `json:"known"` // both figures were measured
	Value     float64 `json:"value"`
	Holds     bool    `json:"holds"`
}

// Measured is the figure in words.
func (v Verdict) Measured() string {
	if !v.Known {
		return "–"
	}
	return strconv.FormatFloat(v.Value, 'g', 3, 64)
}

// Word says whether the bound holds.
func (v Verdict) Word() string {
	switch {
	case !v.Known:
		return "not measured"
	case v.Holds:
		return "holds"
	default:
		return "MISSED"
	}
}

func (v Verdict) String() string {
	return fmt.Sprintf("%-12s %s  (%s, %s: %s)", v.Word(), v.Assertion, v.Load, v.Server, v.Measured())
}

// Judge applies a to all that it speaks of. An assertion about nothing that
// was run gives one verdict that is not known.
func (a Assertion) Judge(runs []measure.Run, targets []Target) []Verdict {
	var out []Verdict
	for _, pair := range pairs(runs) {
		if a.load != "" && a.load != pair.Load {
			continue
		}
		i := slices.IndexFunc(targets, func(t Target) bool { return t.Name == pair.Server })
		if a.server != "" && a.server != pair.Server {
			continue
		}
		if a.server == "" && len(targets) > 1 && (i == 0 || targets[i].Constant) {
			continue
		}
		v := Verdict{Assertion: a.text, Load: pair.Load, Server: pair.Server}
		v.Value, v.Known = a.value(runs, pair, targets[0].Name)
		if v.Known {
			v.Holds = a.holds(v.Value)
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		out = []Verdict{{Assertion: a.text, Load: a.load, Server: a.server}}
	}
	return out
}

func pairs(runs []measure.Run) []Side {
	var out []Side
	for _, r := range runs {
		if p := (Side{r.Load, r.Server}); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

func (a Assertion) value(runs []measure.Run, num Side, baseline string) (float64, bool) {
	den := Side{num.Load, baseline}
	switch {
	case strings.HasPrefix(a.against, "@"):
		den = Side{a.against[1:], num.Server}
	case a.against != "":
		den.Server = a.against
	case a.metric.Absolute:
		values := figures(runs, num.Load, num.Server, a.metric)
		// Zero is "not known" for every metric but kept, which a server may
		// well bring down to nothing: bytes tells whether it was measured.
		if a.metric.Name == "kept" {
			bytes, _ := metricNamed("bytes")
			if v, ok := median(figures(runs, num.Load, num.Server, bytes)); !ok || v == 0 {
				return 0, false
			}
			return median(values)
		}
		v, ok := median(values)
		return v, ok && v != 0
	}
	return medianRatio(runs, a.metric, num, den)
}

func (a Assertion) holds(v float64) bool {
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

// Failures turns verdicts into an error; what was not measured is a failure
// too, since a check that checks nothing must not pass.
func Failures(verdicts []Verdict) error {
	var errs []error
	for _, v := range verdicts {
		if !v.Holds {
			errs = append(errs, errors.New("assertion: "+v.String()))
		}
	}
	return errors.Join(errs...)
}
