package core

import (
	"fmt"

	"polystalk/shard/store"
)

// A followerList is who wants to hear of one job; see submissions.followers. Each of its
// followers has submitted the job once or more, in the foreground, and is told by Mail
// what the job's worker says and how it ends.
type followerList struct {
	first *follower
	n     uint32 // submissions
}

// A follower is one client that follows one job. It is in the job's list and in the
// client's.
type follower struct {
	client *client
	job    uint32
	n      uint32 // submissions

	prev, next     *follower // in the job's list
	later, earlier *follower // in the client's, newest first
}

// followerListsKept lists are kept for jobs to come when nobody follows any.
const followerListsKept = 1024

// follow adds a submission of cl to those of job i.
func (c *Core) follow(cl *client, i uint32, x *store.Submission) {
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

// followerOf is cl among the followers of job i, or nil. It walks both lists at once: one
// job may have many followers, and one client follow many.
func (g *submissions) followerOf(cl *client, i uint32, x *store.Submission) *follower {
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
func (c *Core) unfollow(x *store.Submission, a *follower) {
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
func (c *Core) unfollowAll(x *store.Submission) {
	for x.Followers != 0 {
		c.unfollow(x, c.submissions.followers[x.Followers].first)
	}
}

// relay sends a report to all who follow a job, and returns how many clients that are.
// The body is copied, once for all.
func (c *Core) relay(j *store.Job, x *store.Submission, k RelayKind, body []byte, large Large) (told uint32) {
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

// unfollowSome ends the waits of cl, most of them at a time. It reports whether none
// is left. A job that nobody waits for any more, and nobody wants in the
// background, is not run; one that runs already goes on.
func (c *Core) unfollowSome(cl *client, most int) bool {
	for ; most > 0 && cl.follows != nil; most-- {
		i := cl.follows.job
		j := c.jobs.At(i)
		x := c.submissionOf(j)
		c.unfollow(x, cl.follows)
		if j.State != Reserved && c.unwanted(j) {
			t := c.tubes[j.Tube]
			c.leave(t, i, j)
			c.dropJob(t, i, j)
		}
	}
	return cl.follows == nil
}

// followers checks the list of who follows a submitted job.
func (k *checker) followers(i uint32, j *store.Job, sums *submissionSums) {
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
