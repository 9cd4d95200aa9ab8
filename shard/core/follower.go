package core

// A followerList is who waits for one job; see submissions.waits.
type followerList struct {
	first *follower
	n     uint32 // submissions
}

// An follower is one client that waits for one job. It is in the job's list and
// in the client's.
type follower struct {
	client     *client
	job        uint32
	n          uint32 // submissions
	prev, next *follower
	// later and earlier link the client's list, newest first.
	later, earlier *follower
}

// followerListsKept lists are kept for jobs to come when nobody waits for any.
const followerListsKept = 1024

// await adds a submission of cl to those that wait for job i.
func (c *Core) follow(cl *client, i uint32, x *submission) {
	g := c.submissions
	if a := g.followerOf(cl, i, x); a != nil {
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
			g.waits = append(g.waits, followerList{})
		}
	}
	list := &g.waits[x.waits]
	a := &follower{client: cl, job: i, n: 1, next: list.first, earlier: cl.follows}
	if a.next != nil {
		a.next.prev = a
	}
	list.first = a
	list.n++
	if a.earlier != nil {
		a.earlier.later = a
	}
	cl.follows = a
}

// followerOf is cl among those that wait for job i, or nil. It walks both lists at
// once: many clients may wait for one job, and one client for many.
func (g *submissions) followerOf(cl *client, i uint32, x *submission) *follower {
	for a, b := g.waits[x.waits].first, cl.follows; a != nil && b != nil; a, b = a.next, b.earlier {
		switch {
		case a.client == cl:
			return a
		case b.job == i:
			return b
		}
	}
	return nil
}

// unfollow takes a out of both lists.
func (c *Core) unfollow(x *submission, a *follower) {
	g := c.submissions
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
		a.client.follows = a.earlier
	}
	if a.earlier != nil {
		a.earlier.later = a.later
	}
	if list.first == nil {
		g.free = append(g.free, x.waits)
		x.waits = 0
		if n := len(g.free); n > followerListsKept && n == len(g.waits)-1 {
			g.waits, g.free = make([]followerList, 1), nil // after a rush
		}
	}
}

// unfollowAll leaves nobody waiting for x.
func (c *Core) unfollowAll(x *submission) {
	for x.waits != 0 {
		c.unfollow(x, c.submissions.waits[x.waits].first)
	}
}

// tell sends a report to all who wait for a job, and returns how many clients that
// are. body is copied, once for all.
func (c *Core) relay(j *job, x *submission, k RelayKind, body []byte, large Large) (told uint32) {
	a := c.submissions.waits[x.waits].first
	if a == nil {
		return 0
	}
	if len(body) > 0 {
		body = append([]byte(nil), body...)
	}
	for ; a != nil; a = a.next {
		a.client.mail.Add(&Relay{Job: j.id, Kind: k, Copies: a.n, Body: body, Large: large})
		c.submissions.post(a.client.mail)
		told++
	}
	return told
}

// unfollowSome ends the waits of cl, most of them at a time. It reports whether none
// is left. A job that nobody waits for any more, and nobody wants in the
// background, is not run; one that runs already goes on.
func (c *Core) unfollowSome(cl *client, most int) bool {
	for ; most > 0 && cl.follows != nil; most-- {
		i := cl.follows.job
		j := c.jobs.At(i)
		x := c.submissionOf(j)
		c.unfollow(x, cl.follows)
		if j.state != Reserved && c.unwanted(j) {
			t := c.tubes[j.tube]
			c.leave(t, i, j)
			c.dropJob(t, i, j)
		}
	}
	return cl.follows == nil
}
