package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A document is the result of a session, in the form that -json writes.
type document struct {
	Started  time.Time `json:"started"`
	Took     string    `json:"took"`
	Machine  machine   `json:"machine"`
	Command  string    `json:"command"` // this program's arguments
	Servers  []Target  `json:"servers"`
	Loads    []Load    `json:"loads"`
	Summary  []summary `json:"summary"`
	Verdicts []verdict `json:"assertions,omitempty"`
	Runs     []Run     `json:"runs"`

	protocol *protocol
}

// A machine has the properties that figures depend on and that may be published: no host name.
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
	info, _ := os.ReadFile("/proc/cpuinfo") // elsewhere the model is not known
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	return m
}

// files has the path for each form of a document; -: standard output; empty: none.
type files struct{ json, markdown, chart string }

// write writes all requested forms. A failure of one does not stop the others.
func (f files) write(d *document) error {
	var errs []error
	put := func(path string, text []byte, err error) {
		switch {
		case path == "":
			return
		case err != nil:
		case path == "-":
			_, err = os.Stdout.Write(text)
		default:
			err = os.WriteFile(path, text, 0o644)
		}
		errs = append(errs, err)
	}
	text, err := json.MarshalIndent(d, "", "  ")
	put(f.json, append(text, '\n'), err)
	put(f.chart, chart(d.Summary, d.Servers), nil)
	link := ""
	if f.chart != "" {
		link, err = filepath.Rel(filepath.Dir(f.markdown), f.chart)
	}
	put(f.markdown, d.markdown(filepath.ToSlash(link)), err)
	return errors.Join(errs...)
}

// markdown returns all that a reader needs to judge and to repeat the figures. chart is the path of
// the chart relative to the document; empty: none.
func (d *document) markdown(chart string) []byte {
	b := new(bytes.Buffer)
	fmt.Fprintf(b, "# Load test results\n\nWritten by `go run ./loadtest`; do not edit.\n\n")
	fmt.Fprintf(b, "%s, %s/%s, %d cores of %s, load tester built with %s. Took %s.\n\n", d.Started.UTC().Format("2006-01-02 15:04 UTC"),
		d.Machine.OS, d.Machine.Arch, d.Machine.Cores, cmp.Or(d.Machine.CPU, "an unknown model"), d.Machine.Go, d.Took)
	unit := cmp.Or(d.protocol.workloads[d.Loads[0].Workload].unit, d.protocol.unit)
	fmt.Fprintf(b, "Figures are medians over the rounds. × is the median of the ratios to the first server in the same round: "+
		"on a shared machine the ratios are reliable, the absolute figures are not. "+
		"CPU is user and system time of the whole server process per %s.\n\n", unit)
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
		fmt.Fprintf(b, "- **%s**: %s. %d connections, depth %d, bodies of %d bytes, %v; server on %s, load on %s. `%s`\n", l.Name,
			d.protocol.workloads[l.Workload].help, l.Conns, l.Depth, l.Body, l.Duration, cores(l.ServerCPUs), cores(l.LoadCPUs), l.line)
	}
	fmt.Fprintf(b, "\nCommand: `go run ./loadtest %s`\n", d.Command)
	return b.Bytes()
}

func cores(cpus []int) string {
	if len(cpus) == 0 {
		return "all cores"
	}
	return "core " + strings.Trim(fmt.Sprint(cpus), "[]")
}

// rows returns the table: a header, then one row per load and server. A metric that is unknown for all
// loads has no column.
func rows(sums []summary) [][]string {
	out := [][]string{{"load", "server"}}
	for i, s := range sums {
		row := []string{s.Load, s.Server}
		if i > 0 && sums[i-1].Load == s.Load {
			row[0] = ""
		}
		out = append(out, row)
	}
	column := func(title, format string, scale float64, of func(summary) map[string]float64, metric string) {
		if format == "" || !slices.ContainsFunc(sums, func(s summary) bool { _, known := s.Median[metric]; return known }) {
			return
		}
		out[0] = append(out[0], title)
		for i, s := range sums {
			text := "–"
			if v, known := of(s)[metric]; known {
				text = fmt.Sprintf(format, v*scale)
			}
			out[i+1] = append(out[i+1], text)
		}
	}
	for _, m := range metrics {
		column(m.title, m.format, m.scale, func(s summary) map[string]float64 { return s.Median }, m.name)
		column("×", m.ratio, 1, func(s summary) map[string]float64 { return s.Ratio }, m.name)
	}
	return out
}

// writeTable writes the table in columns for a terminal.
func writeTable(w io.Writer, sums []summary) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows(sums) {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}
