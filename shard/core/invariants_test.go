package core

import (
	"errors"
	"fmt"
	"math/bits"
	"polystalk/shard/slab"
)

// Check walks the whole core and returns every broken invariant, or nil. It changes nothing.
// Its cost is linear in jobs, watches and handles, so it is for tests and diagnosis, not for
// every command.
func (c *Core) Check() error {
	k := checker{c: c, at: make(map[uint32]string, c.jobs.Len())}
	c.ids.Check(c.jobs, k.at, k.fail) // all other places are compared with what it finds
	k.tubes()
	k.moves()
	k.flushed()
	k.clients()
	k.waits()
	k.timers()
	k.bodies()
	k.handles()
	k.counters()
	k.submissions()
	return errors.Join(k.errs...)
}

// checkErrorsMax is how many broken invariants one Check tells: one bad link
// may break thousands, and the first ones say what happened.
const checkErrorsMax = 20

// A checker is one walk: what it found so far.
type checker struct {
	c    *Core
	errs []error

	// at names the place in which each job of the id table was found; empty
	// until then.
	at   map[uint32]string
	sums coreCounts // added up from the jobs themselves
}

// fail notes a broken invariant.
func (k *checker) fail(format string, args ...any) {
	if len(k.errs) < checkErrorsMax {
		k.errs = append(k.errs, fmt.Errorf(format, args...))
	}
}

// known reports whether record i is a job's.
func (k *checker) known(i uint32) bool {
	_, known := k.at[i]
	return known
}

// failAt is fail for what is at a place.
func (k *checker) failAt(where string) func(string, ...any) {
	return func(format string, args ...any) { k.fail("%s: %s", where, fmt.Sprintf(format, args...)) }
}

// heap checks h and calls visit for each entry.
func (k *checker) heap(where string, h *Heap, visit func(entry)) {
	h.Check(k.c.jobs, k.known, visit, k.failAt(where))
}

// list checks l and calls visit for each job.
func (k *checker) list(where string, l *List, visit func(uint32)) {
	l.Check(k.c.jobs, k.known, visit, k.failAt(where))
}

// place notes that job i was found in a container of its state; nil when it
// cannot be looked at.
func (k *checker) place(i uint32, s State, where string) *Job {
	seen, known := k.at[i]
	if !known {
		k.fail("%s: record %d is no job of the id table", where, i)
		return nil
	}
	j := k.c.jobs.At(i)
	if seen != "" {
		k.fail("%s: job %d is in %s too", where, j.ID, seen)
	}
	if j.State != s {
		k.fail("%s: job %d is %s", where, j.ID, j.State)
	}
	k.at[i] = where
	return j
}

// handles checks that each handle is either in use or free, once.
func (k *checker) handles() {
	checkHandles(k, "tubes", k.c.tubes, k.c.freeTubes)
	checkHandles(k, "clients", k.c.clients, k.c.freeClients)
}

// checkHandles checks one table of handles.
func checkHandles[T any, ID ~uint32](k *checker, what string, all []*T, free []ID) {
	if len(all) == 0 || all[0] != nil {
		k.fail("%s: handle 0 is in use", what)
	}
	seen := make(map[ID]bool, len(free))
	// In the order in which they were freed.
	for _, id := range free {
		if id == 0 || int(id) >= len(all) || all[id] != nil || seen[id] {
			k.fail("%s: handle %d is free and in use, or free twice", what, id)
		}
		seen[id] = true
	}
	used := 0
	for _, x := range all {
		if x != nil {
			used++
		}
	}
	if used+len(seen)+1 != len(all) {
		k.fail("%s: %d handles, %d in use, %d free", what, len(all)-1, used, len(seen))
	}
}

// counters checks the sums that the core keeps.
func (k *checker) counters() {
	got := k.c.counts
	k.sums.Total, k.sums.Timeouts = got.Total, got.Timeouts // only ever grow: nothing to add up
	if got != k.sums {
		k.fail("counters: %+v, added up %+v", got, k.sums)
	}
	deletes := uint64(0)
	for _, t := range k.c.tubes {
		if t != nil {
			deletes += t.deletes
		}
	}
	// Those of tubes that are forgotten went with them.
	if jobs := uint64(k.c.jobCount()); got.Total+uint64(k.c.sums.arrived) < jobs+deletes {
		k.fail("counters: %d jobs put, %d arrived, %d deleted, %d now", got.Total, k.c.sums.arrived, deletes, jobs)
	}
}

// clients checks the table of clients, and each of them; and that by now all jobs were
// found in a container.
func (k *checker) clients() {
	c := k.c
	watching := make(map[*tube]uint32)
	watches := 0
	for id, cl := range c.clients {
		if cl == nil {
			continue
		}
		if cl.id != ClientID(id) || cl.timer.client != cl || cl.timer.tube != nil {
			k.fail("client %d: the handle or the timer is not its own", id)
		}
		watches += len(cl.watches.list)
		k.watchList(cl, watching)
		k.held(cl)
		if cl.waiting {
			k.sums.waiting++
		}
	}
	for _, t := range c.tubes {
		if t != nil && t.watching != watching[t] {
			k.fail("tube %q: %d watch it, counted %d", t.name, watching[t], t.watching)
		}
	}
	if watches != c.watches.Len() {
		k.fail("%d watches, %d on lists", c.watches.Len(), watches)
	}
	// In no fixed order: a check only reports.
	for i, where := range k.at {
		if where == "" {
			j := c.jobs.At(i)
			k.fail("job %d: %s, but in no container", j.ID, j.State)
		}
	}
}

// held checks a client's reserved jobs: the same ones in the list, in the
// heap, and under its name.
func (k *checker) held(cl *client) {
	where := fmt.Sprintf("client %d held", cl.id)
	k.list(where, &cl.held, func(i uint32) {
		j := k.place(i, Reserved, where)
		if j == nil {
			return
		}
		if j.Client != cl.id || int(j.Pos) >= cl.due.N || cl.due.At(int(j.Pos)).Job != i {
			k.fail("%s: job %d belongs to client %d, or its deadline is another's", where, j.ID, j.Client)
		}
	})
	due := fmt.Sprintf("client %d due", cl.id)
	k.heap(due, &cl.due, func(e entry) {
		j := k.c.jobs.At(e.Job)
		if k.at[e.Job] != where || e.B != 0 {
			k.fail("%s: job %d is in %q, under key %d", due, j.ID, k.at[e.Job], e.B)
		}
	})
	if int(cl.held.N) != cl.due.N {
		k.fail("%s: %d jobs, %d deadlines", where, cl.held.N, cl.due.N)
	}
}

// watchList checks a client's watch list, and records the client's watches in watching.
func (k *checker) watchList(cl *client, watching map[*tube]uint32) {
	c, l := k.c, &cl.watches
	if n, long := l.byTube.Len(), len(l.list) > watchScan; long && n != len(l.list) || !long && n != 0 {
		k.fail("client %d: %d watches, %d in the index", cl.id, len(l.list), n)
		return
	}
	seen := make(map[*tube]bool, len(l.list))
	for at, i := range l.list {
		w := c.watches.At(i)
		t := c.tubes[w.tube]
		if t == nil {
			k.fail("client %d: watches tube %d, which is gone", cl.id, w.tube)
			continue
		}
		if w.client != cl.id || seen[t] || c.watchAt(cl, t) != at {
			k.fail("client %d: watch %d of tube %q is wrong", cl.id, at, t.name)
		}
		seen[t] = true
		watching[t]++
	}
}

// flushed checks the jobs that are over, and not yet collected.
func (k *checker) flushed() {
	c, q := k.c, k.c.collection
	if q == nil {
		return
	}
	jobs, counted := 0, make(map[*tube]int)
	for i := range q.lists {
		l := &q.lists[i]
		counted[l.tube]++
		where := fmt.Sprintf("tube %q flushed, list %d", l.tube.name, i)
		if l.jobs.N == 0 || c.tubes[l.tube.id] != l.tube || l.tube.flushed == nil {
			k.fail("%s: it is empty, or its tube is gone or knows nothing of it", where)
			continue
		}
		state := c.jobs.At(l.jobs.Head).State
		k.list(where, &l.jobs, func(i uint32) {
			j := k.place(i, state, where)
			if j != nil && (j.Tube != l.tube.id || state == Reserved || !c.isFlushed(j)) {
				k.fail("%s: job %d is not flushed, or of another tube", where, j.ID)
			}
			jobs++
		})
	}
	if jobs != q.jobs || q.begun-q.ended != uint64(len(q.lists)) || (q.timer.pos > 0) != (jobs > 0) {
		k.fail("flushed: %d jobs, counted %d; %d lists of %d to %d; the next part is at %d", jobs, q.jobs, len(q.lists), q.ended, q.begun, q.timer.at)
	}
	for _, t := range c.tubes {
		if t != nil && (t.flushed != nil) != (counted[t] > 0) || t != nil && t.flushed != nil && t.flushed.lists != counted[t] {
			k.fail("tube %q: %d lists are flushed, and it knows of others", t.name, counted[t])
		}
	}
}

// followers checks the followers of a submitted job.
func (k *checker) followers(i uint32, j *Job, sums *submissionSums) {
	g := k.c.submissions
	x := k.c.submissionOf(j)
	if x.Followers != 0 {
		sums.followed++
	}
	var prev *follower
	n := uint32(0)
	for a := g.followers[x.Followers].first; a != nil; prev, a = a, a.next {
		if a.job != i || a.prev != prev || a.n == 0 || sums.listed[a] || !a.client.usesFunctions() {
			k.fail("job %d: its followers are not in order", j.ID)
			break
		}
		sums.listed[a] = true
		n += a.n
	}
	if n != g.followers[x.Followers].n {
		k.fail("job %d: %d submissions follow, counted %d", j.ID, n, g.followers[x.Followers].n)
	}
}

// follows checks the clients' lists of what they follow, in which each follower of a job's
// list is once.
func (k *checker) follows(listed map[*follower]bool) {
	for _, cl := range k.c.clients {
		if cl == nil {
			continue
		}
		var later *follower
		for a := cl.follows; a != nil; later, a = a, a.earlier {
			if a.client != cl || a.later != later || !listed[a] {
				k.fail("client %d: what it follows is not in order", cl.id)
				break
			}
			delete(listed, a)
		}
	}
	if len(listed) > 0 {
		k.fail("submissions: %d followers are no client's", len(listed))
	}
}

// classes checks how many jobs of each class wait in t.
func (k *checker) classes(t *tube) {
	var n [NumClasses]uint64
	for i := range t.ready.N {
		n[ClassOf(t.ready.At(i).B)]++
	}
	for i := range t.delay.N {
		n[ClassOf(k.c.jobs.At(t.delay.At(i).Job).Pri)]++
	}
	if w := t.waiting(); n != w {
		k.fail("tube %q: %v jobs wait, counted %v", t.name, n, w)
	}
}

// workers checks that the workers of each function are clients that watch it.
func (k *checker) workers() {
	for _, t := range k.c.tubes {
		if t == nil || t.function == nil {
			continue
		}
		for _, i := range t.function.workers {
			cl := k.c.clientOf(i)
			if at := k.c.watchAt(cl, t); !cl.usesFunctions() || at < 0 || cl.watches.list[at] != i {
				k.fail("function %q: a worker of client %d that is none", t.name, cl.id)
			}
		}
	}
}

// Check walks h and tells fail what is wrong: its order, positions and blocks. known says
// whether a record is a job's; visit is called for each entry, and only for those.
func (h *Heap) Check(jobs *slab.Pool[Job], known func(uint32) bool, visit func(entry), fail func(format string, args ...any)) {
	room, blocks := len(h.first), 1
	if h.more != nil {
		blocks += len(*h.more)
		room += len(*h.more) << heapShift
	}
	if h.N < 0 || h.N > room || blocks > (h.N+heapChunk-1)>>heapShift+1 || blocks > 1 && len(h.first) != heapChunk {
		fail("%d entries in %d blocks with room for %d, of which %d are in the first", h.N, blocks, room, len(h.first))
		return
	}
	for i := range h.N {
		e := *h.At(i)
		if !known(e.Job) {
			fail("entry %d names record %d, which is no job", i, e.Job)
			return
		}
		if p := h.At((i - 1) / 4); i > 0 && e.less(jobs, p) {
			fail("entry %d is before its parent", i)
		}
		if j := jobs.At(e.Job); j.Pos != uint32(i) {
			fail("job %d at %d thinks that it is at %d", j.ID, i, j.Pos)
		}
		visit(e)
	}
	for i := h.N; i < room; i++ {
		if *h.At(i) != (entry{}) {
			fail("entry %d beyond %d is not empty", i, h.N)
			return
		}
	}
}

// Check walks t and tells fail what is wrong, and adds each record that it finds to at. It
// follows no broken index.
func (t *idTable) Check(jobs *slab.Pool[Job], at map[uint32]string, fail func(format string, args ...any)) {
	if want := uint64(1)<<bits.Len(uint(t.Size-1)) - 1; t.Mask != want {
		fail("ids: mask %#x with %d buckets, want %#x", t.Mask, t.Size, want)
	}
	if t.N > t.Size || t.Size > idTableMin && t.N < t.Size/2 || t.Size < idTableMin {
		fail("ids: %d buckets for %d jobs", t.Size, t.N)
	}
	if need := (t.Size + idChunk - 1) >> idShift; len(t.chunks) < need || len(t.chunks) > need+1 {
		fail("ids: %d blocks for %d buckets", len(t.chunks), t.Size)
	}
	room := 0
	for _, chunk := range t.chunks {
		room += len(chunk)
	}
	if t.Size > room {
		fail("ids: %d buckets, room for %d", t.Size, room)
		return
	}
	byID := make(map[JobID]bool, t.N)
	for b := range uint64(room) {
		head := *t.head(b)
		if b >= uint64(t.Size) && head != 0 {
			fail("ids: bucket %d is beyond %d and not empty", b, t.Size)
			continue
		}
		for i := head; i != 0; {
			if _, twice := at[i]; twice {
				fail("ids: record %d is in two buckets or in a ring", i)
				break
			}
			at[i] = ""
			j := jobs.At(i)
			switch {
			case t.bucket(j.ID) != b:
				fail("ids: job %d is in bucket %d, not in %d", j.ID, b, t.bucket(j.ID))
			case j.ID == 0 || byID[j.ID]:
				fail("ids: job %d is there twice, or has no id", j.ID)
			}
			byID[j.ID] = true
			i = j.Hash
		}
	}
	if len(at) != t.N || t.N != jobs.Len() {
		fail("ids: %d jobs found, %d counted, %d records in use", len(at), t.N, jobs.Len())
	}
}

// bodies checks that each body is stored once and nothing else is.
func (k *checker) bodies() {
	c := k.c
	small := 0
	large := make(map[uint32]bool)
	// In no fixed order: a check only reports.
	for i := range k.at {
		j := c.jobs.At(i)
		switch {
		case j.Flags&flagLarge != 0 && (int(j.Body) >= len(c.large.Bodies) || large[j.Body]):
			k.fail("job %d: its large body %d is another's or is not there", j.ID, j.Body)
		case j.Flags&flagLarge != 0:
			large[j.Body] = true
			if n := c.large.At(j.Body).Len(); n != int(j.Size) {
				k.fail("job %d: %d bytes stored of %d", j.ID, n, j.Size)
			}
		case j.Size > 0:
			small++
		}
	}
	if small != c.bodies.Len() {
		k.fail("bodies: %d stored for %d jobs", c.bodies.Len(), small)
	}
	c.large.Check(large, k.failAt("bodies"))
}

// Check reports wrong places to fail. used has the places of the bodies of jobs.
func (b *largeBodies) Check(used map[uint32]bool, fail func(format string, args ...any)) {
	free := make(map[uint32]bool, len(b.Free))
	for _, i := range b.Free {
		if int(i) >= len(b.Bodies) || free[i] || used[i] || b.Bodies[i] != nil {
			fail("large slot %d is free and in use, or free twice", i)
		}
		free[i] = true
	}
	if len(free)+len(used) != len(b.Bodies) {
		fail("%d large slots, %d free, %d in use", len(b.Bodies), len(free), len(used))
	}
}

// Check walks l and tells fail what is wrong with its links. known says whether a record is
// a job's; visit is called for each of them.
func (l *List) Check(jobs *slab.Pool[Job], known func(uint32) bool, visit func(uint32), fail func(format string, args ...any)) {
	n, prev := uint32(0), uint32(0)
	for i := l.Head; i != 0; {
		if !known(i) || n == l.N {
			fail("record %d is no job, or the list is longer than %d", i, l.N)
			return
		}
		j := jobs.At(i)
		if j.Prev != prev {
			fail("job %d has %d before it, not %d", j.ID, j.Prev, prev)
		}
		visit(i)
		n++
		prev, i = i, j.Next
	}
	if n != l.N || l.Tail != prev {
		fail("%d jobs, tail %d; counted %d, %d", n, prev, l.N, l.Tail)
	}
}

// moves checks the jobs that were taken; all others were found in a container by now.
func (k *checker) moves() {
	for id, m := range k.c.moving { // in no fixed order: a check only reports
		i, j, _ := k.c.find(id)
		if i == 0 {
			k.fail("moving: there is no job %d", id)
			continue
		}
		where := fmt.Sprintf("moving, %s before", m.was)
		if k.place(i, Reserved, where); !isTaken(j) || m.was == Reserved || m.was == Nowhere {
			k.fail("%s: job %d is %s, of client %d", where, id, j.State, j.Client)
		}
	}
}

// submissions checks submitted jobs: every record belongs to one job, the index finds the jobs
// that can be joined, and the lists of followers agree.
func (k *checker) submissions() {
	c, g := k.c, k.c.submissions
	sums := submissionSums{listed: make(map[*follower]bool)}
	for i := range k.at { // in no fixed order: a check only reports
		j := c.jobs.At(i)
		switch {
		case !j.isSubmitted():
		case g == nil:
			k.fail("job %d: submitted, to a core that knows nothing of it", j.ID)
		default:
			k.submission(i, j, &sums)
			k.followers(i, j, &sums)
		}
	}
	if g == nil {
		return
	}
	if sums.jobs != g.jobs.Len() || sums.texts != g.texts.Len() {
		k.fail("submissions: %d jobs with %d texts, %d and %d stored", sums.jobs, sums.texts, g.jobs.Len(), g.texts.Len())
	}
	if sums.progresses != len(g.progresses) {
		k.fail("submissions: %d jobs have a progress, %d are kept", sums.progresses, len(g.progresses))
	}
	if sums.indexed != g.unique.N {
		k.fail("submissions: %d jobs to be joined, %d in the index", sums.indexed, g.unique.N)
	}
	if sums.followed+len(g.freeFollowers)+1 != len(g.followers) {
		k.fail("submissions: %d jobs have followers, %d of %d lists are free", sums.followed, len(g.freeFollowers), len(g.followers)-1)
	}
	k.follows(sums.listed)
	k.workers()
}

// submission checks what a submitted job has besides a job.
func (k *checker) submission(i uint32, j *Job, sums *submissionSums) {
	c, g := k.c, k.c.submissions
	sums.jobs++
	x := c.submissionOf(j)
	if x.Job != i {
		k.fail("job %d: what was submitted belongs to record %d", j.ID, x.Job)
	}
	if j.State != Reserved && c.unwanted(j) && !c.isFlushed(j) {
		k.fail("job %d: %s, and nobody wants it", j.ID, j.State)
	}
	for _, n := range []uint8{x.UniqueLen, x.ReducerLen} {
		if n > 0 {
			sums.texts++
		}
	}
	if x.is(indexed) {
		sums.indexed++
		if g.unique.find(g.jobs, x.Hash, func(n uint32) bool { return n == j.submission() }) == 0 {
			k.fail("job %d: its unique id is not in the index", j.ID)
		}
	}
	if _, ok := g.progresses[j.submission()]; ok != x.is(hasProgress) {
		k.fail("job %d: its progress is there: %v, said to be: %v", j.ID, ok, x.is(hasProgress))
	} else if ok {
		sums.progresses++
	}
}

// timers checks the heap of timers, and that each tube and client is woken no
// later than something happens to it.
func (k *checker) timers() {
	h := k.c.timers.heap
	for i, e := range h {
		if e.t.pos != i+1 || e.t.at != e.at {
			k.fail("timers: entry %d at %d thinks it is entry %d at %d", i, e.at, e.t.pos-1, e.t.at)
		}
		if p := (i - 1) / 2; i > 0 && e.before(h[p]) {
			k.fail("timers: entry %d is before its parent", i)
		}
		if t := e.t.tube; t != nil && (int(t.id) >= len(k.c.tubes) || k.c.tubes[t.id] != t) {
			k.fail("timers: tube %q is gone", t.name)
		}
		if cl := e.t.client; cl != nil && (int(cl.id) >= len(k.c.clients) || k.c.clients[cl.id] != cl) {
			k.fail("timers: client %d is gone", cl.id)
		}
	}
	on := func(t *timer, due Time) bool {
		return due == Never || t.pos > 0 && t.pos <= len(h) && h[t.pos-1].t == t && t.at <= due
	}
	for _, t := range k.c.tubes {
		if t != nil && !on(&t.timer, t.due()) {
			k.fail("tube %q: due at %d, timer at %d (%d)", t.name, t.due(), t.timer.at, t.timer.pos)
		}
	}
	for _, cl := range k.c.clients {
		if cl != nil && !on(&cl.timer, k.c.dueAt(&cl.timer)) {
			k.fail("client %d: due at %d, timer at %d (%d)", cl.id, k.c.dueAt(&cl.timer), cl.timer.at, cl.timer.pos)
		}
	}
}

// tubes checks the table of tubes, and each of them.
func (k *checker) tubes() {
	c := k.c
	jobs := make(map[TubeID]int)
	bytes := make(map[TubeID]uint64)
	reserved := make(map[TubeID]uint32)
	// In no fixed order: a check only reports.
	for i := range k.at {
		j := c.jobs.At(i)
		if int(j.Tube) < len(c.tubes) && c.tubes[j.Tube] != nil && !c.isFlushed(j) {
			jobs[j.Tube]++
		}
		bytes[j.Tube] += uint64(j.Size)
		if j.State == Reserved {
			reserved[j.Tube]++
		}
		if int(j.Tube) >= len(c.tubes) || c.tubes[j.Tube] == nil {
			k.fail("job %d is in tube %d, which is gone", j.ID, j.Tube)
		}
	}
	named, ready := 0, 0
	for id, t := range c.tubes {
		if t == nil {
			continue
		}
		named++
		if t.id != TubeID(id) || c.names[t.name] != t || t.timer.tube != t || t.timer.client != nil {
			k.fail("tube %d %q: the handle, the name or the timer is not its own", id, t.name)
		}
		if t.bytes != bytes[t.id] {
			k.fail("tube %q: bodies of %d bytes, counted %d", t.name, bytes[t.id], t.bytes)
		}
		if t.jobs != jobs[t.id] || t.reserved != reserved[t.id] {
			k.fail("tube %q: %d jobs, %d reserved; counted %d, %d",
				t.name, jobs[t.id], reserved[t.id], t.jobs, t.reserved)
		}
		if t.jobs != t.ready.N+t.delay.N+int(t.buried.N)+int(t.reserved) || uint64(t.jobs)+t.deletes != t.total+uint64(t.arrived) {
			k.fail("tube %q: the sum of its states is not its %d jobs, or those and its %d deletes not its total of %d and %d",
				t.name, t.jobs, t.deletes, t.total, t.arrived)
		}
		if !t.inUse() && (t.function == nil || t.function.forgetAt == 0 && !t.function.created && t.pauseUntil == 0 && t.function.limits == [NumClasses]uint32{}) {
			k.fail("tube %q: nothing needs it", t.name)
		}
		if (t.pauseUntil == 0) != (t.pauseFor == 0) {
			k.fail("tube %q: paused until %d for %d", t.name, t.pauseUntil, t.pauseFor)
		}
		k.tubeJobs(t)
		k.classes(t)
		if k.readyTube(t) {
			ready++
		}
	}
	if named != len(c.names) {
		k.fail("%d tubes, %d names", named, len(c.names))
	}
	if ready != len(c.ready) {
		k.fail("%d tubes to reserve from, %d listed", ready, len(c.ready))
	}
}

// tubeJobs checks the containers of t, and its counters of what is in them.
func (k *checker) tubeJobs(t *tube) {
	urgent := uint32(0)
	where := fmt.Sprintf("tube %q ready", t.name)
	k.heap(where, &t.ready, func(e entry) {
		j := k.place(e.Job, Ready, where)
		if j == nil {
			return
		}
		if e.B != j.Pri || e.A != uint64(j.ID) && (j.Client == 0 || e.A < uint64(j.ID)) || j.Tube != t.id {
			k.fail("%s: job %d is under a wrong key or in a wrong tube", where, j.ID)
		}
		if j.Pri < urgentBelow {
			urgent++
		}
	})
	if urgent != t.urgent {
		k.fail("tube %q: %d urgent, counted %d", t.name, urgent, t.urgent)
	}
	delayed := fmt.Sprintf("tube %q delayed", t.name)
	k.heap(delayed, &t.delay, func(e entry) {
		j := k.place(e.Job, Delayed, delayed)
		if j != nil && (e.B != 0 || j.Tube != t.id || j.Client != 0) {
			k.fail("%s: job %d is under a wrong key or in a wrong tube", delayed, j.ID)
		}
	})
	k.arrivals(where, &t.readyList, t.ready.N)
	k.arrivals(delayed, &t.delayList, t.delay.N)
	buried := fmt.Sprintf("tube %q buried", t.name)
	last := Time(0)
	k.list(buried, &t.buried, func(i uint32) {
		j := k.place(i, Buried, buried)
		if j != nil && (j.Tube != t.id || j.Since <= last || j.Client != 0) {
			k.fail("%s: job %d is in a wrong tube or out of order", buried, j.ID)
		}
		if j != nil {
			last = j.Since
		}
	})
	k.sums.Ready += uint64(t.ready.N)
	k.sums.Urgent += uint64(t.urgent)
	k.sums.Delayed += uint64(t.delay.N)
	k.sums.Buried += uint64(t.buried.N)
	k.sums.Reserved += uint64(t.reserved)
}

// arrivals checks the list of what was found at a place already, in a heap of n jobs: the
// same jobs, in the order in which they came.
func (k *checker) arrivals(where string, l *List, n int) {
	last := Time(-1 << 63)
	k.list(where, l, func(i uint32) {
		j := k.c.jobs.At(i)
		if k.at[i] != where || j.Since < last {
			k.fail("%s: job %d is listed, and in %q since %d, behind one since %d", where, j.ID, k.at[i], j.Since, last)
		}
		last = j.Since
	})
	if int(l.N) != n {
		k.fail("%s: %d jobs, %d listed", where, n, l.N)
	}
}

// readyTube checks the tube's place in the ready list and its published key.
// It reports whether something can be reserved from t.
func (k *checker) readyTube(t *tube) bool {
	can := t.ready.N > 0 && t.pauseUntil == 0
	listed := t.readyPos > 0 && int(t.readyPos) <= len(k.c.ready) && k.c.ready[t.readyPos-1] == t
	if can != listed || !can && t.readyPos != 0 {
		k.fail("tube %q: to reserve from: %v; listed: %v, at %d", t.name, can, listed, t.readyPos)
	}
	for i := t.waiters.head; can && i != 0; i = k.c.watches.At(i).next {
		if cl := k.c.clientOf(i); cl.waiter.word.Load() != waitWord(cl.seq, waitOpen) {
			continue // over, or not to be served yet
		}
		k.fail("tube %q: it has both a job to give and a client that waits", t.name)
	}
	if t.mirrored {
		want := Key{}
		if can {
			want = t.best()
		}
		if got, ok := t.mirror.Load(); got != want || ok != can {
			k.fail("tube %q: publishes %v, best is %v", t.name, got, want)
		}
	}
	return can
}

// waits checks that a client is in the queue of each tube it watches while it
// waits, once, and otherwise in none.
func (k *checker) waits() {
	c := k.c
	queued := make(map[uint32]bool)
	for _, t := range c.tubes {
		if t == nil {
			continue
		}
		n, prev := uint32(0), uint32(0)
		for i := t.waiters.head; i != 0; prev, i = i, c.watches.At(i).next {
			if w := c.watches.At(i); w.tube != t.id || w.prev != prev || queued[i] || !c.clientOf(i).waiting {
				k.fail("tube %q: waiter %d of client %d does not belong there", t.name, n, w.client)
				break
			}
			queued[i] = true
			n++
		}
		if n != t.waiters.n || t.waiters.tail != prev {
			k.fail("tube %q: %d wait, counted %d, or the tail is wrong", t.name, n, t.waiters.n)
		}
	}
	for _, cl := range c.clients {
		if cl == nil {
			continue
		}
		for _, i := range cl.watches.list {
			if queued[i] != cl.waiting {
				k.fail("client %d: waits: %v; queued in tube %d: %v", cl.id, cl.waiting, c.watches.At(i).tube, queued[i])
			}
			delete(queued, i)
		}
	}
	if len(queued) > 0 {
		k.fail("%d places in wait queues belong to no watch list", len(queued))
	}
}

// submissionSums are what a walk over the submitted jobs has added up.
type submissionSums struct {
	jobs, indexed, followed, texts, progresses int

	// listed are the followers that were found in the list of a job.
	listed map[*follower]bool
}
