package core

import (
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Check walks the whole core and returns every broken invariant, or nil. It changes nothing.
func (c *Core) Check() error {
	k := checker{c: c, at: make(map[uint32]string, c.jobs.Len())}
	c.ids.Check(c.jobs, k.at, k.that) // all other places are compared with what it finds
	k.tubes()
	k.moves()
	k.flushed()
	k.clients()
	for i, where := range k.at {
		k.that(where != "", "job %d: %s, but in no container", c.jobs.At(i).ID, c.jobs.At(i).State)
	}
	k.waits()
	k.timers()
	k.bodies()
	checkHandles(&k, "tubes", c.tubes, c.freeTubes)
	checkHandles(&k, "clients", c.clients, c.freeClients)
	k.counters()
	k.submissions()
	k.quotas()
	return errors.Join(k.errs...)
}

// checkErrorsMax is how many broken invariants one Check tells: one bad link may break
// thousands, and the first ones say what happened.
const checkErrorsMax = 20

// that is a test of an invariant: it reports ok, and notes the rest if that is false.
type that func(ok bool, format string, args ...any) bool

// A checker is one walk: what it found so far.
type checker struct {
	c    *Core
	errs []error
	at   map[uint32]string // where each job of the id table was found; empty until then
	sums coreCounts        // added up from the jobs themselves
}

func (k *checker) that(ok bool, format string, args ...any) bool {
	if !ok && len(k.errs) < checkErrorsMax {
		k.errs = append(k.errs, fmt.Errorf(format, args...))
	}
	return ok
}

// in is that for what is at a place.
func (k *checker) in(where string) that {
	return func(ok bool, format string, args ...any) bool {
		return ok || k.that(false, "%s: %s", where, fmt.Sprintf(format, args...))
	}
}

func (k *checker) known(i uint32) bool { _, known := k.at[i]; return known }

func (k *checker) heap(where string, h *Heap, visit func(entry)) {
	h.Check(k.c.jobs, k.known, visit, k.in(where))
}

func (k *checker) list(where string, l *List, visit func(uint32)) {
	l.Check(k.c.jobs, k.known, visit, k.in(where))
}

// place notes that job i, which is known, was found in a container of its state.
func (k *checker) place(i uint32, s State, where string) *Job {
	j := k.c.jobs.At(i)
	k.that(k.at[i] == "", "%s: job %d is in %s too", where, j.ID, k.at[i])
	k.that(j.State == s, "%s: job %d is %s", where, j.ID, j.State)
	k.at[i] = where
	return j
}

func checkHandles[T any, ID ~uint32](k *checker, what string, all []*T, free []ID) {
	k.that(len(all) > 0 && all[0] == nil, "%s: handle 0 is in use", what)
	seen := make(map[ID]bool, len(free))
	for _, id := range free {
		k.that(id != 0 && int(id) < len(all) && all[id] == nil && !seen[id], "%s: handle %d is free and in use, or free twice", what, id)
		seen[id] = true
	}
	used := 0
	for _, x := range all {
		if x != nil {
			used++
		}
	}
	k.that(used+len(seen)+1 == len(all), "%s: %d handles, %d in use, %d free", what, len(all)-1, used, len(seen))
}

// counters checks the sums that the core keeps.
func (k *checker) counters() {
	got := k.c.counts
	k.sums.Total, k.sums.Timeouts = got.Total, got.Timeouts // only ever grow: nothing to add up
	k.that(got == k.sums, "counters: %+v, added up %+v", got, k.sums)
	deletes := uint64(0)
	for _, t := range k.c.tubes {
		if t != nil {
			deletes += t.deletes
		}
	}
	// The deletes of forgotten tubes went with them.
	jobs := uint64(k.c.jobCount())
	k.that(got.Total+uint64(k.c.sums.arrived) >= jobs+deletes, "counters: %d jobs put, %d arrived, %d deleted, %d now", got.Total, k.c.sums.arrived, deletes, jobs)
}

// tubes checks the table of tubes, and each of them.
func (k *checker) tubes() {
	c := k.c
	jobs, bytes, reserved := make(map[TubeID]int), make(map[TubeID]uint64), make(map[TubeID]uint32)
	for i := range k.at {
		j := c.jobs.At(i)
		if !k.that(int(j.Tube) < len(c.tubes) && c.tubes[j.Tube] != nil, "job %d is in tube %d, which is gone", j.ID, j.Tube) {
			continue
		}
		if !c.isFlushed(j) {
			jobs[j.Tube]++
		}
		bytes[j.Tube] += uint64(j.Size)
		if j.State == Reserved {
			reserved[j.Tube]++
		}
	}
	named, ready := 0, 0
	for id, t := range c.tubes {
		if t == nil {
			continue
		}
		named++
		in, f := k.in(fmt.Sprintf("tube %q", t.name)), t.function
		in(t.id == TubeID(id) && c.names[t.name] == t && t.timer.tube == t && t.timer.client == nil, "its handle, name or timer is not its own")
		in(t.bytes == bytes[t.id] && int(t.jobs) == jobs[t.id] && t.reserved == reserved[t.id], "%d jobs of %d bytes, %d reserved; counted %d, %d, %d",
			jobs[t.id], bytes[t.id], reserved[t.id], t.jobs, t.bytes, t.reserved)
		in(int(t.jobs) == t.ready.N+t.delay.N+int(t.buried.N)+int(t.reserved) && uint64(t.jobs)+t.deletes == t.total+uint64(t.arrived),
			"the sum of its states is not its %d jobs, or they and %d deletes are not its total of %d and %d", t.jobs, t.deletes, t.total, t.arrived)
		in(t.inUse() || f != nil && (f.forgetAt != 0 || f.created || t.pauseUntil != 0 || f.limits != [NumClasses]uint32{}) ||
			t.timer.pos > 0 && t.timer.at <= c.now, "nothing needs it, and no Expire closes it")
		in((t.pauseUntil == 0) == (t.pauseFor == 0), "paused until %d for %d", t.pauseUntil, t.pauseFor)
		k.tubeJobs(t)
		if k.readyTube(t, in) {
			ready++
		}
	}
	k.that(named == len(c.names) && ready == len(c.ready), "%d tubes, %d of them to reserve from; listed are %d and %d", named, ready, len(c.names), len(c.ready))
}

// tubeJobs checks the containers of t, and its counters of what is in them.
func (k *checker) tubeJobs(t *tube) {
	urgent, classes, last := uint32(0), [NumClasses]uint64{}, Time(0)
	ready, delayed, buried := fmt.Sprintf("tube %q ready", t.name), fmt.Sprintf("tube %q delayed", t.name), fmt.Sprintf("tube %q buried", t.name)
	k.heap(ready, &t.ready, func(e entry) {
		j := k.place(e.Job, Ready, ready)
		k.that(e.B == j.Pri && (e.A == uint64(j.ID) || j.Client != 0 && e.A >= uint64(j.ID)) && j.Tube == t.id, "%s: job %d is under a wrong key or in a wrong tube", ready, j.ID)
		if classes[ClassOf(j.Pri)]++; j.Pri < urgentBelow {
			urgent++
		}
	})
	k.heap(delayed, &t.delay, func(e entry) {
		j := k.place(e.Job, Delayed, delayed)
		k.that(e.B == 0 && j.Tube == t.id && j.Client == 0, "%s: job %d is under a wrong key or in a wrong tube", delayed, j.ID)
		classes[ClassOf(j.Pri)]++
	})
	k.arrivals(ready, &t.readyList, t.ready.N)
	k.arrivals(delayed, &t.delayList, t.delay.N)
	k.list(buried, &t.buried, func(i uint32) {
		j := k.place(i, Buried, buried)
		k.that(j.Tube == t.id && j.Since > last && j.Client == 0, "%s: job %d is in a wrong tube or out of order", buried, j.ID)
		last = j.Since
	})
	k.that(urgent == t.urgent && classes == t.waiting(), "tube %q: %d urgent, counted %d; by class %v, counted %v", t.name, urgent, t.urgent, classes, t.waiting())
	k.sums.Ready += uint64(t.ready.N)
	k.sums.Urgent += uint64(t.urgent)
	k.sums.Delayed += uint64(t.delay.N)
	k.sums.Buried += uint64(t.buried.N)
	k.sums.Reserved += uint64(t.reserved)
}

// arrivals checks the list of the jobs that a heap of n jobs has, in the order of arrival.
func (k *checker) arrivals(where string, l *List, n int) {
	last := Time(-1 << 63)
	k.list(where, l, func(i uint32) {
		j := k.c.jobs.At(i)
		k.that(k.at[i] == where && j.Since >= last, "%s: job %d is listed, and in %q since %d, behind one since %d", where, j.ID, k.at[i], j.Since, last)
		last = j.Since
	})
	k.that(int(l.N) == n, "%s: %d jobs, %d listed", where, n, l.N)
}

// readyTube checks the tube's place in the ready list and its published key. It reports
// whether something can be reserved from t.
func (k *checker) readyTube(t *tube, in that) bool {
	can, want := t.ready.N > 0 && t.held() == NotHeld, Key{}
	listed := t.readyPos > 0 && int(t.readyPos) <= len(k.c.ready) && k.c.ready[t.readyPos-1] == t
	in(can == listed && (can || t.readyPos == 0), "to reserve from: %v; listed: %v, at %d", can, listed, t.readyPos)
	for i := t.waiters.head; can && i != 0; i = k.c.watches.At(i).next {
		cl := k.c.clientOf(i)
		in(cl.waiter.word.Load() != waitWord(cl.seq, waitOpen), "it has both a job to give and a client that waits")
	}
	if can {
		want = t.best()
	}
	got, ok := t.mirror.Load()
	in(!t.mirrored || got == want && ok == can, "publishes %v, best is %v", got, want)
	return can
}

// moves checks the jobs that were taken.
func (k *checker) moves() {
	for id, m := range k.c.moving {
		i, j, _ := k.c.find(id)
		where := fmt.Sprintf("moving, %s before", m.was)
		if k.that(i != 0, "%s: there is no job %d", where, id) {
			k.place(i, Reserved, where)
			k.that(isTaken(j) && m.was != Reserved && m.was != Nowhere, "%s: job %d is %s, of client %d", where, id, j.State, j.Client)
		}
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
		if !k.that(l.jobs.N > 0 && c.tubes[l.tube.id] == l.tube && l.tube.flushed != nil, "%s: it is empty, or its tube does not know it", where) {
			continue
		}
		state := c.jobs.At(l.jobs.Head).State
		k.list(where, &l.jobs, func(i uint32) {
			j := k.place(i, state, where)
			k.that(j.Tube == l.tube.id && state != Reserved && c.isFlushed(j), "%s: job %d is not flushed, or of another tube", where, j.ID)
			jobs++
		})
	}
	k.that(jobs == q.jobs && q.begun-q.ended == uint64(len(q.lists)) && (q.timer.pos > 0) == (jobs > 0),
		"flushed: %d jobs, counted %d; %d lists of %d to %d; the next part is at %d", jobs, q.jobs, len(q.lists), q.ended, q.begun, q.timer.at)
	for _, t := range c.tubes {
		if t != nil {
			k.that((t.flushed != nil) == (counted[t] > 0) && (t.flushed == nil || t.flushed.lists == counted[t]), "tube %q: %d lists are flushed, and it knows of others", t.name, counted[t])
		}
	}
}

// clients checks the table of clients, and each of them.
func (k *checker) clients() {
	c, watches, watching := k.c, 0, make(map[*tube]uint32)
	for id, cl := range c.clients {
		if cl == nil {
			continue
		}
		k.that(cl.id == ClientID(id) && cl.timer.client == cl && cl.timer.tube == nil, "client %d: its handle or timer is not its own", id)
		watches += len(cl.watches.list)
		k.watchList(cl, watching)
		k.held(cl)
		if cl.waiting {
			k.sums.waiting++
		}
	}
	for _, t := range c.tubes {
		k.that(t == nil || t.watching == watching[t], "tube %+v: %d watch it", t, watching[t])
	}
	k.that(watches == c.watches.Len(), "%d watches, %d on lists", c.watches.Len(), watches)
}

// held checks a client's reserved jobs: the same ones in the list, in the heap, and under its
// handle.
func (k *checker) held(cl *client) {
	where, due := fmt.Sprintf("client %d held", cl.id), fmt.Sprintf("client %d due", cl.id)
	k.list(where, &cl.held, func(i uint32) {
		j := k.place(i, Reserved, where)
		k.that(j.Client == cl.id && int(j.Pos) < cl.due.N && cl.due.At(int(j.Pos)).Job == i, "%s: job %d belongs to client %d, or its deadline is another's", where, j.ID, j.Client)
	})
	k.heap(due, &cl.due, func(e entry) {
		k.that(k.at[e.Job] == where && e.B == 0, "%s: record %d is in %q, under key %d", due, e.Job, k.at[e.Job], e.B)
	})
	k.that(int(cl.held.N) == cl.due.N, "%s: %d jobs, %d deadlines", where, cl.held.N, cl.due.N)
}

// watchList checks a client's watch list, and counts the client in watching.
func (k *checker) watchList(cl *client, watching map[*tube]uint32) {
	c, l := k.c, &cl.watches
	want := 0
	if len(l.list) > watchScan {
		want = len(l.list)
	}
	if !k.that(l.byTube.Len() == want, "client %d: %d watches, %d in the index", cl.id, len(l.list), l.byTube.Len()) {
		return
	}
	seen := make(map[*tube]bool, len(l.list))
	for at, i := range l.list {
		w := c.watches.At(i)
		if t := c.tubes[w.tube]; k.that(t != nil, "client %d: watches tube %d, which is gone", cl.id, w.tube) {
			k.that(w.client == cl.id && !seen[t] && c.watchAt(cl, t) == at, "client %d: watch %d of tube %q is wrong", cl.id, at, t.name)
			seen[t] = true
			watching[t]++
		}
	}
}

// waits checks that a client is in the queue of each tube it watches while it waits, once,
// and otherwise in none.
func (k *checker) waits() {
	c, queued := k.c, make(map[uint32]bool)
	for _, t := range c.tubes {
		if t == nil {
			continue
		}
		n, prev := uint32(0), uint32(0)
		for i := t.waiters.head; i != 0; prev, i = i, c.watches.At(i).next {
			w := c.watches.At(i)
			if !k.that(w.tube == t.id && w.prev == prev && !queued[i] && c.clientOf(i).waiting, "tube %q: waiter %d of client %d does not belong there", t.name, n, w.client) {
				break
			}
			queued[i] = true
			n++
		}
		k.that(n == t.waiters.n && t.waiters.tail == prev, "tube %q: %d wait, counted %d, or the tail is wrong", t.name, n, t.waiters.n)
	}
	for _, cl := range c.clients {
		if cl == nil {
			continue
		}
		for _, i := range cl.watches.list {
			k.that(queued[i] == cl.waiting, "client %d: waits: %v; queued in tube %d: %v", cl.id, cl.waiting, c.watches.At(i).tube, queued[i])
			delete(queued, i)
		}
	}
	k.that(len(queued) == 0, "%d places in wait queues belong to no watch list", len(queued))
}

// timers checks the heap of timers, and that each tube and client is woken in time.
func (k *checker) timers() {
	c, h := k.c, k.c.timers.heap
	for i, e := range h {
		k.that(e.t.pos == i+1 && e.t.at == e.at && (i == 0 || !e.before(h[(i-1)/2])), "timers: entry %d at %d is out of place, or takes itself for entry %d at %d", i, e.at, e.t.pos-1, e.t.at)
		t, cl := e.t.tube, e.t.client
		k.that((t == nil || int(t.id) < len(c.tubes) && c.tubes[t.id] == t) && (cl == nil || int(cl.id) < len(c.clients) && c.clients[cl.id] == cl), "timers: the tube or client of entry %d is gone", i)
	}
	on := func(t *timer, what string, id any) {
		due := c.dueAt(t)
		k.that(due == Never || t.pos > 0 && t.pos <= len(h) && h[t.pos-1].t == t && t.at <= due, "%s %v: due at %d, timer at %d (%d)", what, id, due, t.at, t.pos)
	}
	for _, t := range c.tubes {
		if t != nil {
			on(&t.timer, "tube", t.name)
		}
	}
	for _, cl := range c.clients {
		if cl != nil {
			on(&cl.timer, "client", cl.id)
		}
	}
}

// bodies checks that each body is stored once and nothing else is.
func (k *checker) bodies() {
	c, small, large, free := k.c, 0, make(map[uint32]bool), make(map[uint32]bool)
	for i := range k.at {
		j := c.jobs.At(i)
		if j.Flags&flagLarge == 0 {
			if j.Size > 0 {
				small++
			}
		} else if k.that(int(j.Body) < len(c.large.Bodies) && !large[j.Body], "job %d: its large body %d is another's or is not there", j.ID, j.Body) {
			large[j.Body] = true
			k.that(c.large.At(j.Body).Len() == int(j.Size), "job %d: %d bytes stored of %d", j.ID, c.large.At(j.Body).Len(), j.Size)
		}
	}
	k.that(small == c.bodies.Len(), "bodies: %d stored for %d jobs", c.bodies.Len(), small)
	for _, i := range c.large.Free {
		k.that(int(i) < len(c.large.Bodies) && !free[i] && !large[i] && c.large.Bodies[i] == nil, "bodies: place %d is free and in use, or free twice", i)
		free[i] = true
	}
	k.that(len(free)+len(large) == len(c.large.Bodies), "bodies: %d places, %d free, %d in use", len(c.large.Bodies), len(free), len(large))
}

// submissions checks submitted jobs: every record belongs to one job, the index finds the jobs
// that can be joined, the lists of followers agree, and workers watch their function.
func (k *checker) submissions() {
	c, g := k.c, k.c.submissions
	jobs, joinable, followed, texts, progresses, listed := 0, 0, 0, 0, 0, make(map[*follower]bool)
	for i := range k.at {
		j := c.jobs.At(i)
		if !j.isSubmitted() || !k.that(g != nil, "job %d: submitted, to a core that knows nothing of it", j.ID) {
			continue
		}
		jobs++
		x := c.submissionOf(j)
		in := func(ok bool, format string, args ...any) bool {
			return ok || k.in(fmt.Sprintf("job %d", j.ID))(false, format, args...)
		}
		in(x.Job == i, "what was submitted belongs to record %d", x.Job)
		in(j.State == Reserved || !c.unwanted(j) || c.isFlushed(j), "%s, and nobody wants it", j.State)
		texts += int(min(x.UniqueLen, 1) + min(x.ReducerLen, 1))
		if x.is(indexed) {
			joinable++
			in(g.unique.find(g.jobs, x.Hash, func(n uint32) bool { return n == j.submission() }) != 0, "its unique id is not in the index")
		}
		_, ok := g.progresses[j.submission()]
		if in(ok == x.is(hasProgress), "its progress is there: %v, said to be: %v", ok, x.is(hasProgress)); ok {
			progresses++
		}
		if x.Followers != 0 {
			followed++
		}
		n, prev := uint32(0), (*follower)(nil)
		for a := g.followers[x.Followers].first; a != nil; prev, a = a, a.next {
			if !in(a.job == i && a.prev == prev && a.n > 0 && !listed[a] && a.client.usesFunctions(), "its followers are not in order") {
				break
			}
			listed[a] = true
			n += a.n
		}
		in(n == g.followers[x.Followers].n, "%d submissions follow, counted %d", n, g.followers[x.Followers].n)
	}
	if g == nil {
		return
	}
	k.that(jobs == g.jobs.Len() && texts == g.texts.Len(), "submissions: %d jobs with %d texts, %d and %d stored", jobs, texts, g.jobs.Len(), g.texts.Len())
	k.that(progresses == len(g.progresses) && joinable == g.unique.N, "submissions: %d have a progress, %d can be joined; kept are %d and %d", progresses, joinable, len(g.progresses), g.unique.N)
	k.that(followed+len(g.freeFollowers)+1 == len(g.followers), "submissions: %d jobs have followers, %d of %d lists are free", followed, len(g.freeFollowers), len(g.followers)-1)
	for _, cl := range c.clients {
		if cl == nil {
			continue
		}
		var later *follower
		for a := cl.follows; a != nil; later, a = a, a.earlier {
			if !k.that(a.client == cl && a.later == later && listed[a], "client %d: what it follows is not in order", cl.id) {
				break
			}
			delete(listed, a)
		}
	}
	k.that(len(listed) == 0, "submissions: %d followers are no client's", len(listed))
	for _, t := range c.tubes {
		if t == nil || t.function == nil {
			continue
		}
		for _, i := range t.function.workers {
			cl := c.clientOf(i)
			at := c.watchAt(cl, t)
			k.that(cl.usesFunctions() && at >= 0 && cl.watches.list[at] == i, "function %q: a worker of client %d that is none", t.name, cl.id)
		}
	}
}

// quotas checks that each class counts the jobs of its tubes, and that each tube has the directory's
// class.
func (k *checker) quotas() {
	jobs, bytes := make(map[uint16]int64), make(map[uint16]int64)
	d, _ := k.c.dir.(classifier)
	for _, t := range k.c.tubes {
		if t == nil {
			continue
		}
		if d != nil {
			follows := k.c.replayed == 0 && t.class == 0 // a follower's tubes get classes at its end
			k.that(follows || t.class == d.ClassOf(t.name), "tube %q has the class %d", t.name, t.class)
		}
		jobs[t.class] += int64(t.jobs)
		bytes[t.class] += int64(t.bytes)
	}
	for class := uint16(1); class < 8; class++ {
		j, b := k.c.Used(class)
		k.that(j == jobs[class] && b == bytes[class], "class %d counts %d jobs, %d bytes; its tubes have %d, %d", class, j, b, jobs[class], bytes[class])
	}
}

// testClass is the class of a tube in tests.
func testClass(name string) uint16 { return uint16(xxhash.Sum64String(name) % 3) }
