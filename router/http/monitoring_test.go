package http

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/router/access"
)

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
	w.put("news", 2)
	w.do("POST", "/api/v1/tubes/mail/kick", ask{json: true, body: `{"count":1}`}).wants(w.t, 200, "")
	w.do("GET", "/api/v1/tubes/none", ask{}).wants(w.t, 404, "not-found")
}

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
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir(), cluster: newFakeCluster()})
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
