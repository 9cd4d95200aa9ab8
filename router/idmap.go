package router

import (
	"sync"
	"sync/atomic"

	"polystalk/shard/core"
)

// Sizes of an idMap: a page covers pageIDs ids with two bytes each, a region
// covers regionPages pages.
const (
	pageIDs     = 256
	regionPages = 4096
	regionIDs   = pageIDs * regionPages
)

// idMap gives out job ids, 1, 2, 3 … over the whole server, and tells in
// which shard a job lives, so that a command that names a job visits one
// shard. Two bytes per live job when ids are dense; a page whose ids are all
// finished is dropped, a region with its last page.
//
// Every id that was given out is finished exactly once: when its job is
// deleted, or when no job came of it. That is what lets a page count down.
type idMap struct {
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
	shards   [pageIDs / 2]atomic.Uint32
}

// idPlace is where a page keeps an id: which word, and how far up in it. Ids follow each
// other by eights on the same cache line of 64 bytes, so that those that a loop takes at
// once are on few; the next eight are on another, so that loops which put at the same time
// are on different ones.
func idPlace(id uint64) (word, shift uint64) {
	const lines, run = pageIDs * 2 / 64, 8
	at := id/run%lines*(pageIDs/lines) + id%pageIDs/(run*lines)*run + id%run
	return at / 2, at % 2 * 16
}

func newIDMap() *idMap {
	m := new(idMap)
	m.regions.Store(new([]atomic.Pointer[idRegion]))
	// There is no job 0: its page must not wait for it.
	m.finish(0)
	return m
}

// next gives out an id and notes its shard.
func (m *idMap) next(sh int) core.JobID {
	id := m.take(1)
	m.note(id, sh)
	return id
}

// take gives out n ids that follow each other, and returns the first.
func (m *idMap) take(n int) core.JobID { return core.JobID(m.last.Add(uint64(n)) - uint64(n) + 1) }

// giveBack takes back the last n of what take gave out, from the id first on. It
// reports false when others have taken ids since.
func (m *idMap) giveBack(first core.JobID, n int) bool {
	before := uint64(first) - 1
	return m.last.CompareAndSwap(before+uint64(n), before)
}

// note notes the shard of an id that was given out. The job must not be visible to
// anyone before.
func (m *idMap) note(jid core.JobID, sh int) {
	id := uint64(jid)
	word, shift := idPlace(id)
	m.page(id).shards[word].Or(uint32(sh+1) << shift)
}

// find returns the shard of a live job.
func (m *idMap) find(jid core.JobID) (sh int, ok bool) {
	id := uint64(jid)
	rs := *m.regions.Load()
	if id/regionIDs >= uint64(len(rs)) {
		return 0, false
	}
	r := rs[id/regionIDs].Load()
	if r == nil {
		return 0, false
	}
	p := r.pages[id/pageIDs%regionPages].Load()
	if p == nil {
		return 0, false
	}
	word, shift := idPlace(id)
	sh = int(p.shards[word].Load() >> shift & 0xffff)
	return sh - 1, sh != 0
}

// finish forgets an id for ever: its job is deleted, or never came to be.
func (m *idMap) finish(jid core.JobID) {
	m.clear(jid)
	m.count(uint64(jid)/pageIDs, 1)
}

// clear is the part of finish that others see at once; count is to follow.
func (m *idMap) clear(jid core.JobID) {
	word, shift := idPlace(uint64(jid))
	m.page(uint64(jid)).shards[word].And(^(uint32(0xffff) << shift))
}

// count counts n ids of a page that were cleared.
func (m *idMap) count(page uint64, n uint32) {
	if m.page(page*pageIDs).finished.Add(n) < pageIDs {
		return
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

// A finisher finishes ids for one owner at a time, and counts those of a page for
// itself until it meets another page: cores that delete jobs of the same page need not
// write its count in turns. The page is kept as long.
type finisher struct {
	ids     *idMap
	pending [2]pendingCount // by page, one of which may just end when the next begins
	adds    uint64          // how often it wrote a page's count
}

type pendingCount struct {
	page uint64
	n    uint32
}

func (f *finisher) finish(jid core.JobID) {
	f.ids.clear(jid)
	page := uint64(jid) / pageIDs
	p := &f.pending[page%uint64(len(f.pending))]
	if p.page != page {
		f.settle(p)
		p.page = page
	}
	if p.n++; p.n == pageIDs {
		f.settle(p)
	}
}

// settle tells the page of what was counted.
func (f *finisher) settle(p *pendingCount) {
	if p.n > 0 {
		f.adds++
		f.ids.count(p.page, p.n)
		p.n = 0
	}
}

// resume goes on behind the highest id that was ever given out; all ids up to
// it are finished but for those that were noted.
func (m *idMap) resume(high uint64) {
	m.last.Store(high)
	for n := uint64(0); n <= high/regionIDs; n++ {
		rs := *m.regions.Load()
		var r *idRegion
		if n < uint64(len(rs)) {
			r = rs[n].Load()
		}
		if r == nil {
			if n < high/regionIDs {
				continue // all of it is finished
			}
			r = m.region(high)
		}
		if m.resumeRegion(r, n*regionIDs, high) {
			(*m.regions.Load())[n].Store(nil)
		}
	}
}

// resumeRegion counts what is finished in the region that starts at first. It
// reports whether that is all of it.
func (m *idMap) resumeRegion(r *idRegion, first, high uint64) bool {
	pages := uint32(0)
	for k := range r.pages {
		at := first + uint64(k)*pageIDs
		if at > high {
			break
		}
		given := min(pageIDs, high-at+1)
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
		if live == 0 && given == pageIDs {
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

// page returns the page of an id that was given out and is not finished, so
// neither the page nor its region can go meanwhile.
func (m *idMap) page(id uint64) *idPage {
	at := &m.region(id).pages[id/pageIDs%regionPages]
	p := at.Load()
	if p == nil {
		at.CompareAndSwap(nil, new(idPage))
		p = at.Load()
	}
	return p
}

func (m *idMap) region(id uint64) *idRegion {
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
		// The list is copied once per million ids; old copies may still be
		// read, never written, which is why regions are dropped under grow.
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
