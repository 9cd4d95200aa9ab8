package http

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape reads a page of metrics: values by the text of name and labels.
func parseMetrics(t *testing.T, text string) map[string]string {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	_, err := p.TextToMetricFamilies(strings.NewReader(text))
	require(t, err == nil, "%v in\n%s", err, text)
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		values[line[:at]] = line[at+1:]
	}
	return values
}

// put puts jobs as a client.
func (w *world) put(tube string, n int) {
	w.t.Helper()
	for range n {
		_, err := w.srv.Operator().Put(context.Background(), newJob(tube, "x"))
		noErr(w.t, err)
	}
}

func TestMetricsShowTheServer(t *testing.T) {
	w := newWorld(t, setup{anonymous: "read", dir: t.TempDir()})
	w.put("mail", 3)
	text := w.do("GET", "/metrics", ask{}).wants(t, 200, "").body
	got := parseMetrics(t, text)
	for name, want := range map[string]string{
		`polystalk_ready`: "1", `polystalk_draining`: "0", `polystalk_jobs{state="ready"}`: "3", `polystalk_jobs{state="buried"}`: "0",
		`polystalk_job_events_total{event="put"}`: "3", `polystalk_tubes`: "2", `polystalk_event_loops`: "1", `polystalk_shards`: "4",
		`polystalk_connections{protocol="beanstalkd"}`: "0", `polystalk_connections_accepted_total{protocol="Gearman"}`: "0",
		`polystalk_connections_rejected_total{reason="limit"}`: "0", `polystalk_clients{role="sleeping"}`: "0", `polystalk_commands_total{command="cmd-put",protocol="beanstalkd"}`: "0",
		`polystalk_journal_pressure{state="open"}`: "1", `polystalk_journal_records_total`: "3", `polystalk_clients{role="worker"}`: "0",
		`polystalk_journal_commit_records_sum`: "3", `polystalk_job_body_bytes`: "3", `polystalk_http_event_streams`: "0",
		`polystalk_command_errors_total{error="not_found",protocol="beanstalkd"}`: "0", `polystalk_network_received_bytes_total`: "0",
		`polystalk_operator_operations_total{action="put",result="done"}`: "3", `polystalk_operator_jobs_total{action="delete",result="skipped"}`: "0",
	} {
		expect(t, got[name] == want, "%s is %q, want %s", name, got[name], want)
	}
	for _, name := range []string{"go_goroutines", "process_cpu_seconds_total", "polystalk_start_time_seconds", `polystalk_journal_bytes{kind="live"}`, "polystalk_shard_visits_total", "polystalk_connections_limit"} {
		expect(t, got[name] != "", "%s is not there", name)
	}
	worker := w.beanstalkd()
	worker("watch mail")
	if s := worker("reserve"); s != "RESERVED 1 1\r\n" {
		t.Fatal(s)
	}
	worker("delete 1")
	worker("delete 1")
	worker("list-tube-used")
	time.Sleep(1100 * time.Millisecond) // a sample is reused for a second
	got = parseMetrics(t, w.do("GET", "/metrics", ask{}).body)
	for name, want := range map[string]string{
		`polystalk_job_events_total{event="reserve"}`: "1", `polystalk_job_events_total{event="delete"}`: "1", `polystalk_job_events_total{event="put"}`: "3",
		`polystalk_job_events_total{event="timeout"}`: "0", `polystalk_job_wait_seconds_count`: "1", `polystalk_job_run_seconds_count`: "1",
		`polystalk_job_run_seconds_bucket{le="524288"}`: "1", `polystalk_job_wait_seconds_bucket{le="+Inf"}`: "1", `polystalk_clients{role="worker"}`: "1",
		`polystalk_command_errors_total{error="not_found",protocol="beanstalkd"}`: "1",
		`polystalk_network_received_bytes_total`:                                  "57", `polystalk_network_sent_bytes_total`: "64",
	} {
		expect(t, got[name] == want, "%s is %q, want %s", name, got[name], want)
	}
	text = w.do("GET", "/metrics", ask{}).body
	got = parseMetrics(t, text)
	expect(t, got[`polystalk_http_requests_total{code="200",method="GET",route="GET /metrics"}`] == "2", "requests are not counted: %s", text)
	check(t, text)
}

// check lets promtool check a page. It must come last in a test, since it skips the test without
// promtool.
func check(t *testing.T, text string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; it is in Debian's package prometheus")
	}
	cmd := exec.Command(path, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

func TestMetricsComeAsAsked(t *testing.T) {
	w := newWorld(t, setup{anonymous: "read"})
	a := w.do("GET", "/metrics", ask{header: map[string]string{"Accept": "application/openmetrics-text; version=1.0.0"}}).wants(t, 200, "")
	expect(t, strings.HasSuffix(a.body, "# EOF\n") && strings.HasPrefix(a.header.Get("Content-Type"), "application/openmetrics-text"), "OpenMetrics: %s", a.header.Get("Content-Type"))
	a = w.do("GET", "/metrics", ask{header: map[string]string{"Accept-Encoding": "gzip"}}).wants(t, 200, "")
	z, err := gzip.NewReader(bytes.NewReader([]byte(a.body)))
	noErr(t, err)
	text, err := io.ReadAll(z)
	expect(t, err == nil && parseMetrics(t, string(text))["polystalk_ready"] == "1", "compressed: %v", err)
}

// TestMetricsShowSomeTubes: first the tubes that match, then the busiest. /metrics/tubes shows all
// tubes, with the same series.
func TestMetricsShowSomeTubes(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate", options: func(o *Options) { o.MetricsTubes, o.MetricsMatch = 3, []string{"want*"} }})
	for i := range 20 {
		w.put(fmt.Sprintf("t%02d", i), i+1)
	}
	w.put("wanted", 1)
	worker := w.beanstalkd()
	worker("watch t19")
	if s := worker("reserve"); !strings.HasPrefix(s, "RESERVED") {
		t.Fatal(s)
	}
	worker("list-tube-used")                   // the reply is the body
	release := w.function("odd\xff\"\\\nname") // after it, a sample is reused for two seconds
	defer release()
	text := w.do("GET", "/metrics", ask{}).wants(t, 200, "").body
	got := parseMetrics(t, text)
	for name, want := range map[string]string{
		`polystalk_metrics_tubes_omitted`:                               "20",
		`polystalk_tube_jobs{state="ready",tube="wanted"}`:              "1",
		`polystalk_tube_jobs{state="ready",tube="t18"}`:                 "19",
		`polystalk_tube_jobs{state="reserved",tube="t19"}`:              "1",
		`polystalk_tube_job_body_bytes{tube="t19"}`:                     "20",
		`polystalk_tube_job_events_total{event="put",tube="t19"}`:       "20",
		`polystalk_tube_job_events_total{event="reserve",tube="t19"}`:   "1",
		`polystalk_tube_clients{role="watching",tube="t19"}`:            "1",
		`polystalk_tube_job_wait_seconds_count{tube="t19"}`:             "1",
		`polystalk_tube_job_wait_seconds_bucket{tube="t19",le="16384"}`: "1",
		`polystalk_tube_job_run_seconds_bucket{tube="t19",le="+Inf"}`:   "0",
		`polystalk_tube_jobs{state="ready",tube="t17"}`:                 "",
	} {
		expect(t, got[name] == want, "%s is %q, want %q", name, got[name], want)
	}
	all := w.do("GET", "/metrics/tubes", ask{}).wants(t, 200, "").body
	series := parseMetrics(t, all)
	expect(t, len(series) == 23*(4+1+3+1+1+9+2*15), "%d series of all tubes", len(series))
	expect(t, series[`polystalk_tube_jobs{tube="odd\\xFF\"\\\\\\x0Aname",state="ready"}`] == "0", "a name is not written as it should be: %s", all)
	ours := families(t, text)
	for key, v := range families(t, all) {
		o, ok := ours[key]
		expect(t, !ok || o == v || strings.Contains(key, "oldest"), "%s is %s in /metrics/tubes, and %s in /metrics", key, v, o)
		delete(ours, key)
	}
	for key := range ours {
		expect(t, !strings.HasPrefix(key, "polystalk_tube_"), "%s is not in /metrics/tubes", key)
	}
	some := parseMetrics(t, w.do("GET", "/metrics/tubes?match=t0*&family=jobs,age", ask{}).wants(t, 200, "").body)
	expect(t, len(some) == 10*(4+1+3+1+1) && some[`polystalk_tube_jobs{tube="t03",state="ready"}`] == "4", "%d series: %v", len(some), some)
	w.do("GET", "/metrics/tubes?family=jobs,x", ask{}).wants(t, 400, "bad-request")
	w.do("GET", "/metrics/tubes?family=", ask{}).wants(t, 400, "bad-request")
	w.do("GET", "/metrics/tubes?match=[", ask{}).wants(t, 400, "bad-request")
	check(t, all)
	check(t, text)
}

// families reads a page with a library: values by name and sorted labels.
func families(t *testing.T, text string) map[string]string {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	fs, err := p.TextToMetricFamilies(strings.NewReader(text))
	noErr(t, err)
	all := make(map[string]string)
	for name, f := range fs {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			slices.Sort(labels)
			m.Label = nil
			all[fmt.Sprint(name, labels)] = m.String()
		}
	}
	return all
}

// TestScrapersAreShownWhatTheHistoryHasLookedAt: scrapes use its samples, and still see each change
// soon.
func TestScrapersAreShownWhatTheHistoryHasLookedAt(t *testing.T) {
	long(t)
	t.Parallel()
	w := newWorld(t, setup{anonymous: "operate", options: withHistory(10)})
	if age := w.web.watch.Steady(); age != 6*time.Second {
		t.Errorf("tubes are as of %v ago", age)
	}
	for _, n := range []string{"1", "2", "3"} {
		w.put("mail", 1)
		begun := time.Now()
		for {
			text := w.do("GET", "/metrics", ask{}).wants(t, 200, "").body
			if strings.Contains(text, `polystalk_tube_jobs{state="ready",tube="mail"} `+n+"\n") {
				break
			}
			require(t, time.Since(begun) <= hangs, "%s jobs are not shown: %s", n, text)
			time.Sleep(200 * time.Millisecond)
		}
	}
	w.web.SetHistory(0)
	age := w.web.watch.Steady()
	expect(t, age == 0, "tubes are as of %v ago, and nobody looks", age)
}

// TestRequestsAreCountedByTheirMethods: each known method has a label, and others share one.
func TestRequestsAreCountedByTheirMethods(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
	want := make(map[string]string)
	for _, rt := range w.web.allRoutes() {
		w.web.metrics.served(rt.pattern, rt.method(), 200, 0)
		want[fmt.Sprintf(`polystalk_http_requests_total{code="200",method=%q,route=%q}`, rt.method(), rt.pattern)] = "1"
	}
	for _, method := range []string{"BREW", "brew", "OPTIONS"} {
		w.web.metrics.served("other", method, 405, 0)
	}
	want[`polystalk_http_requests_total{code="405",method="other",route="other"}`] = "3"
	got := parseMetrics(t, w.do("GET", "/metrics", ask{}).body)
	for name, n := range want {
		expect(t, got[name] == n, "%s is %q, want %s", name, got[name], n)
	}
}

// TestNumbersAreWrittenShortest: each is read back unchanged, and whole numbers have no exponent.
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

func readFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	noErr(t, err)
	return string(text)
}

// An alert is one of alerts.yml, as text.
type alert struct{ name, text string }

func alerts(t *testing.T) (list []alert) {
	t.Helper()
	for _, text := range strings.Split(readFile(t, "monitoring/alerts.yml"), "      - alert: ")[1:] {
		name, text, _ := strings.Cut(text, "\n")
		list = append(list, alert{name, text})
	}
	return list
}

// subject matches the subject of a series in a test of alerts.
var subject = regexp.MustCompile(`(?:instance|tube)="(?:[^"i]|i[^"])[^"]*"`)

// TestAlertsFireAndAreSilent, as promtool checks. Each alert has a test in which it fires, and says
// what is wrong and what to do.
func TestAlertsFireAndAreSilent(t *testing.T) {
	long(t)
	t.Parallel()
	tried := readFile(t, "monitoring/alerts_test.yml")
	guide := readFile(t, guidePages+"monitoring.md")
	all := alerts(t)
	expect(t, len(all) >= 15, "there are %d alerts", len(all))
	for _, a := range all {
		for _, part := range []string{"\n        expr: ", "\n          severity: ", "\n          summary: \"", "\n          description: \"", "\n          runbook: \""} {
			expect(t, strings.Contains("\n"+a.text, part), "%s has no %s", a.name, strings.TrimSpace(part))
		}
		_, test, _ := strings.Cut(tried, "\n  - name: "+a.name+"\n")
		test, _, _ = strings.Cut(test, "\n  - name: ")
		fires := strings.Contains(test, "exp_samples: [{") || strings.Contains(test, "exp_alerts:")
		// The expectation is exact, so no other instance fires.
		who := make(map[string]bool)
		for _, m := range subject.FindAllString(test, -1) {
			who[m] = true
		}
		expect(t, fires && len(who) >= 2, "%s is tried where it fires: %t, and with %d servers and tubes", a.name, fires, len(who))
		expect(t, strings.Contains(guide, "`"+a.name+"`"), "the guide does not name %s", a.name)
	}
	for _, m := range regexp.MustCompile("`(Polystalk[A-Z]\\w+)`").FindAllStringSubmatch(guide, -1) {
		expect(t, slices.ContainsFunc(all, func(a alert) bool { return a.name == m[1] }), "the guide names %s, which is no alert", m[1])
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; it is in Debian's package prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}, {"check", "config", "prometheus.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "monitoring"
		out, err := cmd.CombinedOutput()
		expect(t, err == nil, "promtool %v: %v\n%s", args, err, out)
	}
}

// inDashboard matches the expressions of the dashboard, as JSON.
var inDashboard = regexp.MustCompile(`"(?:expr|definition)": *("(?:[^"\\]|\\.)*")`)

// busy gives a server traffic of all kinds, so that each metric has a value.
func (w *world) busy() {
	w.t.Helper()
	w.do("PUT", "/api/v1/policies/news", ask{token: adminToken, json: true, body: `{"attempts":3}`}).wants(w.t, 201, "")
	say := w.beanstalkd()
	for _, line := range []string{"use mail", "watch mail", "ignore default"} {
		say(line)
	}
	for i := range 6 {
		say("put 0 0 60 1\r\nx")
		if s := say("reserve"); !strings.HasPrefix(s, "RESERVED") {
			w.t.Fatal(s)
		}
		id := i + 1 // ids begin at 1, and no other client puts jobs
		say(fmt.Sprintf([]string{"delete %d", "bury %d 0", "release %d 0 0", "delete %d", "bury %d 0", "delete %d"}[i], id))
	}
	say("delete 99")
	say("nonsense")
	conn := w.gear(request(1, "resize"), request(18, "resize\x00\x00body"), request(9, "")) // CAN_DO, SUBMIT_JOB_BG, GRAB_JOB
	var got []byte
	for b := make([]byte, 1000); !bytes.Contains(got, []byte("body")); {
		n, err := conn.Read(b)
		noErr(w.t, err)
		got = append(got, b[:n]...)
	}
	at := bytes.Index(got, []byte("H:"))
	handle := got[at : at+bytes.IndexByte(got[at:], 'r')]
	if i := bytes.IndexByte(handle, 0); i >= 0 { // the next packet follows
		handle = handle[:i]
	}
	for range 2 { // WORK_COMPLETE: the second one is an error
		io.WriteString(conn, request(13, string(handle)+"\x00"))
	}
	if _, err := conn.Read(make([]byte, 1000)); err != nil { // the error
		w.t.Fatal(err)
	}
	if strings.Contains(readFile(w.t, w.access), limited) { // for the metrics of refusals
		w.do("POST", "/api/v1/tubes/mail/jobs", ask{token: readToken, body: "x"}).wants(w.t, 403, "not-permitted")
	}
	w.put("news", 2)
	w.do("POST", "/api/v1/tubes/mail/kick", ask{json: true, body: `{"count":1}`}).wants(w.t, 200, "")
	w.do("GET", "/api/v1/tubes/none", ask{}).wants(w.t, 404, "not-found")
}

// limited is an identity with every quota.
const limited = "[identity.limited]\nput = [\"x\"]\nconnections = 1\njobs = 1\nbytes = 1\nputs-per-second = 1\n"

// metricName matches names of metrics in an expression without labels and texts.
var (
	metricName = regexp.MustCompile(`\b(?:polystalk|process|go)_[a-z0-9_]+`)
	inBraces   = regexp.MustCompile(`\{[^}]*\}`)
)

// TestMonitoringNamesExist: every metric in alerts and dashboard is one that a server with a
// journal, both protocols and a cluster shows, by the name of a series.
func TestMonitoringNamesExist(t *testing.T) {
	long(t)
	t.Parallel()
	w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir(), cluster: newFakeCluster(), access: accessText() + limited})
	w.busy()
	time.Sleep(2100 * time.Millisecond) // samples are reused for two seconds
	w.do("GET", "/metrics", ask{})
	shown := make(map[string]bool)
	for series := range parseMetrics(t, w.do("GET", "/metrics", ask{}).wants(t, 200, "").body) {
		name, _, _ := strings.Cut(series, "{")
		shown[name] = true
	}
	look := func(where, expr string) {
		names := metricName.FindAllString(inBraces.ReplaceAllString(expr, ""), -1)
		expect(t, len(names) != 0 || strings.Contains(expr, "up{") || strings.Contains(expr, "ALERTS{"), "%s has no metric: %s", where, expr)
		for _, name := range names {
			expect(t, shown[name], "%s: %s is not in /metrics", where, name)
		}
	}
	exprs := inDashboard.FindAllStringSubmatch(readFile(t, "monitoring/dashboard.json"), -1)
	expect(t, len(exprs) >= 40, "the dashboard has %d expressions", len(exprs))
	for _, m := range exprs {
		expr, err := strconv.Unquote(m[1])
		noErr(t, err)
		look("the dashboard", expr)
	}
	for _, a := range alerts(t) {
		_, expr, _ := strings.Cut(a.text, "expr: ")
		expr, _, _ = strings.Cut(expr, "        labels:")
		look(a.name, expr)
	}
}

// guidePages is the folder of the guide.
const guidePages = "../../cmd/manual/guide/"

// shell matches the examples of the guide.
var shell = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestExamplesOfTheGuideWork: each line, in their order, on one server.
func TestExamplesOfTheGuideWork(t *testing.T) {
	long(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	text := readFile(t, guidePages+"http-api.md") + readFile(t, guidePages+"monitoring.md") + readFile(t, guidePages+"security.md")
	w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir(), options: withHistory(100)})
	w.beanstalkd()("use mail") // connection 1
	ran := 0
	for _, m := range shell.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(strings.ReplaceAll(m[1], "|\n", "|")) {
			if !strings.Contains(line, "curl ") {
				continue // the start of the server itself
			}
			ran++
			line = strings.ReplaceAll(line, "http://127.0.0.1:11380", w.url)
			line = strings.Replace(line, "curl ", "curl -sS --fail-with-body --max-time 20 ", 1)
			sh := exec.Command("sh", "-c", line)
			sh.Env = append(os.Environ(), "token="+adminToken)
			out, err := sh.CombinedOutput()
			expect(t, err == nil, "%s%v: %s", line, err, out)
		}
	}
	expect(t, ran >= 15, "only %d examples were found", ran)
}

var code = regexp.MustCompile("`([a-z_]+)`")

// explains compares a guide's table of metrics with the server: it must have exactly the metrics
// with the prefix, with their types and labels.
func (w *world) explains(guide, prefix string) {
	w.t.Helper()
	_, table, _ := strings.Cut(readFile(w.t, guide), "| Metric | Type | Labels | Meaning |")
	heads, table, _ := strings.Cut(table, "\n")
	table, _, _ = strings.Cut(table, "\n\n")
	p := expfmt.NewTextParser(model.LegacyValidation)
	shown, err := p.TextToMetricFamilies(strings.NewReader(w.do("GET", "/metrics", ask{}).wants(w.t, 200, "").body))
	noErr(w.t, err)
	codes := func(cell string) (list []string) {
		for _, m := range code.FindAllStringSubmatch(cell, -1) {
			list = append(list, m[1])
		}
		return list
	}
	explained := make(map[string]bool)
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if strings.HasPrefix(line, "|---") {
			continue
		}
		if len(cells) != 6+strings.Count(heads, "|") || strings.TrimSpace(cells[4]) == "" {
			w.t.Errorf("a row has %d cells, or no meaning: %s", len(cells)-2, line)
			continue
		}
		var types, labels []string // of all metrics of the row
		for _, name := range codes(cells[1]) {
			f := shown["polystalk_"+name]
			if f == nil {
				w.t.Errorf("the guide explains %s, which is not there", name)
				continue
			}
			explained["polystalk_"+name] = true
			types = append(types, strings.ToLower(f.GetType().String()))
			for _, m := range f.Metric {
				for _, l := range m.Label {
					labels = append(labels, l.GetName())
				}
			}
		}
		wanted := func(what string, has, want []string) {
			slices.Sort(has)
			slices.Sort(want)
			has, want = slices.Compact(has), slices.Compact(want)
			expect(w.t, slices.Equal(has, want), "%s: the guide says %s %q, and they are %q", cells[1], what, has, want)
		}
		wanted("type", strings.Split(strings.ReplaceAll(cells[2], " ", ""), ","), types)
		wanted("labels", codes(cells[3]), labels)
	}
	for name := range shown {
		expect(w.t, !strings.HasPrefix(name, prefix) || explained[name], "the guide does not explain %s", name)
	}
	expect(w.t, len(explained) >= 15, "only %d metrics are explained", len(explained))
}

func TestGuidesExplainEveryMetric(t *testing.T) {
	t.Run("cluster", func(t *testing.T) {
		newWorld(t, setup{anonymous: "operate", cluster: newFakeCluster()}).explains(guidePages+"cluster.md", "polystalk_cluster_")
	})
	t.Run("server", func(t *testing.T) {
		long(t)
		w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir(), access: accessText() + limited})
		w.busy()
		time.Sleep(2100 * time.Millisecond) // samples are reused for two seconds
		w.do("GET", "/metrics", ask{})
		w.explains(guidePages+"monitoring.md", "polystalk_")
	})
}
