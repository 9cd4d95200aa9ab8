package ops

import "polystalk/shard/core"

// A Finisher finishes ids for one owner at a time, and counts those of a page for
// itself until it meets another page: cores that delete jobs of the same page need not
// write its count in turns. The page is kept as long. Not safe for concurrent use.
type Finisher struct {
	ids     *IDs
	pending [2]pendingCount // by page, one of which may just end when the next begins
	adds    uint64          // how often it wrote a page's count
}

type pendingCount struct {
	page uint64
	n    uint32
}

// Finish is IDs.Finish: the id is not found any more when it returns.
func (f *Finisher) Finish(jid core.JobID) {
	f.ids.clear(jid)
	page := uint64(jid) / PageIDs
	p := &f.pending[page%uint64(len(f.pending))]
	if p.page != page {
		f.report(p)
		p.page = page
	}
	if p.n++; p.n == PageIDs {
		f.report(p)
	}
}

// report tells the page of what was counted.
func (f *Finisher) report(p *pendingCount) {
	if p.n > 0 {
		f.adds++
		f.ids.count(p.page, p.n)
		p.n = 0
	}
}

// Adds is how often a page was told: a write to memory that all owners share.
func (f *Finisher) Adds() uint64 { return f.adds }
