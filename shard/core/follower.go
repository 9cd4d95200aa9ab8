package core

import (
	"fmt"
	"sync/atomic"
)

// A followerList has the followers of one job; see submissions.followers. A follower has
// submitted the job once or more, in the foreground. Mail tells it what the job's worker
// reports and how the job ends.
type followerList struct {
	first *follower
	n     uint32 // submissions
}

// A follower is one client that follows one job. It is in the job's list and in the client's.
type follower struct {
	client *client
	job    uint32
	n      uint32 // submissions

	prev, next     *follower // in the job's list
	later, earlier *follower // in the client's, newest first
}

// followerListsKept is how many unused lists are kept when no job has followers.
const followerListsKept = 1024

// follow adds a submission of cl to job i.
func (c *Core) follow(cl *client, i uint32, x *submission) {
	g := c.submissions
	if a := g.followerOf(cl, i, x); a != nil {
		a.n++
		g.followers[x.Followers].n++
		return
	}
	if x.Followers == 0 {
		if n := len(g.freeFollowers); n > 0 {
			x.Followers = g.freeFollowers[n-1]
			g.freeFollowers = g.freeFollowers[:n-1]
		} else {
			x.Followers = uint32(len(g.followers))
			g.followers = append(g.followers, followerList{})
		}
	}
	list := &g.followers[x.Followers]
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

// followerOf finds cl among the followers of job i, or returns nil. It walks the lists of the
// job and of the client in step, since either may be long.
func (g *submissions) followerOf(cl *client, i uint32, x *submission) *follower {
	for a, b := g.followers[x.Followers].first, cl.follows; a != nil && b != nil; a, b = a.next, b.earlier {
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
	list := &g.followers[x.Followers]
	if list.n < a.n {
		panic(fmt.Sprintf("core: client %d leaves job %d with %d submissions of %d", a.client.id, a.job, a.n, list.n))
	}
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
		g.freeFollowers = append(g.freeFollowers, x.Followers)
		x.Followers = 0
		if n := len(g.freeFollowers); n > followerListsKept && n == len(g.followers)-1 {
			g.followers, g.freeFollowers = make([]followerList, 1), nil // after a rush
		}
	}
}

// unfollowAll leaves x without followers.
func (c *Core) unfollowAll(x *submission) {
	for x.Followers != 0 {
		c.unfollow(x, c.submissions.followers[x.Followers].first)
	}
}

// relay sends a report to all followers of a job, and returns their number. They share one copy
// of the body.
func (c *Core) relay(j *Job, x *submission, k RelayKind, body []byte, large Large) (told uint32) {
	a := c.submissions.followers[x.Followers].first
	if a == nil {
		return 0
	}
	if len(body) > 0 {
		body = append([]byte(nil), body...)
	}
	for ; a != nil; a = a.next {
		a.client.mail.Add(&Relay{Job: j.ID, Kind: k, Copies: a.n, Body: body, Large: large})
		c.submissions.post(a.client.mail)
		told++
	}
	return told
}

// unfollowSome ends up to limit follows of cl, and reports whether none is left. A job that
// becomes unwanted ends, unless a worker runs it already.
func (c *Core) unfollowSome(cl *client, limit int) bool {
	for ; limit > 0 && cl.follows != nil; limit-- {
		i := cl.follows.job
		j := c.jobs.At(i)
		x := c.submissionOf(j)
		c.unfollow(x, cl.follows)
		if j.State != Reserved && c.unwanted(j) && !c.isFlushed(j) {
			t := c.tubes[j.Tube]
			c.leave(t, i, j)
			c.dropJob(t, i, j)
		}
	}
	return cl.follows == nil
}

// Mail carries notifications from shards to one session that uses functions: reports of
// workers about its jobs, and that a job came while it slept. Any shard adds to it while owned;
// the session empties it when Msg comes to its Home.
type Mail struct {
	Msg    Message // the session sets Home and Owner
	head   atomic.Pointer[Relay]
	posted atomic.Bool // Msg is in flight
	state  atomic.Uint32
}

// The values of Mail.state. The session goes to sleep and wakes up; a shard tells it of a job.
// Once the session has heard that, shards tell it of no other job until it wakes up by asking
// for one, even if it announces sleep again: its protocol requires that.
const (
	mailAwake uint32 = iota
	mailAsleep
	mailTold
	mailHeard
)

// RelayKind is the kind of a Relay.
type RelayKind uint8

// The kinds of relays. With the last three the job is over.
const (
	RelayData RelayKind = iota + 1
	RelayWarning
	RelayStatus // its body is the status as the worker sent it
	RelayDone
	RelayFailed // it has no body
	RelayException
)

// Ends reports whether the job is over.
func (k RelayKind) Ends() bool { return k >= RelayDone }

// A Relay is one report about a job for one session that waits for it. Its bytes never change,
// since several sessions may share them.
type Relay struct {
	Job    JobID
	Kind   RelayKind
	Copies uint32 // submissions of the session that wait for the job
	Body   []byte
	Large  Large // instead of Body
	Next   *Relay
}

// Sleep asks to be told once of a job. It reports false if the session sleeps already, or has
// heard of a job since it last woke up.
func (m *Mail) Sleep() bool { return m.state.CompareAndSwap(mailAwake, mailAsleep) }

// Wake ends the session's sleep, and clears whether it was told of a job.
func (m *Mail) Wake() {
	if m.state.Load() != mailAwake {
		m.state.Store(mailAwake)
	}
}

// Told reports, once, that a job came while the session slept.
func (m *Mail) Told() bool {
	return m.state.Load() == mailTold && m.state.CompareAndSwap(mailTold, mailHeard)
}

// tell tells a sleeping session of a job. It reports false if the session does not sleep, or
// was told already.
func (m *Mail) tell() bool {
	return m.state.Load() == mailAsleep && m.state.CompareAndSwap(mailAsleep, mailTold)
}

// Take removes and returns the relays, oldest first: in the order in which each shard added
// them. The session calls it when Msg has come back; from then on Msg may be posted again.
func (m *Mail) Take() *Relay {
	m.posted.Store(false)
	var first *Relay
	for r := m.head.Swap(nil); r != nil; {
		next := r.Next
		r.Next = first
		first, r = r, next
	}
	return first
}

// UnderWay reports whether Msg is in flight: posted, and Take was not called yet.
func (m *Mail) UnderWay() bool { return m.posted.Load() }

// Add adds r; the session takes it when Msg is next delivered. The relays of a shard stay in
// order, since the shard is owned meanwhile.
func (m *Mail) Add(r *Relay) {
	for {
		head := m.head.Load()
		r.Next = head
		if m.head.CompareAndSwap(head, r) {
			return
		}
	}
}

// post queues m for delivery after the shard is released, unless its Msg is in flight.
func (g *submissions) post(m *Mail) {
	if !m.posted.Swap(true) {
		g.mail = append(g.mail, m)
	}
}

// takeMail appends the queued Mail to dst.
func (g *submissions) takeMail(dst []*Mail) []*Mail {
	dst = append(dst, g.mail...)
	clear(g.mail)
	g.mail = g.mail[:0]
	return dst
}

// HasMail reports whether there is anything for TakeMail.
func (c *Core) HasMail() bool { return c.submissions != nil && len(c.submissions.mail) > 0 }

// TakeMail appends the Mail with new content to dst, unless its Msg was in flight already. The
// caller must post it.
func (c *Core) TakeMail(dst []*Mail) []*Mail {
	if c.submissions == nil {
		return dst
	}
	return c.submissions.takeMail(dst)
}
