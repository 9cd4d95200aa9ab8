package api

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"polystalk/router/access"
)

// shell finds the examples of the guide.
var shell = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestExamplesOfTheGuideWork: each line, in their order, on one server.
func TestExamplesOfTheGuideWork(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
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
			if out, err := sh.CombinedOutput(); err != nil {
				t.Errorf("%s%v: %s", line, err, out)
			}
		}
	}
	if ran < 15 {
		t.Errorf("only %d examples were found", ran)
	}
}

// TestGuideNamesEveryMetric: and no other, but those of the library.
func TestGuideNamesEveryMetric(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| Metric | Type |")
	table, _, _ = strings.Cut(table, "\n\n")
	named := make(map[string]bool)
	for line := range strings.Lines(table) {
		cells := strings.SplitN(line, "|", 4)
		if len(cells) < 4 || !strings.Contains(cells[2], "gauge") && !strings.Contains(cells[2], "counter") && !strings.Contains(cells[2], "histogram") {
			continue
		}
		for _, code := range regexp.MustCompile("`[a-z_]+`").FindAllString(cells[1], -1) {
			named["polystalk_"+strings.Trim(code, "`")] = true
		}
	}
	w := newWorld(t, setup{anonymous: access.Read, dir: t.TempDir()})
	w.do("GET", "/metrics", ask{})
	shown := make(map[string]bool)
	for line := range strings.Lines(w.do("GET", "/metrics", ask{}).body) {
		if name, ok := strings.CutPrefix(line, "# TYPE polystalk_"); ok {
			name, _, _ = strings.Cut(name, " ")
			shown["polystalk_"+name] = true
		}
	}
	for name := range shown {
		if !named[name] {
			t.Errorf("the guide does not explain %s", name)
		}
	}
	for name := range named {
		if !shown[name] {
			t.Errorf("the guide explains %s, which is not there", name)
		}
	}
}
