package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"polystalk/loadtest/bench"
	"polystalk/loadtest/faults/history"
	"polystalk/loadtest/faults/nodes"
)

// A result is what a run has shown.
type result struct {
	Seed       uint64               `json:"seed"`
	Nodes      int                  `json:"nodes"`
	Programs   []string             `json:"programs"`
	Args       []string             `json:"args"`
	Took       float64              `json:"took"`    // seconds
	Faults     map[string][]float64 `json:"faults"`  // the longest pause of each, in seconds
	Verdict    *history.Verdict     `json:"verdict"` // nil: the run did not come to its end
	Sums       history.Sums         `json:"sums"`
	Violations []history.Violation  `json:"found"` // the first of them
	Wrong      []string             `json:"wrong"` // answers that are none
	Accidents  []nodes.Accident     `json:"accidents"`
	Most       measured             `json:"most"`
	Dialed     int64                `json:"dialed"`
	Counts     map[history.Rule]int `json:"counts"`
}

// A measured is what nodes have taken at most, looked at after each fault.
type measured struct {
	Bytes  int64   `json:"bytes"`  // of a directory
	Bound  float64 `json:"bound"`  // of a directory, divided by what the journal promises to keep within
	Memory int64   `json:"memory"` // resident bytes of a process
}

// bound is what a directory holds at most: twice the live jobs, three segments, and four
// of the largest records; of one of several servers besides what it has written to catch up, and
// not applied. While it sends its journal to another one there may be twice as much. Source:
// shard/wal/README.md, "Space".
func bound(live history.Stock, segment int64, nodes int) int64 {
	most := 2*(live.Bytes+66*live.Jobs) + 3*segment + 4*64<<10
	if nodes > 1 {
		most += unapplied
	}
	return most
}

// unapplied is what can be under way to a server that catches up, and what it applies at a time:
// to have more written it would have to apply slower than it writes. Source: router/cluster, the
// limits of a Machine.
const unapplied = 16<<20 + 4<<20

// measure looks at all nodes.
func (r *result) measure(by *run) {
	most := bound(by.h.Live(), by.o.segment, by.o.nodes)
	for _, n := range by.fleet.All() {
		bytes := n.Bytes()
		if share := float64(bytes) / float64(most); share > 1 && share > r.Most.Bound {
			by.say("the directory of %s holds %d bytes, and %d is its bound", n.Name, bytes, most)
		}
		r.Most.Bytes = max(r.Most.Bytes, bytes)
		r.Most.Bound = max(r.Most.Bound, float64(bytes)/float64(most))
		if rss, err := bench.RSS(n.PID()); err == nil { // else it has just ended
			r.Most.Memory = max(r.Most.Memory, rss)
		}
	}
}

func newResult(o *options) *result {
	return &result{Seed: o.seed, Nodes: o.nodes, Programs: o.programs, Args: o.args, Faults: make(map[string][]float64)}
}

// add takes the pause of a fault.
func (r *result) add(name string, pause time.Duration) {
	r.Faults[name] = append(r.Faults[name], pause.Seconds())
}

// finish takes what the run's parts have counted.
func (r *result) finish(by *run) {
	r.Took = time.Since(by.began).Seconds()
	r.Sums, r.Counts = by.h.Sums(), by.h.Violations()
	r.Dialed = by.crew.Dialed()
	for _, err := range by.crew.Wrong() {
		r.Wrong = append(r.Wrong, err.Error())
	}
}

// clean reports whether nothing was found, at the end of a whole run.
func (r *result) clean() bool {
	return r.Verdict != nil && len(r.Counts) == 0 && len(r.Wrong) == 0 && len(r.Accidents) == 0
}

// print writes the tables.
func (r *result) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nfault\ttimes\tpause, median s\tworst s\t\n")
	var all []float64
	for _, name := range slices.Sorted(maps.Keys(r.Faults)) {
		p := slices.Sorted(slices.Values(r.Faults[name]))
		all = append(all, p...)
		fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f\t\n", name, len(p), p[len(p)/2], p[len(p)-1])
	}
	if len(all) > 0 {
		slices.Sort(all)
		fmt.Fprintf(t, "all\t%d\t%.3f\t%.3f\t\n", len(all), all[len(all)/2], all[len(all)-1])
	}
	t.Flush()
	planned := slices.Concat(r.Faults["transfer"], r.Faults["rolling"])
	if len(planned) > 0 {
		slices.Sort(planned)
		fmt.Fprintf(w, "\nof %d planned hand-overs and rolling restarts the median pause was %.3f s, the longest %.3f s\n", len(planned), planned[len(planned)/2], planned[len(planned)-1])
	}
	s := r.Sums
	fmt.Fprintf(w, "\nseed %d: %d puts in %.0f s: %d acknowledged, %d refused, %d in doubt; %d connections\n", r.Seed, s.Put, r.Took, s.Acknowledged, s.Refused, s.PutInDoubt(), r.Dialed)
	fmt.Fprintf(w, "%d reserved, %d deleted, %d released, %d buried, %d kicked; in doubt %d deletes, %d changes\n", s.Reserved, s.Deleted, s.Released, s.Buried, s.Kicked, s.DeleteInDoubt, s.ChangeInDoubt)
	if v := r.Verdict; v != nil {
		fmt.Fprintf(w, "%d were there at the end; of the puts in doubt %d took effect\n", v.Seen, v.Appeared)
	} else {
		fmt.Fprintln(w, "the run did not come to its end: what is lost is not known")
	}
	d := r.Most
	fmt.Fprintf(w, "a directory took %.1f MB at most, %.2f of its bound; a process %.0f MB\n", float64(d.Bytes)/1e6, d.Bound, float64(d.Memory)/1e6)
	var counts []string
	for _, rule := range history.Rules {
		counts = append(counts, fmt.Sprintf("%d %s", r.Counts[rule], rule))
	}
	fmt.Fprintf(w, "%s; %d wrong answers, %d accidents\n", strings.Join(counts, ", "), len(r.Wrong), len(r.Accidents))
	for _, v := range r.Violations {
		fmt.Fprintln(w, " ", v)
	}
	for _, s := range r.Wrong {
		fmt.Fprintln(w, "  wrong:", s)
	}
	for _, a := range r.Accidents {
		fmt.Fprintf(w, "  accident: %s: %s\n", a.Node, a.How)
	}
}
