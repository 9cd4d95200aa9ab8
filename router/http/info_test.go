package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/trend"
)

func TestServerJournalAndConfigAreShown(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir()})
	w.put("mail", 2)
	s := get[wire.Server](w, "/api/v1/server")
	if s.Version != "v1" || s.State != "serving" || s.Jobs.Ready != 2 || s.JobsTotal != 2 || s.Tubes != 2 || s.Loops != 1 || s.Shards != 4 ||
		s.MaxJobSize != 65535 || s.PID == 0 || s.Connections.Limit == 0 {
		t.Errorf("%+v", s)
	}
	j := get[wire.Journal](w, "/api/v1/journal")
	expect(t, j.Enabled && j.Pressure == "open" && j.Segments != 0 && j.Records != 0 && j.Commits != 0 && j.LiveBytes != 0, "%+v", j)
	c := get[wire.Config](w, "/api/v1/config")
	expect(t, len(c.Settings) == 1 && c.Settings[0] == (wire.Setting{Name: "port", Value: "11300", Origin: "default"}), "%+v", c)
	none := newWorld(t, setup{anonymous: "operate"})
	none.do("GET", "/api/v1/journal", ask{}).wants(t, 200, "").read(t, &j)
	expect(t, !j.Enabled, "without a journal: %+v", j)
}

func TestLogLevelIsSet(t *testing.T) {
	w := newWorld(t, setup{})
	for name := range levels {
		var l wire.LogLevel
		w.do("PUT", "/api/v1/log-level", ask{token: adminToken, json: true, body: fmt.Sprintf(`{"level":%q}`, name)}).wants(t, 200, "")
		w.do("GET", "/api/v1/log-level", ask{token: readToken}).wants(t, 200, "").read(t, &l)
		expect(t, l.Level == name && w.web.opts.Level.Level() == levels[name], "%s: %+v", name, l)
	}
}

func TestChangesAreAudited(t *testing.T) {
	w := newWorld(t, setup{})
	put := w.do("POST", "/api/v1/tubes/mail/jobs", ask{token: operateToken, json: true, body: `{}`}).wants(t, 201, "")
	w.do("DELETE", "/api/v1/jobs/9", ask{token: operateToken}).wants(t, 404, "not-found")
	w.do("DELETE", "/api/v1/jobs/1", ask{token: readToken}).wants(t, 403, "not-permitted")
	for range 5 { // requests without a role
		w.do("DELETE", "/api/v1/jobs/1", ask{}).wants(t, 401, "no-token")
		w.do("DELETE", "/api/v1/jobs/1", ask{token: "wrong"}).wants(t, 401, "no-token")
	}
	w.do("GET", "/api/v1/tubes", ask{token: adminToken})
	list := w.audit("")
	require(t, len(list) == 3, "%d entries: %+v", len(list), list)
	e := list[2]
	if e.Name != "worker" || e.Role != "operate" || e.Action != "POST /api/v1/tubes/{tube}/jobs" || e.Path != "/api/v1/tubes/mail/jobs" ||
		e.Status != 201 || e.Affected != 1 || e.RequestID != put.header.Get("X-Request-Id") || e.Client != "127.0.0.1" {
		t.Errorf("%+v", e)
	}
	expect(t, list[1].Status == 404 && list[1].Affected == 0 && list[0].Name == "reader" && list[0].Status == 403, "%+v", list)
	if got := w.audit("?limit=1&before=2"); len(got) != 1 || got[0].Number != 1 {
		t.Errorf("%+v", got)
	}
	expect(t, strings.Contains(w.logged.String(), put.header.Get("X-Request-Id")), "the log has nothing about it")
	w.do("GET", "/api/v1/audit?limit=0", ask{token: adminToken}).wants(t, 400, "bad-request")
}

// TestAuditKeepsChangesWhateverIsRefused, and however many changes another role makes.
func TestAuditKeepsChangesWhateverIsRefused(t *testing.T) {
	var a auditLog
	a.add(wire.Entry{Role: "admin", Status: 200}, true)
	for range 2 * auditMax {
		a.add(wire.Entry{Role: "admin", Status: 400}, false)
		a.add(wire.Entry{Role: "operate", Status: 200}, true)
	}
	all := a.newest(10*auditMax, math.MaxUint64)
	expect(t, len(all) == 1+refusedMax+auditMax && all[len(all)-1].Number == 0 && all[0].Number == 4*auditMax, "%d entries from %d to %d", len(all), all[len(all)-1].Number, all[0].Number)
}

func TestReloadSaysWhatCameOfIt(t *testing.T) {
	w := newWorld(t, setup{})
	did := as[wire.Reloaded](t, w.do("POST", "/api/v1/reload", ask{token: adminToken}).wants(t, 200, ""))
	expect(t, len(did.Applied) == 1 && did.Applied[0].Name == "max-job-size" && len(did.Restart) == 0, "%+v", did)
	expect(t, w.audit("")[0].Affected == 1, "the audit has %+v", w.audit("")[0])
	w.web.opts.Reload = func() (*wire.Reloaded, error) { return nil, wire.BadConfiguration.Problem("file x:1: no") }
	p := w.do("POST", "/api/v1/reload", ask{token: adminToken}).wants(t, 422, "bad-configuration").problem(t)
	expect(t, p.Detail == "file x:1: no", "%+v", p)
}

// TestProfilesAreForAdmins, since they slow the server down. They end with the server.
func TestProfilesAreForAdmins(t *testing.T) {
	w := newWorld(t, setup{})
	for path, want := range map[string]string{
		"": "goroutine", "cmdline": "test", "goroutine?debug=1": "goroutine profile:", "heap": "", "symbol": "num_symbols",
	} {
		w.do("GET", "/debug/pprof/"+path, ask{token: operateToken}).wants(t, 403, "not-permitted")
		w.do("GET", "/debug/pprof/"+path, ask{token: adminToken}).wants(t, 200, "").has(t, want)
	}
	w.do("HEAD", "/debug/pprof/profile?seconds=50", ask{token: adminToken}).wants(t, 200, "")
	w.do("GET", "/debug/pprof/nothing", ask{token: adminToken}).wants(t, 404, "")
	w.do("GET", "/debug/pprof/profile?seconds=61", ask{token: adminToken}).wants(t, 400, "")

	r, err := http.NewRequestWithContext(t.Context(), "GET", w.url+"/debug/pprof/trace?seconds=50", nil)
	noErr(t, err)
	r.Header.Set("Authorization", "Bearer "+adminToken)
	resp, err := w.client.Do(r)
	noErr(t, err)
	defer resp.Body.Close()
	w.web.Stop(t.Context())
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
}

func TestProbesSayHowFarTheStartIs(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, setup{dir: dir, unstarted: true, anonymous: "operate"})
	a := w.do("GET", "/readyz", ask{}).wants(t, 503, "")
	expect(t, strings.HasPrefix(a.body, "fail\n") && strings.Contains(a.body, "the journal is being read"), "/readyz at the start: %q", a.body)
	life := w.srv.Operator().Life()
	life.Waits("no answer from b:1")
	w.do("GET", "/readyz", ask{}).has(t, "waits to bootstrap a cluster: no answer from b:1")
	life.Waits("")
	life.Read(25, 100)
	w.do("GET", "/readyz", ask{}).has(t, "25 of 100 bytes")
	h := as[wire.Health](t, w.do("GET", "/readyz?verbose", ask{header: map[string]string{"Accept": "application/json"}}).wants(t, 503, ""))
	expect(t, h.Status == "fail" && h.State == "starting" && h.Progress != nil && *h.Progress == (wire.Progress{ReadBytes: 25, AllBytes: 100}) && len(h.Checks) == 3, "as JSON: %+v", h)
	w.do("GET", "/livez", ask{}).wants(t, 200, "")
	a = w.do("GET", "/metrics", ask{}).wants(t, 200, "")
	expect(t, strings.Contains(a.body, "polystalk_ready 0\n") && !strings.Contains(a.body, "polystalk_jobs{"), "/metrics at the start: %s", a.body)
	w.start()
	defer w.srv.Shutdown(context.Background())
	a = w.do("GET", "/readyz", ask{}).wants(t, 200, "")
	expect(t, a.body == "ok\n", "/readyz: %q", a.body)
	w.do("GET", "/readyz?verbose", ask{}).has(t, "[ok] journal\n", "state: serving\n")
	w.do("GET", "/livez?verbose", ask{}).has(t, "[ok] loops\n", "[ok] shards\n")
}

// TestNeitherReadyNorAliveWhenTheJournalHasFailed: such a process stops; if it hangs, kill it.
func TestNeitherReadyNorAliveWhenTheJournalHasFailed(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
	w.srv.Drain()
	w.do("GET", "/readyz", ask{}).wants(t, 200, "").has(t, "draining")
	w.srv.Operator().Life().Fail(errors.New("the disk has gone"))
	w.do("GET", "/readyz", ask{}).wants(t, 503, "").has(t, "the disk has gone")
	w.do("GET", "/livez", ask{}).wants(t, 503, "")
}

func TestNotReadyWhenStopping(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
	noErr(t, w.web.begin())
	stopped := make(chan time.Duration)
	go func() {
		start := time.Now()
		w.web.Stop(t.Context())
		stopped <- time.Since(start)
	}()
	for { // until it stops
		if w.web.begin() != nil {
			break
		}
		w.web.running.Done()
		time.Sleep(time.Millisecond)
	}
	time.Sleep(30 * time.Millisecond)
	w.do("GET", "/readyz", ask{}).wants(t, 503, "")
	w.do("GET", "/livez", ask{}).wants(t, 200, "")
	w.web.running.Done()
	took := <-stopped
	expect(t, took >= 30*time.Millisecond, "it did not wait for what was under way: %v", took)
	expect(t, w.web.ended.Err() != nil, "what is under way is not told")
}

// withHistory keeps the history of some tubes.
func withHistory(tubes int) func(*Options) {
	return func(o *Options) { o.HistoryTubes = tubes }
}

// TestHistoryOfServerAndTube: the history shows a change within seconds, and nothing before the
// start.
func TestHistoryOfServerAndTube(t *testing.T) {
	long(t)
	t.Parallel()
	w := newWorld(t, setup{anonymous: "operate", options: withHistory(10)})
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
