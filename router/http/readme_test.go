package http

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"polystalk/router/access"
)

// shell matches the examples of the guide.
var shell = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestExamplesOfTheGuideWork: each line, in their order, on one server.
func TestExamplesOfTheGuideWork(t *testing.T) {
	long(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	text, err := os.ReadFile("README.md")
	noErr(t, err)
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir(), options: withHistory(100)})
	w.beanstalkd()("use mail") // connection 1
	ran := 0
	for _, m := range shell.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(m[1]) {
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
		newWorld(t, setup{anonymous: access.Operate, cluster: newFakeCluster()}).explains("../cluster/README.md", "polystalk_cluster_")
	})
	t.Run("server", func(t *testing.T) {
		long(t)
		w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir()})
		w.busy()
		time.Sleep(2100 * time.Millisecond) // samples are reused for two seconds
		w.do("GET", "/metrics", ask{})
		w.explains("README.md", "polystalk_")
	})
}
