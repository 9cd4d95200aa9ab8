package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"polystalk/loadtest/compare"
)

// A column of the summary table has a title and a way to fill it. One with a
// metric is shown only if that is known of any load.
type column struct {
	title  string
	metric string
	cell   func(s *compare.Summary) string
}

var columns = []column{
	{"ops/s", "", func(s *compare.Summary) string { return figure(s.Median["ops"], "%.0f") }},
	{"×", "", func(s *compare.Summary) string { return figure(s.Ratio["ops"], "%.3g") }},
	{"CPU µs/op", "", func(s *compare.Summary) string { return figure(s.Median["cpu"], "%.3f") }},
	{"×", "", func(s *compare.Summary) string { return figure(s.Ratio["cpu"], "%.3f") }},
	{"busy", "", func(s *compare.Summary) string { return figure(100*s.Median["busy"], "%.0f%%") }},
	{"p50 µs", "", func(s *compare.Summary) string { return figure(s.Median["p50"], "%.0f") }},
	{"p99 µs", "", func(s *compare.Summary) string { return figure(s.Median["p99"], "%.0f") }},
	{"×", "", func(s *compare.Summary) string { return figure(s.Ratio["p99"], "%.2f") }},
	{"p99.9 µs", "", func(s *compare.Summary) string { return figure(s.Median["p999"], "%.0f") }},
	{"max µs", "", func(s *compare.Summary) string { return figure(s.Median["max"], "%.0f") }},
	{"RSS MB", "", func(s *compare.Summary) string {
		return figure(s.Median["rss-before"]/1e6, "%.1f") + "→" + figure(s.Median["rss"]/1e6, "%.1f")
	}},
	{"early/s", "early", func(s *compare.Summary) string { return figure(s.Median["early"], "%.0f") }},
	{"late/s", "early", func(s *compare.Summary) string { return figure(s.Median["late"], "%.0f") }},
	{"late/early", "early", func(s *compare.Summary) string { return figure(s.Median["sustained"], "%.2f") }},
	{"B/job", "bytes", func(s *compare.Summary) string { return figure(s.Median["bytes"], "%.0f") }},
	{"kept", "bytes", func(s *compare.Summary) string {
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
func rows(sums []compare.Summary) [][]string {
	head := []string{"load", "server"}
	shown := slices.Clone(columns)
	shown = slices.DeleteFunc(shown, func(c column) bool {
		return c.metric != "" && !slices.ContainsFunc(sums, func(s compare.Summary) bool { return s.Median[c.metric] != 0 })
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

// WriteTable writes the table in columns for a terminal.
func WriteTable(w io.Writer, sums []compare.Summary) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows(sums) {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}
