package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"polystalk/loadtest/workload"
)

// WriteMarkdown writes what a reader needs to judge and to repeat the figures.
// chart is where the chart is, seen from there; empty: there is none.
func (d *Document) WriteMarkdown(w io.Writer, chart string) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# Load test results\n\nWritten by `go run ./loadtest`; do not edit.\n\n")
	fmt.Fprintf(b, "%s, %s, %d cores of %s, load tester built with %s. Took %s.\n\n",
		d.Started.UTC().Format("2006-01-02 15:04 UTC"), d.Machine.OS+"/"+d.Machine.Arch, d.Machine.Cores, orUnknown(d.Machine.CPU), d.Machine.Go, d.Took)
	fmt.Fprintf(b, "Figures are medians over the rounds. × is the median of the ratios to the first server in the same round: "+
		"on a shared machine the ratios mean something, the absolute figures little. "+
		"CPU is user and system time of the whole server process per %s.\n\n", d.Protocol.Unit)
	for _, t := range d.Servers {
		fmt.Fprintf(b, "- **%s**: `%s`", t.Name, t.Command)
		if t.Version != "" {
			fmt.Fprintf(b, ", version %s", t.Version)
		}
		fmt.Fprintln(b)
	}
	if chart != "" {
		fmt.Fprintf(b, "\n![CPU per operation and throughput, relative to %s](%s)\n", d.Servers[0].Name, chart)
	}
	fmt.Fprintln(b)
	for i, row := range rows(d.Summary) {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintln(b, "|---|---"+strings.Repeat("|--:", len(row)-2)+"|")
		}
	}
	if len(d.Verdicts) > 0 {
		fmt.Fprintf(b, "\n## Goals\n\n| goal | load | server | measured | |\n|---|---|---|--:|---|\n")
		for _, v := range d.Verdicts {
			fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", v.Assertion, v.Load, v.Server, v.Measured(), v.Word())
		}
	}
	fmt.Fprintf(b, "\n## Loads\n\n")
	for _, l := range d.Loads {
		fmt.Fprintf(b, "- **%s**: %s. %s\n", l.Name, d.Protocol.Spec(l).Help, d.knobs(l))
	}
	fmt.Fprintf(b, "\nCommand: `go run ./loadtest %s`\n", d.Command)
	return b.Flush()
}

func orUnknown(s string) string {
	if s == "" {
		return "an unknown model"
	}
	return s
}

// knobs describes a resolved load in words.
func (d *Document) knobs(l workload.Load) string {
	s := fmt.Sprintf("%d connections, depth %d, bodies of %d bytes, %d load process(es), server on %s, load on %s",
		l.Conns, l.Depth, l.Body, l.Processes, coreList(l.ServerCPUs), coreList(l.LoadCPUs))
	if l.Tubes > 0 {
		s += fmt.Sprintf(", %d tubes or functions", l.Tubes)
	}
	if l.Workers > 0 {
		s += fmt.Sprintf(", %d workers", l.Workers)
	}
	if l.Waiting > 0 {
		s += fmt.Sprintf(", %d jobs waiting beside", l.Waiting)
	}
	if l.Held > 0 {
		s += fmt.Sprintf(", %d held", l.Held)
	}
	if l.Reconnect > 0 {
		s += fmt.Sprintf(", a new connection every %d turns", l.Reconnect)
	}
	switch {
	case l.Count > 0 && d.Protocol.Endless(l):
		s += fmt.Sprintf(", %d jobs", l.Count)
	case l.Count > 0:
		s += fmt.Sprintf(", %d operations or %v", l.Count, l.Duration)
	default:
		s += fmt.Sprintf(", %v", l.Duration)
	}
	if l.Rate > 0 {
		s += fmt.Sprintf(", open loop, %g arrivals/s, %s", l.Rate, l.Arrivals)
	}
	if l.LightRate > 0 {
		s += fmt.Sprintf(", %g commands/s beside the full server for %v", l.LightRate, l.Duration)
	}
	return s
}

func coreList(cpus []int) string {
	if len(cpus) == 0 {
		return "all cores"
	}
	return "core " + strings.Trim(fmt.Sprint(cpus), "[]")
}
