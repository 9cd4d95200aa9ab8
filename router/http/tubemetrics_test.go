package http

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// TestTextIsReadBack by a scraper's parser.
func TestTextIsReadBack(t *testing.T) {
	names := []string{"mail", `a\b`, `say "x"`, "two\nlines", "ä", "{}=,", " ", ""}
	b := appendFamily(nil, "tube_jobs_total", "counter", "Jobs of a tube.")
	for i, n := range names {
		b = appendSeries(b, "tube_jobs_total", appendLabel(nil, "tube", n), float64(i))
	}
	p := expfmt.NewTextParser(model.LegacyValidation)
	got, err := p.TextToMetricFamilies(strings.NewReader(string(b)))
	require(t, err == nil, "%v in\n%s", err, b)
	f := got["tube_jobs_total"]
	require(t, f.GetType().String() == "COUNTER" && f.GetHelp() == "Jobs of a tube." && len(f.Metric) == len(names), "%v", f)
	for i, m := range f.Metric {
		expect(t, m.Label[0].GetName() == "tube" && m.Label[0].GetValue() == names[i] && m.Counter.GetValue() == float64(i), "%q came back as %v", names[i], m)
	}
}

// TestNumbersAreWrittenShortest: each is read as it was, and whole ones have no exponent.
func TestNumbersAreWrittenShortest(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 1e6: "1000000", 1 << 52: "4503599627370496", 0.00390625: "0.00390625", 1.5: "1.5", -2: "-2", -0.5: "-0.5", 1e300: "1e+300",
	} {
		got := string(appendSeries(nil, "m", appendLabel(nil, "a", "b"), v))
		expect(t, got == `m{a="b"} `+want+"\n", "%v is written as %q, want %s", v, got, want)
	}
	for _, v := range []float64{1<<53 - 1, 1 << 53, 1<<63 - 1024, 1 << 63, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64} {
		got, err := strconv.ParseFloat(string(appendNumber(nil, v)), 64)
		expect(t, err == nil && got == v, "%v is read as %v: %v", v, got, err)
	}
}
