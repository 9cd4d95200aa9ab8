package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
)

// tailEach is the time between two looks at a tube.
const tailEach = 500 * time.Millisecond

// A look reads as many jobs of each state as have come, and tailMore that may have entered the
// state otherwise, but at most tailMax.
const (
	tailMore = 50
	tailMax  = 10_000
)

// clockError is above the error of a job's age, in seconds.
const clockError = 0.1

// A tail shows the new jobs of a tube. It asks for the jobs that have entered a state since the
// look before, the newest first, so the jobs that were there before cost nothing.
type tail struct {
	*run
	tube, body string
	list       *client.List

	began  time.Time       // of the tail
	before time.Time       // the beginning of the look before
	after  time.Time       // the end of the look before
	outage outage          // since the look before
	total  uint64          // jobs that the tube has had, at the look before
	hidden int64           // jobs that came and were not shown; negative: they will be counted
	floor  uint64          // jobs with ids up to this one are not new
	seen   map[uint64]bool // jobs of the look before
}

// A tailed is a job with the members that tell whether it is new.
type tailed struct {
	ID    uint64  `json:"id,string"`
	Age   float64 `json:"age_seconds"`
	Since float64 `json:"state_seconds"`
	text  json.RawMessage
}

func (a *App) tailVerb() verb {
	var body string
	return verb{
		use: "tail TUBE", short: "show new jobs of a tube as they come, without side effects", cannot: "show jobs as they come",
		long: `Looks at the tube twice a second and shows the jobs that are new. It reserves nothing. It
cannot show a job that a worker has reserved before the next look, and tells the number of
such jobs. If the server restarts, it connects again. Ctrl-C ends it.`,
		examples: "polystalk tail mail\npolystalk tail mail --body full -o jsonl",
		flags: func(fs *pflag.FlagSet) {
			a.pathFlag(fs)
			fs.StringVar(&body, "body", "preview", "show `PART` of each body: none, preview (256 bytes) or full")
		},
		do: func(r *run) (err error) {
			t := &tail{run: r, body: body, began: time.Now(), list: r.printer.List(client.JobsView)}
			if t.tube, err = r.tubeName(r.args[0]); err != nil {
				return err
			}
			for first := true; ; first = false {
				rows, err := t.look(first)
				if lost := !first && client.ExitCode(err) == client.System; (lost || err == nil) && r.ctx.Err() == nil {
					t.outage.note(r.App, r.asked, err)
					err = t.show(rows)
				}
				if err == nil {
					select {
					case <-r.ctx.Done():
					case <-time.After(tailEach):
						continue
					}
				}
				if r.ctx.Err() != nil {
					err = t.list.Close()
				}
				return err
			}
		},
	}
}

// show shows jobs at once.
func (t *tail) show(rows []json.RawMessage) error {
	if len(rows) > 0 {
		document, err := json.Marshal(map[string]any{"jobs": rows})
		if err == nil {
			err = t.list.Page(document)
		}
		if err != nil {
			return err
		}
	}
	return t.out.Flush()
}

// look returns the jobs that came since the look before. The first one returns none.
func (t *tail) look(first bool) (rows []json.RawMessage, err error) {
	now := time.Now()
	var tube struct {
		Total uint64 `json:"jobs_total"`
	}
	_, err = t.read("/tubes/{tube}", t.tube, &tube)
	missing := client.ExitCode(err) == client.Nothing
	switch {
	case missing && first:
		t.note("there is no such tube yet: its first job makes it")
	case err != nil && !missing:
		return nil, err
	}
	if missing || tube.Total < t.total { // a tube that is made again counts from 0
		t.total, t.hidden = 0, 0
	}
	came := tube.Total - t.total
	var all []tailed
	if !missing {
		if all, err = t.newest(first, came); err != nil {
			return nil, err
		}
	}
	seen := make(map[uint64]bool)
	for _, j := range all {
		seen[j.ID] = true
		if young := j.Age+clockError < now.Sub(t.after).Seconds(); young && (j.ID <= t.floor || t.seen[j.ID]) {
			t.floor, t.seen = 0, nil // a server without a journal has restarted, and counts from 1
		}
		if !first && j.ID > t.floor && !t.seen[j.ID] && j.Age <= time.Since(t.began).Seconds() {
			rows = append(rows, j.text)
		}
	}
	// A job may come between two requests of a look, and be missed. So the next look shows also
	// jobs below the highest id of this look.
	for id := range t.seen {
		t.floor = max(t.floor, id)
	}
	t.seen, t.before, t.total = seen, now, tube.Total
	if t.hidden += int64(came) - int64(len(rows)); t.hidden > 0 && !first && !t.outage.down {
		t.note("%s came and could not be shown: taken, gone, or too many at once", counted(uint64(t.hidden), "other job"))
	}
	if first || t.outage.down || t.hidden > 0 { // a restart makes the counts wrong
		t.hidden = 0
	}
	t.after = time.Now()
	return rows, nil
}

var errSeen = errors.New("the jobs before were seen")

// newest returns the jobs that have entered a state since the look before, by id.
func (t *tail) newest(first bool, came uint64) (all []tailed, err error) {
	limit := int(min(came+tailMore, tailMax))
	switch {
	case first:
		limit = tailMore
	case t.outage.down:
		limit = tailMax
	}
	for _, state := range []string{"ready", "delayed", "buried"} {
		q := client.Request{Path: "/tubes/{tube}/jobs", Tube: t.tube, Limit: limit, Query: url.Values{"state": {state}, "order": {"newest"}, "body": {t.body}}}
		err := t.server.List(t.ctx, q, func(document []byte) error {
			back := time.Since(t.before).Seconds() + 1 // a later page has older jobs
			var part struct{ Jobs []json.RawMessage }
			if err := client.Read(document, &part); err != nil {
				return err
			}
			for _, text := range part.Jobs {
				j := tailed{text: text}
				if err := client.Read(text, &j); err != nil {
					return err
				}
				if !first && j.Since > back {
					return errSeen
				}
				all = append(all, j)
			}
			return nil
		})
		if err != nil && err != errSeen && client.ExitCode(err) != client.Nothing {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b tailed) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b tailed) bool { return a.ID == b.ID }), nil
}
