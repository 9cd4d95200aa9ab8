package core

import (
	"errors"
	"fmt"
	"math/bits"
)

// Check walks the whole core and reports every broken invariant, nil when
// there is none. It changes nothing; its cost is linear in jobs, watches and
// handles, so it is for tests and for an operator who asks, not for every
// command.
func (c *Core) Check() error {
	k := checker{c: c, at: make(map[uint32]string, c.jobs.Len())}
	k.ids()
	k.tubes()
	k.clients()
	k.waits()
	k.timers()
	k.bodies()
	k.handles()
	k.counters()
	k.gear()
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

func (k *checker) fail(format string, args ...any) {
	if len(k.errs) < checkErrorsMax {
		k.errs = append(k.errs, fmt.Errorf(format, args...))
	}
}

// ids checks the id table and learns from it which jobs there are; all other
// places are compared with it, so no broken index is followed.
func (k *checker) ids() {
	t := &k.c.ids
	if want := uint64(1)<<bits.Len(uint(t.size-1)) - 1; t.mask != want {
		k.fail("ids: mask %#x with %d buckets, want %#x", t.mask, t.size, want)
	}
	if t.n > t.size || t.size > idTableMin && t.n < t.size/2 || t.size < idTableMin {
		k.fail("ids: %d buckets for %d jobs", t.size, t.n)
	}
	if need := (t.size + idChunk - 1) >> idShift; len(t.chunks) < need || len(t.chunks) > need+1 {
		k.fail("ids: %d blocks for %d buckets", len(t.chunks), t.size)
	}
	room := 0
	for _, chunk := range t.chunks {
		room += len(chunk)
	}
	if t.size > room {
		k.fail("ids: %d buckets, room for %d", t.size, room)
		return
	}
	byID := make(map[JobID]bool, t.n)
	for b := range uint64(room) {
		head := *t.head(b)
		if b >= uint64(t.size) && head != 0 {
			k.fail("ids: bucket %d is beyond %d and not empty", b, t.size)
			continue
		}
		for i := head; i != 0; {
			if _, twice := k.at[i]; twice {
				k.fail("ids: record %d is in two buckets or in a ring", i)
				break
			}
			k.at[i] = ""
			j := k.c.jobs.At(i)
			switch {
			case t.bucket(j.id) != b:
				k.fail("ids: job %d is in bucket %d, not in %d", j.id, b, t.bucket(j.id))
			case j.id == 0 || byID[j.id]:
				k.fail("ids: job %d is there twice, or has no id", j.id)
			}
			byID[j.id] = true
			i = j.hash
		}
	}
	if len(k.at) != t.n || t.n != k.c.jobs.Len() {
		k.fail("ids: %d jobs found, %d counted, %d records in use", len(k.at), t.n, k.c.jobs.Len())
	}
}

// place notes that job i was found in a container of its state; nil when it
// cannot be looked at.
func (k *checker) place(i uint32, s State, where string) *job {
	seen, known := k.at[i]
	if !known {
		k.fail("%s: record %d is no job of the id table", where, i)
		return nil
	}
	j := k.c.jobs.At(i)
	if seen != "" {
		k.fail("%s: job %d is in %s too", where, j.id, seen)
	}
	if j.state != s {
		k.fail("%s: job %d is %s", where, j.id, j.state)
	}
	k.at[i] = where
	return j
}

// heap checks order, positions and blocks of h and calls visit for each job.
func (k *checker) heap(where string, h *jobHeap, visit func(heapEntry)) {
	room := 0
	for _, chunk := range h.chunks {
		room += len(chunk)
	}
	if h.n < 0 || h.n > room || len(h.chunks) > (h.n+heapChunk-1)>>heapShift+1 {
		k.fail("%s: %d entries in %d blocks with room for %d", where, h.n, len(h.chunks), room)
		return
	}
	for i := range h.n {
		e := *h.at(i)
		if _, known := k.at[e.job]; !known {
			k.fail("%s: entry %d names record %d, which is no job", where, i, e.job)
			return
		}
		if p := h.at((i - 1) / 4); i > 0 && e.less(k.c.jobs, p) {
			k.fail("%s: entry %d is before its parent", where, i)
		}
		if j := k.c.jobs.At(e.job); j.pos != uint32(i) {
			k.fail("%s: job %d at %d thinks that it is at %d", where, j.id, i, j.pos)
		}
		visit(e)
	}
	for i := h.n; i < room; i++ {
		if *h.at(i) != (heapEntry{}) {
			k.fail("%s: entry %d beyond %d is not empty", where, i, h.n)
			return
		}
	}
}

// list checks the links of l and calls visit for each job.
func (k *checker) list(where string, l *jobList, visit func(uint32)) {
	n, prev := 0, uint32(0)
	for i := l.head; i != 0; {
		if _, known := k.at[i]; !known || n == l.n {
			k.fail("%s: record %d is no job, or the list is longer than %d", where, i, l.n)
			return
		}
		j := k.c.jobs.At(i)
		if j.prev != prev {
			k.fail("%s: job %d has %d before it, not %d", where, j.id, j.prev, prev)
		}
		visit(i)
		n++
		prev, i = i, j.next
	}
	if n != l.n || l.tail != prev {
		k.fail("%s: %d jobs, tail %d; counted %d, %d", where, n, prev, l.n, l.tail)
	}
}

func (k *checker) tubes() {
	c := k.c
	jobs := make(map[TubeID]int)
	reserved := make(map[TubeID]uint64)
	// In no fixed order: a check only reports.
	for i := range k.at {
		j := c.jobs.At(i)
		jobs[j.tube]++
		if j.state == Reserved {
			reserved[j.tube]++
		}
		if int(j.tube) >= len(c.tubes) || c.tubes[j.tube] == nil {
			k.fail("job %d is in tube %d, which is gone", j.id, j.tube)
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
		if t.jobs != jobs[t.id] || t.reserved != reserved[t.id] {
			k.fail("tube %q: %d jobs, %d reserved; counted %d, %d",
				t.name, jobs[t.id], reserved[t.id], t.jobs, t.reserved)
		}
		if t.jobs != t.ready.n+t.delay.n+t.buried.n+int(t.reserved) || uint64(t.jobs)+t.deletes != t.total+t.restored {
			k.fail("tube %q: the sum of its states is not its %d jobs, or those and its %d deletes not its total of %d and %d",
				t.name, t.jobs, t.deletes, t.total, t.restored)
		}
		if !t.inUse() && (t.gear == nil || t.gear.forgetAt == 0 && !t.gear.created && t.pauseUntil == 0 && t.gear.limits == [NumClasses]uint32{}) {
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

func (k *checker) tubeJobs(t *tube) {
	urgent := uint64(0)
	where := fmt.Sprintf("tube %q ready", t.name)
	k.heap(where, &t.ready, func(e heapEntry) {
		j := k.place(e.job, Ready, where)
		if j == nil {
			return
		}
		if e.b != j.pri || e.a != uint64(j.id) && (j.prev == 0 || e.a < uint64(j.id)) || j.tube != t.id || j.deadline != 0 || j.client != 0 {
			k.fail("%s: job %d is under a wrong key or in a wrong tube", where, j.id)
		}
		if j.pri < urgentBelow {
			urgent++
		}
	})
	if urgent != t.urgent {
		k.fail("tube %q: %d urgent, counted %d", t.name, urgent, t.urgent)
	}
	delayed := fmt.Sprintf("tube %q delayed", t.name)
	k.heap(delayed, &t.delay, func(e heapEntry) {
		j := k.place(e.job, Delayed, delayed)
		if j != nil && (e.b != 0 || e.a != uint64(j.deadline) || j.tube != t.id || j.client != 0) {
			k.fail("%s: job %d is under a wrong key or in a wrong tube", delayed, j.id)
		}
	})
	buried := fmt.Sprintf("tube %q buried", t.name)
	last := Time(0)
	k.list(buried, &t.buried, func(i uint32) {
		j := k.place(i, Buried, buried)
		if j != nil && (j.tube != t.id || j.deadline <= last || j.client != 0) {
			k.fail("%s: job %d is in a wrong tube or out of order", buried, j.id)
		}
		if j != nil {
			last = j.deadline
		}
	})
	k.sums.Ready += uint64(t.ready.n)
	k.sums.Urgent += t.urgent
	k.sums.Delayed += uint64(t.delay.n)
	k.sums.Buried += uint64(t.buried.n)
	k.sums.Reserved += t.reserved
}

// readyTube checks the tube's place in the ready list and its published key.
// It reports whether something can be reserved from t.
func (k *checker) readyTube(t *tube) bool {
	can := t.ready.n > 0 && t.pauseUntil == 0
	listed := t.readyPos > 0 && t.readyPos <= len(k.c.ready) && k.c.ready[t.readyPos-1] == t
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
	// In no fixed order, as above.
	for i, where := range k.at {
		if where == "" {
			j := c.jobs.At(i)
			k.fail("job %d: %s, but in no container", j.id, j.state)
		}
	}
}

// held checks a client's reserved jobs: the same ones in the list, in the
// heap, and under its name.
func (k *checker) held(cl *client) {
	where := fmt.Sprintf("client %d held", cl.id)
	k.list(where, &cl.held, func(i uint32) {
		if j := k.place(i, Reserved, where); j != nil && j.client != cl.id {
			k.fail("%s: job %d belongs to client %d", where, j.id, j.client)
		}
	})
	due := fmt.Sprintf("client %d due", cl.id)
	k.heap(due, &cl.due, func(e heapEntry) {
		j := k.c.jobs.At(e.job)
		if k.at[e.job] != where || e.b != 0 || e.a != uint64(j.deadline) {
			k.fail("%s: job %d is in %q, deadline %d under key %d", due, j.id, k.at[e.job], j.deadline, e.a)
		}
	})
	if cl.held.n != cl.due.n {
		k.fail("%s: %d jobs, %d deadlines", where, cl.held.n, cl.due.n)
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

// bodies checks that each body is stored once and nothing else is.
func (k *checker) bodies() {
	c := k.c
	small := 0
	large := make(map[uint32]bool)
	// In no fixed order, as above.
	for i := range k.at {
		j := c.jobs.At(i)
		switch {
		case j.flags&flagLarge != 0 && (int(j.body) >= len(c.large) || large[j.body]):
			k.fail("job %d: its large body %d is another's or is not there", j.id, j.body)
		case j.flags&flagLarge != 0:
			large[j.body] = true
			if c.large[j.body].Len() != int(j.size) {
				k.fail("job %d: %d bytes stored of %d", j.id, c.large[j.body].Len(), j.size)
			}
		case j.size > 0:
			small++
		}
	}
	if small != c.bodies.Len() {
		k.fail("bodies: %d stored for %d jobs", c.bodies.Len(), small)
	}
	free := make(map[uint32]bool, len(c.freeLarge))
	for _, i := range c.freeLarge {
		if int(i) >= len(c.large) || free[i] || large[i] || c.large[i] != nil {
			k.fail("bodies: large slot %d is free and in use, or free twice", i)
		}
		free[i] = true
	}
	if len(free)+len(large) != len(c.large) {
		k.fail("bodies: %d large slots, %d free, %d in use", len(c.large), len(free), len(large))
	}
}

// handles checks that each handle is either in use or free, once.
func (k *checker) handles() {
	checkHandles(k, "tubes", k.c.tubes, k.c.freeTubes)
	checkHandles(k, "clients", k.c.clients, k.c.freeClients)
}

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
	restored := uint64(0)
	for _, t := range k.c.tubes {
		if t != nil {
			restored += t.restored
		}
	}
	if got.Total+restored < uint64(k.c.jobs.Len()) {
		k.fail("counters: %d jobs put, %d restored, %d now", got.Total, restored, k.c.jobs.Len())
	}
}
