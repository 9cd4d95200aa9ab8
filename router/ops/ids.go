package ops

import (
	"fmt"
	"sync"
	"sync/atomic"

	"polystalk/shard/core"
)

const (
	// PageIDs is how many ids a page covers, with two bytes each. A Finisher that finishes ids in
	// order updates IDs once per page.
	PageIDs = 256
	// regionPages is how many pages a region has.
	regionPages = 4096
	regionIDs   = PageIDs * regionPages
)

// iDs allocates job ids 1, 2, 3 … for the whole server, and knows the shard of each job, so that a
// command that names a job visits one shard. It takes two bytes per live job if ids are dense. It
// drops a page after all its ids are finished, and a region after its last page.
//
// Every allocated id is finished exactly once: when its job is deleted, or when no job was made.
// So a page can count its finished ids.
type iDs struct {
	last    atomic.Uint64
	_       [56]byte // every put writes last, every command reads regions
	regions atomic.Pointer[[]atomic.Pointer[idRegion]]
	grow    sync.Mutex
}

type idRegion struct {
	pages    [regionPages]atomic.Pointer[idPage]
	finished atomic.Uint32 // pages
}

type idPage struct {
	finished atomic.Uint32 // ids
	shards   [PageIDs / 2]atomic.Uint32
}

// idPlace returns the word of a page that has an id, and the shift in it. Eight consecutive ids
// share a cache line of 64 bytes, so the ids that a loop takes at once are on few lines. The next
// eight ids are on another line, so loops that put at the same time use different lines.
func idPlace(id uint64) (word, shift uint64) {
	const lines, run = PageIDs * 2 / 64, 8
	at := id/run%lines*(PageIDs/lines) + id%PageIDs/(run*lines)*run + id%run
	return at / 2, at % 2 * 16
}

// newIDs returns IDs without allocated ids.
func newIDs() *iDs {
	m := new(iDs)
	m.regions.Store(new([]atomic.Pointer[idRegion]))
	// There is no job 0, so nothing else would finish it.
	m.Finish(0)
	return m
}

// Take allocates n consecutive ids, and returns the first. The caller must note or finish each.
func (m *iDs) Take(n int) core.JobID { return core.JobID(m.last.Add(uint64(n)) - uint64(n) + 1) }

// GiveBack returns n ids from first on, the last ones of a Take. It returns false if other ids were
// taken since.
func (m *iDs) GiveBack(first core.JobID, n int) bool {
	before := uint64(first) - 1
	return m.last.CompareAndSwap(before+uint64(n), before)
}

// Note records the shard of an allocated id, before any client can know the job.
func (m *iDs) Note(jid core.JobID, sh int) {
	id := uint64(jid)
	word, shift := idPlace(id)
	m.page(id).shards[word].Or(uint32(sh+1) << shift)
}

// Last returns the highest allocated id; zero: none.
func (m *iDs) Last() core.JobID { return core.JobID(m.last.Load()) }

// find returns the index of the shard of a live job. ok is false if there is no such job.
func (m *iDs) find(jid core.JobID) (sh int, ok bool) {
	id := uint64(jid)
	p := m.livePage(id)
	if p == nil {
		return 0, false
	}
	word, shift := idPlace(id)
	sh = int(p.shards[word].Load() >> shift & 0xffff)
	return sh - 1, sh != 0
}

// Finish removes the id of a job that is deleted or was never made.
func (m *iDs) Finish(jid core.JobID) {
	m.clear(jid)
	m.count(uint64(jid)/PageIDs, 1)
}

// Forget undoes Note on a follower, where the leader allocates and finishes ids. Resume, which
// counts finished ids, must be called before any other use.
func (m *iDs) Forget(jid core.JobID) { m.clear(jid) }

// clear makes an id not found. count must follow.
func (m *iDs) clear(jid core.JobID) {
	word, shift := idPlace(uint64(jid))
	m.page(uint64(jid)).shards[word].And(^(uint32(0xffff) << shift))
}

// count adds n cleared ids to a page's count.
func (m *iDs) count(page uint64, n uint32) {
	switch done := m.page(page * PageIDs).finished.Add(n); {
	case done < PageIDs:
		return
	case done > PageIDs:
		panic(fmt.Sprintf("ops: %d ids are finished of the %d from %d on", done, PageIDs, page*PageIDs))
	}
	rs := *m.regions.Load()
	at := page / regionPages
	r := rs[at].Load()
	r.pages[page%regionPages].Store(nil)
	if r.finished.Add(1) == regionPages {
		m.grow.Lock()
		(*m.regions.Load())[at].Store(nil)
		m.grow.Unlock()
	}
}

// Resume continues after high, the highest id ever allocated. It treats all ids up to high as
// finished, except noted ones. No other goroutine may use the ids meanwhile.
func (m *iDs) Resume(high uint64) {
	m.last.Store(high)
	for n := uint64(0); n <= high/regionIDs; n++ {
		rs := *m.regions.Load()
		var r *idRegion
		if n < uint64(len(rs)) {
			r = rs[n].Load()
		}
		if r == nil {
			if n < high/regionIDs {
				continue // all ids of the region are finished
			}
			r = m.region(high)
		}
		if m.resumeRegion(r, n*regionIDs, high) {
			(*m.regions.Load())[n].Store(nil)
		}
	}
}

// resumeRegion counts the finished ids in the region that starts at first. It reports whether all
// of the region's ids are finished.
func (m *iDs) resumeRegion(r *idRegion, first, high uint64) bool {
	pages := uint32(0)
	for k := range r.pages {
		at := first + uint64(k)*PageIDs
		if at > high {
			break
		}
		given := min(PageIDs, high-at+1)
		p := r.pages[k].Load()
		live := uint64(0)
		if p != nil {
			for i := range p.shards {
				w := p.shards[i].Load()
				if w&0xffff != 0 {
					live++
				}
				if w>>16 != 0 {
					live++
				}
			}
		}
		if live == 0 && given == PageIDs {
			r.pages[k].Store(nil)
			pages++
			continue
		}
		if p == nil {
			p = new(idPage)
			r.pages[k].Store(p)
		}
		p.finished.Store(uint32(given - live))
	}
	r.finished.Store(pages)
	return pages == regionPages
}

// livePage returns the page of an id; nil: all ids of the page are finished, or none was allocated.
func (m *iDs) livePage(id uint64) *idPage {
	rs := *m.regions.Load()
	if id/regionIDs >= uint64(len(rs)) {
		return nil
	}
	r := rs[id/regionIDs].Load()
	if r == nil {
		return nil
	}
	return r.pages[id/PageIDs%regionPages].Load()
}

// page returns the page of an allocated id that is not finished, and makes it if necessary. The
// page cannot be dropped before the id is finished.
func (m *iDs) page(id uint64) *idPage {
	if p := m.livePage(id); p != nil {
		return p
	}
	at := &m.region(id).pages[id/PageIDs%regionPages]
	at.CompareAndSwap(nil, new(idPage))
	return at.Load()
}

// region returns the region of an id, as page does.
func (m *iDs) region(id uint64) *idRegion {
	n := id / regionIDs
	if rs := *m.regions.Load(); n < uint64(len(rs)) {
		if r := rs[n].Load(); r != nil {
			return r
		}
	}
	m.grow.Lock()
	defer m.grow.Unlock()
	rs := *m.regions.Load()
	if n >= uint64(len(rs)) {
		// The list is copied once per million ids. Other goroutines may still read an old copy,
		// but none writes to it: regions are dropped under grow.
		bigger := make([]atomic.Pointer[idRegion], n+1)
		for i := range rs {
			bigger[i].Store(rs[i].Load())
		}
		m.regions.Store(&bigger)
		rs = bigger
	}
	r := rs[n].Load()
	if r == nil {
		r = new(idRegion)
		rs[n].Store(r)
	}
	return r
}

// A Finisher finishes ids for one owner. It counts the finished ids of a page itself until ids of
// another page follow, so that cores that delete jobs of the same page seldom write its shared
// counter. The page is dropped only after that. Not safe for concurrent use.
type Finisher struct {
	ids     *iDs
	pending [2]pendingCount // by page modulo 2: deletes may alternate between two pages
	adds    uint64
}

type pendingCount struct {
	page uint64
	n    uint32
}

// Finish is IDs.Finish. When it returns, the id is no longer found.
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

// report adds a count to its page.
func (f *Finisher) report(p *pendingCount) {
	if p.n > 0 {
		f.adds++
		f.ids.count(p.page, p.n)
		p.n = 0
	}
}

// Adds returns the number of page updates, each a write to memory that all owners share.
func (f *Finisher) Adds() uint64 { return f.adds }
