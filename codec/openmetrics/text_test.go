package openmetrics

import (
	"math"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// TestTextIsReadBack: by the parser of those who scrape.
func TestTextIsReadBack(t *testing.T) {
	names := []string{"mail", `a\b`, `say "x"`, "two\nlines", "ä", "{}=,", " ", ""}
	b := AppendFamily(nil, "tube_jobs_total", Counter, "Jobs of a tube.")
	for i, n := range names {
		b = AppendSample(b, "tube_jobs_total", "tube", n, uint64(i))
	}
	b = AppendFamily(b, "jobs", Gauge, "Jobs.")
	b = AppendSample(b, "jobs", "", "", math.MaxUint32)
	p := expfmt.NewTextParser(model.LegacyValidation)
	got, err := p.TextToMetricFamilies(strings.NewReader(string(b)))
	if err != nil {
		t.Fatalf("%v in\n%s", err, b)
	}
	f := got["tube_jobs_total"]
	if f.GetType().String() != "COUNTER" || f.GetHelp() != "Jobs of a tube." || len(f.Metric) != len(names) {
		t.Fatalf("%v", f)
	}
	for i, m := range f.Metric {
		if m.Label[0].GetName() != "tube" || m.Label[0].GetValue() != names[i] || m.Counter.GetValue() != float64(i) {
			t.Errorf("%q came back as %v", names[i], m)
		}
	}
	if g := got["jobs"]; g.GetType().String() != "GAUGE" || g.Metric[0].Gauge.GetValue() != math.MaxUint32 || len(g.Metric[0].Label) != 0 {
		t.Errorf("%v", g)
	}
}
