package compare

import (
	"slices"

	"polystalk/loadtest/measure"
)

// A Summary is the median over the rounds of one load against one server.
type Summary struct {
	Load   string             `json:"load"`
	Server string             `json:"server"`
	Rounds int                `json:"rounds"`
	Median map[string]float64 `json:"median"` // by metric
	// Ratio is the median, over the rounds, of this server's figure divided by
	// the baseline's in the same round; empty for metrics that are not known.
	Ratio map[string]float64 `json:"ratio_to_baseline"`
}

// Summarize keeps the order in which loads and servers first appear.
func Summarize(runs []measure.Run, baseline string) []Summary {
	var out []Summary
	for _, first := range runs {
		if slices.ContainsFunc(out, func(s Summary) bool { return s.Load == first.Load && s.Server == first.Server }) {
			continue
		}
		s := Summary{Load: first.Load, Server: first.Server, Median: map[string]float64{}, Ratio: map[string]float64{}}
		for _, m := range Metrics {
			values := figures(runs, first.Load, first.Server, m)
			s.Rounds = max(s.Rounds, len(values))
			if v, ok := median(values); ok && v != 0 {
				s.Median[m.Name] = v
			}
			if v, ok := medianRatio(runs, m, Side{first.Load, first.Server}, Side{first.Load, baseline}); ok {
				s.Ratio[m.Name] = v
			}
		}
		out = append(out, s)
	}
	return out
}

func figures(runs []measure.Run, load, server string, m Metric) []float64 {
	var values []float64
	for i := range runs {
		if runs[i].Load == load && runs[i].Server == server {
			values = append(values, m.Of(&runs[i]))
		}
	}
	return values
}

// A Side is one half of a ratio.
type Side struct{ Load, Server string }

// medianRatio pairs the runs of the two sides by round, which cancels what
// made a whole round slow, and takes the median of the quotients.
func medianRatio(runs []measure.Run, m Metric, num, den Side) (float64, bool) {
	var ratios []float64
	for i := range runs {
		a := &runs[i]
		if a.Load != num.Load || a.Server != num.Server {
			continue
		}
		for j := range runs {
			b := &runs[j]
			if b.Round == a.Round && b.Load == den.Load && b.Server == den.Server && m.Of(b) != 0 && m.Of(a) != 0 {
				ratios = append(ratios, m.Of(a)/m.Of(b))
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
