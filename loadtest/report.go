package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A display shows live progress: one line that is rewritten on a terminal,
// one line per run elsewhere.
type display struct {
	w     io.Writer
	tty   bool
	title string
	width int
}

func newDisplay(f *os.File, quiet bool) *display {
	if quiet {
		return &display{w: io.Discard}
	}
	info, err := f.Stat()
	return &display{w: f, tty: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (d *display) begin(title string) {
	d.title = title
	d.line("starting")
}

func (d *display) progress(ops int64, since time.Duration) {
	d.line(fmt.Sprintf("%.1f s  %.0f ops/s", since.Seconds(), float64(ops)/since.Seconds()))
}

func (d *display) line(text string) {
	if !d.tty {
		return
	}
	text = d.title + "  " + text
	fmt.Fprintf(d.w, "\r%-*s", d.width, text)
	d.width = max(d.width, len(text))
}

func (d *display) end(r run) {
	text := fmt.Sprintf("%s  %.0f ops/s  cpu %.3f µs/op (server busy %.0f%%)  p50 %.0f  p99 %.0f  p99.9 %.0f  max %.0f µs",
		d.title, r.OpsRate, r.CPU, 100*r.Busy, r.Latency.P50, r.Latency.P99, r.Latency.P999, r.Latency.Max)
	if r.Memory != nil {
		text += fmt.Sprintf("  %.0f bytes/job, %.0f%% kept", r.Memory.bytesPerJob(), 100*r.Memory.kept())
	}
	if r.Growth != nil {
		text += fmt.Sprintf("  first tenth %.0f/s, last tenth %.0f/s", r.Growth.Early, r.Growth.Late)
	}
	if r.Unsent > 0 {
		text += fmt.Sprintf("  TOO SLOW: %d arrivals were due and never sent", r.Unsent)
	}
	if d.tty {
		fmt.Fprintf(d.w, "\r%-*s\n", d.width, text)
		d.width = 0
		return
	}
	fmt.Fprintln(d.w, text)
}

// A column of the summary table has a title and a way to fill it. One with a
// metric is shown only if that is known of any load.
type column struct {
	title  string
	metric string
	cell   func(s *summary) string
}

var columns = []column{
	{"ops/s", "", func(s *summary) string { return figure(s.Median["ops"], "%.0f") }},
	{"×", "", func(s *summary) string { return figure(s.Ratio["ops"], "%.3g") }},
	{"CPU µs/op", "", func(s *summary) string { return figure(s.Median["cpu"], "%.3f") }},
	{"×", "", func(s *summary) string { return figure(s.Ratio["cpu"], "%.3f") }},
	{"busy", "", func(s *summary) string { return figure(100*s.Median["busy"], "%.0f%%") }},
	{"p50 µs", "", func(s *summary) string { return figure(s.Median["p50"], "%.0f") }},
	{"p99 µs", "", func(s *summary) string { return figure(s.Median["p99"], "%.0f") }},
	{"×", "", func(s *summary) string { return figure(s.Ratio["p99"], "%.2f") }},
	{"p99.9 µs", "", func(s *summary) string { return figure(s.Median["p999"], "%.0f") }},
	{"max µs", "", func(s *summary) string { return figure(s.Median["max"], "%.0f") }},
	{"RSS MB", "", func(s *summary) string {
		return figure(s.Median["rss-before"]/1e6, "%.1f") + "→" + figure(s.Median["rss"]/1e6, "%.1f")
	}},
	{"early/s", "early", func(s *summary) string { return figure(s.Median["early"], "%.0f") }},
	{"late/s", "early", func(s *summary) string { return figure(s.Median["late"], "%.0f") }},
	{"late/early", "early", func(s *summary) string { return figure(s.Median["sustained"], "%.2f") }},
	{"B/job", "bytes", func(s *summary) string { return figure(s.Median["bytes"], "%.0f") }},
	{"kept", "bytes", func(s *summary) string {
		if s.Median["bytes"] == 0 {
			return "–"
		}
		return fmt.Sprintf("%.0f%%", 100*s.Median["kept"])
	}},
}

func figure(v float64, format string) string {
	if v == 0 {
		return "–"
	}
	return fmt.Sprintf(format, v)
}

// rows returns the table: a header, then one row per load and server.
func rows(sums []summary) [][]string {
	head := []string{"load", "server"}
	shown := slices.Clone(columns)
	shown = slices.DeleteFunc(shown, func(c column) bool {
		return c.metric != "" && !slices.ContainsFunc(sums, func(s summary) bool { return s.Median[c.metric] != 0 })
	})
	for _, c := range shown {
		head = append(head, c.title)
	}
	out := [][]string{head}
	for i := range sums {
		row := []string{sums[i].Load, sums[i].Server}
		if i > 0 && sums[i-1].Load == sums[i].Load {
			row[0] = ""
		}
		for _, c := range shown {
			row = append(row, c.cell(&sums[i]))
		}
		out = append(out, row)
	}
	return out
}

func writeTable(w io.Writer, sums []summary) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows(sums) {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}
