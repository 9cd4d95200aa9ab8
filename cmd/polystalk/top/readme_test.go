package top

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"polystalk/codec/admin"
)

var rewrite = flag.Bool("rewrite", false, "write what the screen looks like into README.md; read the difference then")

// TestReadmeShowsTheScreen: the picture in README.md is what the screen looks like.
func TestReadmeShowsTheScreen(t *testing.T) {
	s := &server{whole: true, tubes: []admin.Tube{
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
	picture := strings.Join(shown(m), "\n")
	for line := range strings.Lines(picture) {
		picture = strings.Replace(picture, line, strings.TrimRight(line, " \n")+"\n", 1)
	}
	const file, begin, end = "../README.md", "## Watching\n", "```\n"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(b), begin)
	intro, rest, opened := strings.Cut(rest, end)
	shownThere, rest, closed := strings.Cut(rest, end)
	if !found || !opened || !closed {
		t.Fatalf("%s has no picture", file)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(before+begin+intro+end+strings.TrimRight(picture, "\n")+"\n"+end+rest), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if shownThere != strings.TrimRight(picture, "\n")+"\n" {
		t.Errorf("it looks so, write it by -rewrite:\n%s", picture)
	}
}
