package http

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/router/access"
)

// program is where one of Prometheus's programs is. Without it the test is skipped.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed; it is in Debian's package prometheus", name)
	}
	return path
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

// subject finds what a series in a test of alerts is about.
var subject = regexp.MustCompile(`(?:instance|tube)="(?:[^"i]|i[^"])[^"]*"`)

// TestAlertsFireAndAreSilent: as promtool finds, each where it should and where not; and each
// says what is wrong and what to do.
func TestAlertsFireAndAreSilent(t *testing.T) {
	long(t)
	t.Parallel()
	tried := readFile(t, "monitoring/alerts_test.yml")
	guide := readFile(t, "README.md")
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
	promtool := program(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}, {"check", "config", "prometheus.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "monitoring"
		out, err := cmd.CombinedOutput()
		expect(t, err == nil, "promtool %v: %v\n%s", args, err, out)
	}
}

// A panel is one of the dashboard.
type panel struct {
	ID      int
	Title   string
	Type    string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr string }
}

// dashboard is its panels, and all its expressions with variables put in.
func dashboard(t *testing.T) (panels []panel, exprs map[string]string) {
	t.Helper()
	var d struct {
		Panels     []panel
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Annotations struct {
			List []struct{ Expr string }
		}
	}
	noErr(t, json.Unmarshal([]byte(readFile(t, "monitoring/dashboard.json")), &d))
	put := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*", "$tube", ".*").Replace
	exprs = make(map[string]string)
	for _, p := range d.Panels {
		for i, target := range p.Targets {
			exprs[fmt.Sprintf("%s/%d/%d", p.Title, p.ID, i)] = put(target.Expr)
		}
	}
	for i, a := range d.Annotations.List {
		exprs[fmt.Sprint("annotation ", i)] = put(a.Expr)
	}
	for _, v := range d.Templating.List {
		if m := regexp.MustCompile(`^label_values\((.*), \w+\)$`).FindStringSubmatch(v.Definition); m != nil {
			exprs["variable "+v.Name] = put(m[1])
		}
	}
	return d.Panels, exprs
}

// TestDashboardIsWhole: panels have ids of their own, something to show, and places that do
// not overlap, within rows.
func TestDashboardIsWhole(t *testing.T) {
	panels, exprs := dashboard(t)
	var rows []string
	ids := make(map[int]bool)
	taken := make(map[[2]int]string)
	for _, p := range panels {
		expect(t, !ids[p.ID] && p.Title != "" && p.Type == "row" == (len(p.Targets) == 0), "panel %d, %q: its id is another's, or it has no title, or nothing to show", p.ID, p.Title)
		ids[p.ID] = true
		if p.Type == "row" {
			rows = append(rows, p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				other := taken[[2]int{x, y}]
				require(t, other == "" && x < 24, "%q has the place of %q, or none: %d, %d", p.Title, other, x, y)
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	want := []string{"Overview", "Tubes", "Journal", "Connections", "Gearman", "HTTP and operators", "Process", "Cluster"}
	expect(t, slices.Equal(rows, want), "the rows are %q, want %q", rows, want)
	expect(t, exprs["variable instance"] != "" && exprs["variable tube"] != "", "there are no variables: %v", exprs)
}

// busy gives a server traffic of all kinds, so that whatever is shown has something to show.
func (w *world) busy() {
	w.t.Helper()
	say := w.beanstalkd()
	for _, line := range []string{"use mail", "watch mail", "ignore default"} {
		say(line)
	}
	for i := range 6 {
		say("put 0 0 60 1\r\nx")
		if s := say("reserve"); !strings.HasPrefix(s, "RESERVED") {
			w.t.Fatal(s)
		}
		id := i + 1 // ids are given from 1 on, and nobody else puts meanwhile
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
	w.put("news", 2)
	w.do("POST", "/api/v1/tubes/mail/kick", ask{json: true, body: `{"count":1}`}).wants(w.t, 200, "")
	w.do("GET", "/api/v1/tubes/none", ask{}).wants(w.t, 404, "not-found")
}

// metricName finds names of metrics in an expression without labels and texts.
var (
	metricName = regexp.MustCompile(`\b(?:polystalk|process|go)_[a-z0-9_]+`)
	inBraces   = regexp.MustCompile(`\{[^}]*\}`)
)

// TestMonitoringNamesExist: every metric in alerts and dashboard is one that a server with a
// journal, both protocols and a cluster shows, by the name of a series.
func TestMonitoringNamesExist(t *testing.T) {
	long(t)
	t.Parallel()
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir(), cluster: newFakeCluster()})
	w.busy()
	time.Sleep(2100 * time.Millisecond) // samples serve for two seconds
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
	_, exprs := dashboard(t)
	for where, expr := range exprs {
		look(where, expr)
	}
	for _, a := range alerts(t) {
		_, expr, _ := strings.Cut(a.text, "expr: ")
		expr, _, _ = strings.Cut(expr, "        labels:")
		look(a.name, expr)
	}
}

// TestPrometheusScrapesTheServer: Debian's, for some seconds: no sample is refused, no rule
// fails, and every panel of the dashboard has something to show.
func TestPrometheusScrapesTheServer(t *testing.T) {
	long(t)
	t.Parallel()
	path := program(t, "prometheus")
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir(), cluster: newFakeCluster()})
	dir := t.TempDir()
	config := strings.NewReplacer("scrape_interval: 15s", "scrape_interval: 500ms", "127.0.0.1:11380", w.addr).Replace(readFile(t, "monitoring/prometheus.yml"))
	config = "global:\n  evaluation_interval: 500ms\n" + config
	config += fmt.Sprintf("  - job_name: tubes\n    scrape_interval: 500ms\n    metrics_path: /metrics/tubes\n    static_configs:\n      - targets: [%q]\n", w.addr)
	for name, text := range map[string]string{"prometheus.yml": config, "alerts.yml": readFile(t, "monitoring/alerts.yml")} {
		noErr(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	p := startPrometheus(t, path, dir)
	ups := func() bool { return p.count(`sum(up{job="polystalkd"} + on (instance) up{job="tubes"}) == 2`) == 1 }
	for range 100 {
		if ups() {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	require(t, ups(), "the targets are not up: %s", p.get("/api/v1/targets"))
	w.busy()
	time.Sleep(2500 * time.Millisecond) // samples serve for two seconds
	say := w.beanstalkd()
	for _, line := range []string{"use mail", "watch mail", "put 0 0 60 1\r\nx", "reserve"} {
		say(line)
	}
	_, exprs := dashboard(t)
	empty := func() (list []string) {
		for where, expr := range exprs {
			if p.count(expr) == 0 && !strings.HasPrefix(where, "annotation") {
				list = append(list, where+": "+expr)
			}
		}
		return list
	}
	for begun := time.Now(); len(empty()) > 0; time.Sleep(500 * time.Millisecond) { // until there are rates
		if time.Since(begun) > hangs {
			t.Errorf("these show nothing:\n%s", strings.Join(empty(), "\n"))
			break
		}
	}
	expect(t, ups(), "the targets are not up any more: %s", p.get("/api/v1/targets"))
	for _, name := range []string{"sample_duplicate_timestamp", "sample_out_of_bounds", "sample_out_of_order", "exceeded_sample_limit", "exemplar_out_of_order"} {
		expect(t, strings.Contains(p.get("/metrics"), "\nprometheus_target_scrapes_"+name+"_total 0\n"), "Prometheus has refused samples: %s", name)
	}
	for _, expr := range []string{"scrape_samples_scraped == scrape_samples_post_metric_relabeling", "scrape_samples_scraped > 200"} {
		n := p.count(expr)
		expect(t, n >= 1, "%d targets with %s", n, expr)
	}
	rules := p.get("/api/v1/rules")
	expect(t, !strings.Contains(rules, `"health":"err"`) && strings.Count(rules, `"health":"ok"`) == len(alerts(t)), "the rules are not well: %s", rules)
}

// A running is a Prometheus that runs until the end of the test.
type running struct {
	t   *testing.T
	url string
}

func startPrometheus(t *testing.T, path, dir string) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	addr := l.Addr().String()
	l.Close()
	var log bytes.Buffer
	cmd := exec.Command(path, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	cmd.Stdout, cmd.Stderr = &log, &log
	noErr(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s", log.String())
		}
	})
	p := &running{t, "http://" + addr}
	for range 200 {
		if resp, err := http.Get(p.url + "/-/ready"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == 200 {
				return p
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("Prometheus is not ready")
	return nil
}

func (p *running) get(path string) string {
	p.t.Helper()
	resp, err := http.Get(p.url + path)
	noErr(p.t, err)
	defer resp.Body.Close()
	var b bytes.Buffer
	b.ReadFrom(resp.Body)
	return b.String()
}

// count is how many series an expression has; one that cannot be worked out fails the test.
func (p *running) count(expr string) int {
	p.t.Helper()
	var v struct {
		Status string
		Data   struct{ Result []any }
	}
	text := p.get("/api/v1/query?query=" + url.QueryEscape(expr))
	err := json.Unmarshal([]byte(text), &v)
	expect(p.t, err == nil && v.Status == "success", "%s: %s", expr, text)
	return len(v.Data.Result)
}
