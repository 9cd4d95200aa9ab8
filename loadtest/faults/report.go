package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// A report is what a run has shown.
type report struct {
	seed           uint64
	took           float64              // seconds
	pauses         map[string][]float64 // by fault: the longest of each, in seconds
	ended          bool                 // false: the run did not reach its end
	seen, appeared int64                // jobs at the end; puts in doubt that took effect
	counts         counts
	rules          map[rule]int
	violations     []string // the first of them
	wrong          []string // replies that do not answer what was asked
	accidents      []string // ends of nodes that nobody ordered
	dialed         int64
}

// clean reports whether nothing was found, at the end of a whole run.
func (r *report) clean() bool {
	return r.ended && len(r.rules) == 0 && len(r.wrong) == 0 && len(r.accidents) == 0
}

func (r *report) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nfault\ttimes\tpause, median s\tworst s\t\n")
	row := func(name string, p []float64) {
		if p = slices.Sorted(slices.Values(p)); len(p) > 0 {
			fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f\t\n", name, len(p), p[len(p)/2], p[len(p)-1])
		}
	}
	var all []float64
	for _, name := range slices.Sorted(maps.Keys(r.pauses)) {
		row(name, r.pauses[name])
		all = append(all, r.pauses[name]...)
	}
	row("all", all)
	row("planned (transfer, rolling)", slices.Concat(r.pauses["transfer"], r.pauses["rolling"]))
	t.Flush()
	c := r.counts
	fmt.Fprintf(w, "\nseed %d: %d puts in %.0f s: %d acknowledged, %d refused, %d in doubt; %d connections\n", r.seed, c.put, r.took, c.acknowledged, c.refused, c.put-c.acknowledged-c.refused, r.dialed)
	fmt.Fprintf(w, "%d reserved, %d deleted, %d released, %d buried, %d kicked; in doubt %d deletes, %d changes\n", c.reserved, c.deleted, c.released, c.buried, c.kicked, c.deletesInDoubt, c.otherChangesInDoubt)
	if r.ended {
		fmt.Fprintf(w, "%d were there at the end; of the puts in doubt %d took effect\n", r.seen, r.appeared)
	} else {
		fmt.Fprintln(w, "the run did not reach its end: what is lost is not known")
	}
	var counts []string
	for _, rule := range rules {
		counts = append(counts, fmt.Sprintf("%d %s", r.rules[rule], rule))
	}
	fmt.Fprintf(w, "%s; %d wrong answers, %d accidents\n", strings.Join(counts, ", "), len(r.wrong), len(r.accidents))
	for _, list := range [][]string{r.violations, r.wrong, r.accidents} {
		for _, text := range list {
			fmt.Fprintln(w, " ", text)
		}
	}
}
