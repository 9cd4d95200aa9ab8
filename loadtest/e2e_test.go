package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"polystalk/codec/gearmantest"
	"polystalk/loadtest/report"
)

// TestMain lets this binary be started as a load process and as the floor.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "worker", "floor":
			main()
			return
		}
	}
	os.Exit(m.Run())
}

func installedBeanstalkd(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("beanstalkd")
	if err != nil {
		t.Skip("beanstalkd is not installed; install it (Debian and Ubuntu: apt-get install beanstalkd) to run this test")
	}
	return path
}

// The whole way: servers and load processes started, all reports written.
func TestComparisonEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	baseline := installedBeanstalkd(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	o, err := parseOptions([]string{"-quiet", "-rounds", "2", "-duration", "50ms", "-warmup", "10ms", "-conns", "4", "-processes", "2",
		"-compare", "ref=" + baseline, "-compare", baseline + " -p {port} -l 127.0.0.1 -b {dir}", "-floor",
		"-load", "cycle depth=4 name=c4", "-load", "wakeup",
		"-assert", "c4: floor.cpu>0", "-assert", "wakeup: p50/ref>0",
		"-json", file("r.json"), "-csv", file("r.csv"), "-markdown", file("r.md"), "-chart", file("r.svg")}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := session(t.Context(), o, &table); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file("r.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d report.Document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Runs) != 2*(3+2) || len(d.Summary) != 5 { // the floor has no wakeup
		t.Errorf("%d runs and %d summaries, expected 10 and 5", len(d.Runs), len(d.Summary))
	}
	for _, r := range d.Runs {
		if r.Ops == 0 || r.CPU <= 0 || r.RSSBefore == 0 || r.RSSAfter == 0 || r.Latency.Count == 0 || r.LoadCPU <= 0 {
			t.Errorf("incomplete run %+v", r)
		}
	}
	if d.Servers[0].Version == "" {
		t.Error("the server's version is missing")
	}
	for _, name := range []string{"ref", "beanstalkd", "floor", "c4", "wakeup"} {
		if !strings.Contains(table.String(), name) {
			t.Errorf("the table lacks %s:\n%s", name, &table)
		}
	}
	for _, name := range []string{"r.csv", "r.md", "r.svg"} {
		if info, err := os.Stat(file(name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMissedAssertionFailsTheSession(t *testing.T) {
	o, err := parseOptions([]string{"-quiet", "-rounds", "1", "-duration", "30ms", "-warmup", "0s", "-conns", "2", "-floor", "-assert", "floor.ops<=0.5"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := session(t.Context(), o, io.Discard); err == nil || !strings.Contains(err.Error(), "MISSED") {
		t.Errorf("error %v, expected a missed assertion", err)
	}
}

// installedGearmand is the command line of the installed one, without arguments.
func installedGearmand(t *testing.T) string {
	t.Helper()
	program, _, err := gearmantest.Reference()
	if err != nil {
		t.Skip(err)
	}
	return program
}

// The whole way: servers and load processes started, all reports written.
func TestGearmanComparisonEndToEnd(t *testing.T) {
	program := installedGearmand(t)
	file := filepath.Join(t.TempDir(), "r.json")
	o, err := parseOptions([]string{"-quiet", "-rounds", "1", "-duration", "50ms", "-warmup", "10ms", "-conns", "4", "-processes", "2",
		"-compare", "ref=" + program, "-compare", "one=" + program + " -L 127.0.0.1 -p {port} -t 1 -l stderr -P {dir}/pid", "-protocol", "gearman",
		"-load", "background name=bg count=24000 depth=100", "-load", "foreground",
		"-assert", "bg: sustained>0", "-assert", "foreground: p50/ref>0", "-json", file}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := session(t.Context(), o, &table); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var d report.Document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Runs) != 4 || len(d.Summary) != 4 {
		t.Errorf("%d runs and %d summaries, expected 4 of both", len(d.Runs), len(d.Summary))
	}
	for _, r := range d.Runs {
		if r.Ops == 0 || r.CPU <= 0 || r.RSSBefore == 0 || r.RSSAfter == 0 || r.Latency.Count == 0 || (r.Growth != nil) != (r.Load != "foreground") {
			t.Errorf("incomplete run %+v", r)
		}
	}
	if d.Servers[0].Version == "" {
		t.Error("the server's version is missing")
	}
	if !strings.Contains(table.String(), "late/early") {
		t.Errorf("the table does not say how the rate held:\n%s", &table)
	}
}
