package top

import (
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"polystalk/codec/admin"
)

var rewrite = flag.Bool("rewrite", false, "write what the screen looks like into the guide; read the difference then")

// TestReadmeShowsTheScreen, as text and as a picture.
func TestReadmeShowsTheScreen(t *testing.T) {
	s := &fake{whole: true, tubes: []admin.Tube{
		{Name: "mail", Jobs: admin.Counts{Ready: 18342, Delayed: 12, Reserved: 64}, OldestReadySeconds: 41, Rates: admin.Rates{Put: 1210.4, Delete: 998.1}, Wait: admin.Quantiles{P99: 33}, Run: admin.Quantiles{P99: 0.5}, Waiting: 0},
		{Name: "thumbnails", Jobs: admin.Counts{Ready: 207, Reserved: 16, Buried: 3}, OldestReadySeconds: 2, Rates: admin.Rates{Put: 88.2, Delete: 87.9}, Wait: admin.Quantiles{P99: 4}, Run: admin.Quantiles{P99: 2}, Waiting: 0},
		{Name: "reports.monthly", Jobs: admin.Counts{Ready: 31}, OldestReadySeconds: 5400, PauseLeftSeconds: 1260},
		{Name: "メール送信", Jobs: admin.Counts{Ready: 4, Reserved: 2}, OldestReadySeconds: 0.032, Rates: admin.Rates{Put: 14, Delete: 14}, Wait: admin.Quantiles{P99: 0.125}, Run: admin.Quantiles{P99: 0.25}, Waiting: 6},
		{Name: "billing", Jobs: admin.Counts{Delayed: 9120, Buried: 1}, Rates: admin.Rates{Put: 0.4, Delete: 0.3}, Wait: admin.Quantiles{P99: 0.004}, Run: admin.Quantiles{P99: 0.031}, Waiting: 8},
	}}
	m := screenOf(t, s, 114, 13)
	m.every = 2 * time.Second
	v := &m.sample.server
	*v = admin.Server{Version: "0.1.0", State: "serving", UptimeSeconds: 273120, JobsTotal: 41288203, JobTimeouts: 51}
	v.Jobs = admin.Counts{Ready: 18584, Delayed: 9132, Reserved: 82, Buried: 4}
	v.Connections = admin.Connections{Open: 214, Limit: 19823, Producers: 96, Workers: 118, Waiting: 14}
	m.sample.flow = &flow{1342.5, 1131, 1102.5, 0.5}
	lines := shown(m)
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	picture := strings.TrimRight(strings.Join(lines, "\n"), "\n")
	keep(t, "picture.svg", drawn(strings.Split(picture, "\n")))
	const file, begin, end = "../../manual/guide/cli.md", "## Watching\n", "```\n"
	b, err := os.ReadFile(file)
	must(t, err)
	before, rest, found := strings.Cut(string(b), begin)
	intro, rest, opened := strings.Cut(rest, end)
	_, rest, closed := strings.Cut(rest, end)
	if !found || !opened || !closed {
		t.Fatalf("%s has no picture", file)
	}
	keep(t, file, before+begin+intro+end+picture+"\n"+end+rest)
}

// keep compares a file with its content, or writes it with -rewrite.
func keep(t *testing.T, file, want string) {
	t.Helper()
	if *rewrite {
		must(t, os.WriteFile(file, []byte(want), 0o644))
	}
	b, err := os.ReadFile(file)
	must(t, err)
	if string(b) != want {
		t.Errorf("%s is not what the screen looks like: write it by -rewrite", file)
	}
}

// drawn returns a screen as a picture. Each word has a fixed position in any font.
func drawn(lines []string) string {
	const cell, line, edge = 7.8, 19, 14 // points
	width := 0
	for _, l := range lines {
		width = max(width, ansi.StringWidth(l))
	}
	var b strings.Builder
	w, h := float64(width)*cell+2*edge, len(lines)*line+2*edge
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" role="img" aria-label="polystalk top">`+"\n", w, h)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%d" rx="8" fill="#15181c"/>`+"\n", w, h)
	b.WriteString(`<g font-family="ui-monospace, Menlo, DejaVu Sans Mono, monospace" font-size="13" fill="#d8dce2">` + "\n")
	for n, l := range lines {
		for _, at := range word.FindAllStringIndex(l, -1) {
			text := l[at[0]:at[1]]
			var escaped strings.Builder
			_ = xml.EscapeText(&escaped, []byte(text)) // a Builder does not fail
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs">%s</text>`+"\n",
				edge+float64(ansi.StringWidth(l[:at[0]]))*cell, edge+n*line+line*3/4, float64(ansi.StringWidth(text))*cell, &escaped)
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

var word = regexp.MustCompile(`[^ ]+`)
