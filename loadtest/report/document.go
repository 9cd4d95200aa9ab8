package report

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"polystalk/loadtest/compare"
	"polystalk/loadtest/measure"
	"polystalk/loadtest/workload"
)

// A Document is everything that a session found, as -json writes it.
type Document struct {
	Started  time.Time         `json:"started"`
	Took     string            `json:"took"`
	Machine  Machine           `json:"machine"`
	Command  string            `json:"command"` // this program's arguments
	Servers  []compare.Target  `json:"servers"`
	Loads    []workload.Load   `json:"loads"`
	Summary  []compare.Summary `json:"summary"`
	Verdicts []compare.Verdict `json:"assertions,omitempty"`
	Runs     []measure.Run     `json:"runs"`

	Protocol *workload.Protocol `json:"-"` // of all loads; each names it already
}

// A Machine is what figures depend on and may be published; no host name.
type Machine struct {
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	CPU   string `json:"cpu,omitempty"`
	Cores int    `json:"cores"`
	Go    string `json:"go"` // of the load tester
}

// ThisMachine describes the one that this program runs on.
func ThisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
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

// WriteJSON writes everything.
func (d *Document) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}

// WriteCSV writes one line per run; empty fields are not known.
func (d *Document) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := []string{"load", "server", "round", "operations", "seconds"}
	for _, m := range compare.Metrics {
		head = append(head, m.Name)
	}
	out.Write(head) // errors come with Flush
	for i := range d.Runs {
		r := &d.Runs[i]
		line := []string{r.Load, r.Server, strconv.Itoa(r.Round), strconv.FormatInt(r.Ops, 10), strconv.FormatFloat(r.Seconds, 'f', 3, 64)}
		for _, m := range compare.Metrics {
			text := ""
			if v := m.Of(r); v != 0 {
				text = strconv.FormatFloat(v, 'g', 8, 64)
			}
			line = append(line, text)
		}
		out.Write(line)
	}
	out.Flush()
	return out.Error()
}
