package report

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"strings"
	"testing"

	"polystalk/loadtest/beanstalkd"
	"polystalk/loadtest/compare"
	"polystalk/loadtest/measure/measuretest"
	"polystalk/loadtest/workload"
)

func sample() *Document {
	runs := measuretest.ThreeRounds()
	targets := []compare.Target{{Name: "ref", Command: "beanstalkd", Version: "1.12"}, {Name: "new", Command: "polystalkd"}, {Name: "floor", Constant: true}}
	a, err := compare.ParseAssertion("cycle: cpu<=0.5")
	if err != nil {
		panic(err)
	}
	return &Document{Machine: ThisMachine(), Command: "-x", Servers: targets, Runs: runs, Summary: compare.Summarize(runs, "ref"),
		Verdicts: a.Judge(runs, targets), Loads: []workload.Load{{Name: "cycle", Workload: "cycle", ServerCPUs: []int{0, 1}}}, Protocol: beanstalkd.Protocol}
}

func TestCSVHasARowPerRun(t *testing.T) {
	d := sample()
	var b bytes.Buffer
	if err := d.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 1+len(d.Runs) || len(rows[0]) != 5+len(compare.Metrics) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	seen := map[string]bool{}
	for _, h := range rows[0] {
		if seen[h] {
			t.Errorf("two columns are called %s", h)
		}
		seen[h] = true
	}
}

func TestMarkdownShowsTableServersAndVerdicts(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteMarkdown(&b, "chart.svg"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"`beanstalkd`, version 1.12", "](chart.svg)", "| cycle | ref |", "|  | new | 250 | 2 | 4.000 | 0.500 |",
		"| `cycle: cpu<=0.5` | cycle | new | 0.5 | holds |", "core 0 1"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, &b)
		}
	}
}

func TestChart(t *testing.T) {
	d := sample()
	var svg, raster bytes.Buffer
	if err := writeChart(&svg, "x.svg", d.Summary, d.Servers); err != nil {
		t.Fatal(err)
	}
	dec := xml.NewDecoder(bytes.NewReader(svg.Bytes()))
	var text strings.Builder
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := tok.(xml.CharData); ok {
			text.Write(c)
		}
	}
	for _, want := range []string{"ref", "new", "floor", "cycle", "memory", "less is better", "0.5", "0.25"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the chart lacks %q", want)
		}
	}
	if err := writeChart(&raster, "x.PNG", d.Summary, d.Servers); err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(&raster); err != nil {
		t.Error(err)
	}
}
