package shard

import "slices"

// A function is a tube that Gearman sessions have named; see tube.gear.
type function struct {
	workers  []*watch // a ring: who has just registered has its turn last
	turn     int      // who of them is to be woken first
	sleepers Sleepers
	limits   [NumClasses]uint32
	waiting  [NumClasses]uint64 // ready or delayed jobs, whoever put them
}

// openFunction finds or makes the function of that name.
func (c *Core) openFunction(name []byte) *tube {
	t := c.openTube(name)
	c.makeFunction(t)
	return t
}

func (c *Core) makeFunction(t *tube) {
	if t.gear == nil {
		c.gearUp()
		t.gear = new(function)
		t.gear.waiting = c.waitingIn(t)
	}
}

// waitingIn counts the ready and delayed jobs of t by class. For a tube that is
// no function it walks them all.
func (c *Core) waitingIn(t *tube) (n [NumClasses]uint64) {
	for i := range t.ready.n {
		n[classOf(t.ready.at(i).b)]++
	}
	for i := range t.delay.n {
		n[classOf(c.jobs.At(t.delay.at(i).job).pri)]++
	}
	return n
}

func (f *function) add(w *watch) {
	if f.turn == 0 {
		f.workers = append(f.workers, w)
		return
	}
	f.workers = slices.Insert(f.workers, f.turn, w)
	f.turn++
}

func (f *function) remove(w *watch) {
	i := slices.Index(f.workers, w)
	f.workers = slices.Delete(f.workers, i, i+1)
	if f.turn > i {
		f.turn--
	}
	if f.turn == len(f.workers) {
		f.turn = 0
	}
}

// rouse tells the sleeping workers of f that there is a job, or as many of them
// as hear of one, those first that were told longest ago. Source: gearmand's
// --worker-wakeup.
func (c *Core) rouse(f *function) {
	if f.sleepers.n.Load() == 0 {
		return
	}
	n, woken := len(f.workers), 0
	for k := range n {
		at := f.turn + k
		if at >= n {
			at -= n
		}
		m := f.workers[at].client.mail
		if !m.rouse() {
			continue
		}
		c.gear.post(m)
		if woken++; woken == c.gear.opts.Wakeup {
			f.turn = (at + 1) % n
			return
		}
	}
}

// register makes cl a worker of t.
func (c *Core) register(op *Op, r *Reply) {
	cl := c.gearClient(op)
	t := c.openFunction(op.Name)
	w := cl.find(t)
	if w == nil {
		c.watch(cl, t)
		w = cl.find(t)
		t.gear.add(w)
	}
	w.timeout = op.Gear.Timeout
	op.Gear.Sleepers = &t.gear.sleepers
	r.Client, r.Tube, r.TubeName, r.Mirror = cl.id, t.id, t.name, c.mirrorOf(t)
}

// unregister: the jobs of t that cl runs lose their worker.
func (c *Core) unregister(cl *client, t *tube) {
	c.ignore(cl, cl.find(t))
	for i := cl.held.head; i != 0; {
		j := c.jobs.At(i)
		next := j.next
		if j.tube == t.id {
			c.leaveReserved(t, i, j)
			c.giveBack(t, i, j, cl)
		}
		i = next
	}
}

// drop forgets a function that has neither workers nor jobs.
func (c *Core) drop(name []byte) Status {
	t := c.findTube(name)
	switch {
	case t == nil || t.gear == nil:
		return StatusNotFound
	case len(t.gear.workers) > 0 || t.jobs > 0:
		return StatusInUse
	}
	t.gear = nil
	c.closeTube(t)
	return StatusOK
}

// functions lists what has been named by Gearman sessions, or has jobs.
func (c *Core) functions(list []FunctionStatus) []FunctionStatus {
	for _, t := range c.tubes {
		if t == nil || t.gear == nil && t.jobs == 0 {
			continue
		}
		s := FunctionStatus{Name: t.name, Running: t.reserved, Workers: uint64(t.watching)}
		if t.gear != nil {
			s.Waiting = t.gear.waiting
		} else {
			s.Waiting = c.waitingIn(t)
		}
		list = append(list, s)
	}
	return list
}
