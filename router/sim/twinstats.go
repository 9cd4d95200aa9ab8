package sim

import (
	"fmt"
	"slices"
	"strings"

	"polystalk/shard/core"
)

// answerQuery answers the commands that change nothing.
func (t *twin) answerQuery(c *twinClient, words []string, j *twinJob) {
	switch words[0] {
	case "list-tube-used":
		c.told += "USING " + c.use.name + "\r\n"
	case "list-tubes":
		c.told += listed(t.tubes)
	case "list-tubes-watched":
		c.told += listed(c.watch)
	case "stats-job":
		c.told += okReply(t.jobStats(j))
	case "stats-tube":
		q := t.tube(words[1])
		if q == nil {
			c.told += "NOT_FOUND\r\n"
			return
		}
		c.told += okReply(t.tubeStats(q))
	default:
		panic("sim: the twin does not know " + words[0])
	}
}

func listed(tubes []*twinTube) string {
	var body strings.Builder
	body.WriteString("---\n")
	for _, q := range tubes {
		body.WriteString("- " + q.name + "\n")
	}
	return okReply(body.String())
}

func okReply(body string) string { return fmt.Sprintf("OK %d\r\n%s\r\n", len(body), body) }

func (t *twin) jobStats(j *twinJob) string {
	left := core.Time(0)
	if j.deadline != 0 {
		left = j.deadline - t.now
	}
	return fmt.Sprintf("---\nid: %d\ntube: %q\nstate: %s\npri: %d\nage: %d\ndelay: %d\nttr: %d\ntime-left: %d\nfile: 0\n"+
		"reserves: %d\ntimeouts: %d\nreleases: %d\nburies: %d\nkicks: %d\n",
		j.id, j.tube.name, j.state, j.pri, (t.now-j.created)/core.Second, j.delay, j.ttr, left/core.Second,
		j.reserves, j.timeouts, j.releases, j.buries, j.kicks)
}

func (t *twin) tubeStats(q *twinTube) string {
	urgent, using, watching, waiting := 0, 0, 0, 0
	for _, j := range t.in(q, "ready") {
		if j.pri < 1024 {
			urgent++
		}
	}
	for _, c := range t.clients {
		if c.use == q {
			using++
		}
		if slices.Contains(c.watch, q) {
			watching++
			if slices.Contains(t.waiting, c) {
				waiting++
			}
		}
	}
	left := core.Time(0)
	if q.paused != 0 {
		left = q.paused - t.now
	}
	return fmt.Sprintf("---\nname: %q\ncurrent-jobs-urgent: %d\ncurrent-jobs-ready: %d\ncurrent-jobs-reserved: %d\n"+
		"current-jobs-delayed: %d\ncurrent-jobs-buried: %d\ntotal-jobs: %d\ncurrent-using: %d\ncurrent-watching: %d\n"+
		"current-waiting: %d\ncmd-delete: %d\ncmd-pause-tube: %d\npause: %d\npause-time-left: %d\n",
		q.name, urgent, len(t.in(q, "ready")), len(t.in(q, "reserved")), len(t.in(q, "delayed")), len(t.in(q, "buried")),
		q.total, using, watching, waiting, q.deletes, q.pauses, q.pauseFor, left/core.Second)
}

// gauges are the lines of stats that say how things stand.
func (t *twin) gauges() []string {
	count := func(state string, below int64) int {
		return len(t.where(func(j *twinJob) bool { return j.state == state && j.pri < below }))
	}
	producers, workers := 0, 0
	for _, c := range t.clients {
		if c.producer {
			producers++
		}
		if c.worker {
			workers++
		}
	}
	const all = 1 << 32
	text := fmt.Sprintf("current-jobs-urgent: %d\ncurrent-jobs-ready: %d\ncurrent-jobs-reserved: %d\ncurrent-jobs-delayed: %d\n"+
		"current-jobs-buried: %d\njob-timeouts: %d\ntotal-jobs: %d\ncurrent-tubes: %d\ncurrent-connections: %d\n"+
		"current-producers: %d\ncurrent-workers: %d\ncurrent-waiting: %d\nuptime: %d",
		count("ready", 1024), count("ready", all), count("reserved", all), count("delayed", all), count("buried", all),
		t.timeouts, t.total, len(t.tubes), len(t.clients), producers, workers, len(t.waiting),
		(t.now-epoch)/core.Second)
	return strings.Split(text, "\n")
}
