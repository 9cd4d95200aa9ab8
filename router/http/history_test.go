package http

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/trend"
)

// withHistory keeps the history of some tubes.
func withHistory(tubes int) func(*Options) {
	return func(o *Options) { o.HistoryTubes = tubes }
}

// TestHistoryOfServerAndTube: the history shows a change within seconds, and nothing before the
// start.
func TestHistoryOfServerAndTube(t *testing.T) {
	long(t)
	t.Parallel()
	w := newWorld(t, setup{anonymous: access.Operate, options: withHistory(10)})
	odd := "a,b%2F\xff/ü"
	w.function(odd)
	w.put("mail", 7)
	deadline := time.Now().Add(hangs)
	var h wire.History
	for { // until both were sampled
		a := w.do("GET", "/api/v1/history?tube=mail", ask{})
		if a.status == 200 {
			a.read(t, &h)
		}
		if h.Tube == "mail" && slices.Contains(h.Series["ready"], 7) {
			break
		}
		require(t, !time.Now().After(deadline), "there is no history: %+v", h)
		time.Sleep(200 * time.Millisecond)
	}
	if len(h.Series) != len(trend.TubeLayout.Series()) || h.StepSeconds != 5 || h.To.Sub(h.From) > time.Hour+5*time.Second {
		t.Errorf("%d series by %d s from %v to %v", len(h.Series), h.StepSeconds, h.From, h.To)
	}
	for name, points := range h.Series {
		expect(t, len(points) == int(h.To.Sub(h.From)/(5*time.Second)) && points[0] != points[0], "%s has %d points, the first %v", name, len(points), points[0])
	}
	w.do("GET", "/api/v1/history?tube="+url.QueryEscape(odd), ask{}).wants(t, 200, "")
	h = wire.History{}
	w.do("GET", "/api/v1/history?series=ready,put_per_second&step=60", ask{}).wants(t, 200, "").read(t, &h)
	expect(t, h.Tube == "" && len(h.Series) == 2 && slices.Contains(h.Series["ready"], 7) && h.StepSeconds == 60 && h.From.Unix()%60 == 0, "%+v", h)
	expect(t, slices.Equal(h.Tubes, []string{wire.ShownName(odd), "default", "mail"}), "%q have a history", h.Tubes)
	h = wire.History{}
	w.do("GET", "/api/v1/history?from=2026-01-02T15:04:05Z&to=2026-01-02T15:04:06Z&series=ready", ask{}).wants(t, 200, "").read(t, &h)
	expect(t, len(h.Series["ready"]) == 1 && h.Tube == "", "%+v", h)
	for _, q := range []string{"from=0", "from=0&to=0", "from=0&to=137438953472", "tube=mail&from=0", "to=137438953472&from=137438953472&step=31622400"} {
		a := w.do("GET", "/api/v1/history?"+q, ask{}).wants(t, 200, "")
		expect(t, len(a.body) <= 500_000, "%s: %d bytes", q, len(a.body))
	}
	w.web.SetHistory(0)
	w.do("GET", "/api/v1/history", ask{}).wants(t, 404, "not-found")
}

// TestSeriesAreDescribed in openapi.json, for both layouts.
func TestSeriesAreDescribed(t *testing.T) {
	doc, err := described()
	noErr(t, err)
	text := doc.Paths.Find("/history").Get.Parameters.GetByInAndName("query", "series").Description
	for _, l := range []string{"Of the server: " + strings.Join(trend.ServerLayout.Series(), ", ") + ".", "Of a tube: " + strings.Join(trend.TubeLayout.Series(), ", ") + "."} {
		expect(t, strings.Contains(text, l), "the series are described as %q, want %q", text, l)
	}
}
