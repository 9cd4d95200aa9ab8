package core

// gear checks what is known about submitted jobs: every record belongs to one
// job, the index finds those that can be joined, and the lists of who waits agree.
func (k *checker) gear() {
	c := k.c
	g := c.gear
	if g == nil {
		for i := range k.at { // in no fixed order: a check only reports
			if j := c.jobs.At(i); j.isGear() {
				k.fail("job %d: submitted, to a core that knows nothing of it", j.id)
			}
		}
		return
	}
	jobs, indexed, waits, texts, extras := 0, 0, 0, 0, 0
	listed := make(map[*awaiting]bool)
	for i := range k.at { // in no fixed order, as above
		j := c.jobs.At(i)
		if !j.isGear() {
			continue
		}
		jobs++
		x := c.gearOf(j)
		if x.job != i {
			k.fail("job %d: what was submitted belongs to record %d", j.id, x.job)
		}
		if j.state != Reserved && c.unwanted(j) {
			k.fail("job %d: %s, and nobody wants it", j.id, j.state)
		}
		for _, n := range []uint8{x.uniqueLen, x.reducerLen} {
			if n > 0 {
				texts++
			}
		}
		if x.indexed {
			indexed++
			if g.unique.find(g.jobs, x.hash, func(n uint32) bool { return n == j.ttr }) == 0 {
				k.fail("job %d: its unique id is not in the index", j.id)
			}
		}
		if _, ok := g.extras[j.ttr]; ok != x.extra {
			k.fail("job %d: what few jobs have is there %v, said to be %v", j.id, ok, x.extra)
		} else if ok {
			extras++
		}
		if x.waits != 0 {
			waits++
		}
		var prev *awaiting
		n := uint32(0)
		for a := g.waits[x.waits].first; a != nil; prev, a = a, a.next {
			if a.job != i || a.prev != prev || a.n == 0 || listed[a] || a.client.mail == nil {
				k.fail("job %d: who waits for it is not in order", j.id)
				break
			}
			listed[a] = true
			n += a.n
		}
		if n != g.waits[x.waits].n {
			k.fail("job %d: %d submissions wait, counted %d", j.id, n, g.waits[x.waits].n)
		}
	}
	if jobs != g.jobs.Len() || texts != g.texts.Len() {
		k.fail("gear: %d jobs with %d texts, %d and %d stored", jobs, texts, g.jobs.Len(), g.texts.Len())
	}
	if extras != len(g.extras) {
		k.fail("gear: %d jobs have something besides, %d are kept", extras, len(g.extras))
	}
	if indexed != g.unique.n {
		k.fail("gear: %d jobs to be joined, %d in the index", indexed, g.unique.n)
	}
	if waits+len(g.free)+1 != len(g.waits) {
		k.fail("gear: %d jobs are waited for, %d of %d lists are free", waits, len(g.free), len(g.waits)-1)
	}
	for _, cl := range c.clients {
		if cl == nil {
			continue
		}
		var later *awaiting
		for a := cl.awaits; a != nil; later, a = a, a.earlier {
			if a.client != cl || a.later != later || !listed[a] {
				k.fail("client %d: what it waits for is not in order", cl.id)
				break
			}
			delete(listed, a)
		}
	}
	if len(listed) > 0 {
		k.fail("gear: %d waits are no client's", len(listed))
	}
	for _, t := range c.tubes {
		if t == nil || t.gear == nil {
			continue
		}
		for _, i := range t.gear.workers {
			cl := c.clientOf(i)
			if at := c.watchAt(cl, t); cl.mail == nil || at < 0 || cl.watches.list[at] != i {
				k.fail("function %q: a worker of client %d that is none", t.name, cl.id)
			}
		}
	}
}

// classes checks how many jobs of each class wait in t.
func (k *checker) classes(t *tube) {
	var n [NumClasses]uint64
	for i := range t.ready.n {
		n[classOf(t.ready.at(i).b)]++
	}
	for i := range t.delay.n {
		n[classOf(k.c.jobs.At(t.delay.at(i).job).pri)]++
	}
	if w := t.waiting(); n != w {
		k.fail("tube %q: %v jobs wait, counted %v", t.name, n, w)
	}
}
