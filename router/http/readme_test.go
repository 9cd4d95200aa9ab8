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

// shell finds the examples of the guide.
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

// TestGuideExplainsEveryMetric with its type and labels, and no others.
func TestGuideExplainsEveryMetric(t *testing.T) {
	long(t)
	t.Parallel()
	_, table, _ := strings.Cut(readFile(t, "README.md"), "| Metric | Type | Labels | Meaning | Alert |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir()})
	w.busy()
	time.Sleep(2100 * time.Millisecond) // samples serve for two seconds
	w.do("GET", "/metrics", ask{})
	p := expfmt.NewTextParser(model.LegacyValidation)
	shown, err := p.TextToMetricFamilies(strings.NewReader(w.do("GET", "/metrics", ask{}).wants(t, 200, "").body))
	noErr(t, err)
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
		if len(cells) != 7 || strings.TrimSpace(cells[4]) == "" {
			t.Errorf("a row has %d cells, or no meaning: %s", len(cells)-2, line)
			continue
		}
		var types, labels []string // of all metrics of the row
		for _, name := range codes(cells[1]) {
			f := shown["polystalk_"+name]
			if f == nil {
				t.Errorf("the guide explains %s, which is not there", name)
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
			expect(t, slices.Equal(has, want), "%s: the guide says %s %q, and they are %q", cells[1], what, has, want)
		}
		wanted("type", strings.Split(strings.ReplaceAll(cells[2], " ", ""), ","), types)
		wanted("labels", codes(cells[3]), labels)
	}
	for name := range shown {
		expect(t, !strings.HasPrefix(name, "polystalk_") || explained[name], "the guide does not explain %s", name)
	}
}

var code = regexp.MustCompile("`([a-z_]+)`")
