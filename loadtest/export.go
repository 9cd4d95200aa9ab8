package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A document is everything that a session found, as -json writes it.
type document struct {
	Started  time.Time `json:"started"`
	Took     string    `json:"took"`
	Machine  machine   `json:"machine"`
	Command  string    `json:"command"` // this program's arguments
	Servers  []target  `json:"servers"`
	Loads    []Load    `json:"loads"`
	Summary  []summary `json:"summary"`
	Verdicts []verdict `json:"assertions,omitempty"`
	Runs     []run     `json:"runs"`
}

// A machine is what figures depend on and may be published; no host name.
type machine struct {
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	CPU   string `json:"cpu,omitempty"`
	Cores int    `json:"cores"`
	Go    string `json:"go"` // of the load tester
}

func thisMachine() machine {
	m := machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.OS += " " + strings.TrimSpace(string(release))
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	return m
}

func (d *document) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}

// writeCSV writes one line per run; empty fields are not known.
func (d *document) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := []string{"load", "server", "round", "operations", "seconds"}
	for _, m := range metrics {
		head = append(head, m.name)
	}
	out.Write(head) // errors come with Flush
	for i := range d.Runs {
		r := &d.Runs[i]
		line := []string{r.Load, r.Server, strconv.Itoa(r.Round), strconv.FormatInt(r.Ops, 10), strconv.FormatFloat(r.Seconds, 'f', 3, 64)}
		for _, m := range metrics {
			text := ""
			if v := m.of(r); v != 0 {
				text = strconv.FormatFloat(v, 'g', 8, 64)
			}
			line = append(line, text)
		}
		out.Write(line)
	}
	out.Flush()
	return out.Error()
}

// writeMarkdown writes what a reader needs to judge and to repeat the figures.
func (d *document) writeMarkdown(w io.Writer, chart string) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# Load test results\n\nWritten by `go run ./loadtest`; do not edit.\n\n")
	fmt.Fprintf(b, "%s, %s, %d cores of %s, load tester built with %s. Took %s.\n\n",
		d.Started.UTC().Format("2006-01-02 15:04 UTC"), d.Machine.OS+"/"+d.Machine.Arch, d.Machine.Cores, orUnknown(d.Machine.CPU), d.Machine.Go, d.Took)
	fmt.Fprintf(b, "Figures are medians over the rounds. × is the median of the ratios to the first server in the same round: "+
		"on a shared machine the ratios mean something, the absolute figures little. "+
		"CPU is user and system time of the whole server process per %s.\n\n", d.Loads[0].protocol().unit)
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
			fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", v.Assertion, v.Load, v.Server, v.measured(), v.word())
		}
	}
	fmt.Fprintf(b, "\n## Loads\n\n")
	for _, l := range d.Loads {
		fmt.Fprintf(b, "- **%s**: %s. %s\n", l.Name, l.spec().help, l.knobs())
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
func (l Load) knobs() string {
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
	case l.Count > 0 && l.endless():
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

// writeFile creates path with what write writes; "-" is standard output.
func writeFile(path string, write func(io.Writer) error) error {
	if path == "-" {
		return write(os.Stdout)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Close()
}
