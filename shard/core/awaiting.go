package core

// A waitList is who waits for one job; see gearing.waits.
type waitList struct {
	first *awaiting
	n     uint32 // submissions
}

// An awaiting is one client that waits for one job. It is in the job's list and
// in the client's.
type awaiting struct {
	client     *client
	job        uint32
	n          uint32 // submissions
	prev, next *awaiting
	// later and earlier link the client's list, newest first.
	later, earlier *awaiting
}

// waitsKept lists are kept for jobs to come when nobody waits for any.
const waitsKept = 1024

// await adds a submission of cl to those that wait for job i.
func (c *Core) await(cl *client, i uint32, x *gearJob) {
	g := c.gear
	if a := g.waitOf(cl, i, x); a != nil {
		a.n++
		g.waits[x.waits].n++
		return
	}
	if x.waits == 0 {
		if n := len(g.free); n > 0 {
			x.waits = g.free[n-1]
			g.free = g.free[:n-1]
		} else {
			x.waits = uint32(len(g.waits))
			g.waits = append(g.waits, waitList{})
		}
	}
	list := &g.waits[x.waits]
	a := &awaiting{client: cl, job: i, n: 1, next: list.first, earlier: cl.awaits}
	if a.next != nil {
		a.next.prev = a
	}
	list.first = a
	list.n++
	if a.earlier != nil {
		a.earlier.later = a
	}
	cl.awaits = a
}

// waitOf is cl among those that wait for job i, or nil. It walks both lists at
// once: many clients may wait for one job, and one client for many.
func (g *gearing) waitOf(cl *client, i uint32, x *gearJob) *awaiting {
	for a, b := g.waits[x.waits].first, cl.awaits; a != nil && b != nil; a, b = a.next, b.earlier {
		switch {
		case a.client == cl:
			return a
		case b.job == i:
			return b
		}
	}
	return nil
}

// unawait takes a out of both lists.
func (c *Core) unawait(x *gearJob, a *awaiting) {
	g := c.gear
	list := &g.waits[x.waits]
	list.n -= a.n
	if a.prev != nil {
		a.prev.next = a.next
	} else {
		list.first = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	}
	if a.later != nil {
		a.later.earlier = a.earlier
	} else {
		a.client.awaits = a.earlier
	}
	if a.earlier != nil {
		a.earlier.later = a.later
	}
	if list.first == nil {
		g.free = append(g.free, x.waits)
		x.waits = 0
		if n := len(g.free); n > waitsKept && n == len(g.waits)-1 {
			g.waits, g.free = make([]waitList, 1), nil // after a rush
		}
	}
}

// detach leaves nobody waiting for x.
func (c *Core) detach(x *gearJob) {
	for x.waits != 0 {
		c.unawait(x, c.gear.waits[x.waits].first)
	}
}

// tell sends a report to all who wait for a job, and returns how many clients that
// are. body is copied, once for all.
func (c *Core) tell(j *job, x *gearJob, k RelayKind, body []byte, large Large) (told uint32) {
	a := c.gear.waits[x.waits].first
	if a == nil {
		return 0
	}
	if len(body) > 0 {
		body = append([]byte(nil), body...)
	}
	for ; a != nil; a = a.next {
		a.client.mail.Add(&Relay{Job: j.id, Kind: k, Copies: a.n, Body: body, Large: large})
		c.gear.post(a.client.mail)
		told++
	}
	return told
}

// leaveJobs ends the waits of cl, most of them at a time. It reports whether none
// is left. A job that nobody waits for any more, and nobody wants in the
// background, is not run; one that runs already goes on.
func (c *Core) leaveJobs(cl *client, most int) bool {
	for ; most > 0 && cl.awaits != nil; most-- {
		i := cl.awaits.job
		j := c.jobs.At(i)
		x := c.gearOf(j)
		c.unawait(x, cl.awaits)
		if j.state != Reserved && c.unwanted(j) {
			t := c.tubes[j.tube]
			c.leave(t, i, j)
			c.dropJob(t, i, j)
		}
	}
	return cl.awaits == nil
}
