package core

import "iter"

// A JobView is one job as an inspector sees it.
type JobView struct {
	ID       JobID
	Tube     string
	State    State
	Pri      uint32
	Client   ClientID // who reserved it, else zero
	Deadline Time     // zero when ready or buried
	Body     []byte   // good until the next operation
}

// A TubeView is one tube as an inspector sees it.
type TubeView struct {
	ID                       TubeID
	Name                     string
	Pinned, Paused, Function bool
	Jobs, Ready              int
	Using, Watching, Waiting int
}

// A ClientView is one client as an inspector sees it.
type ClientView struct {
	ID      ClientID
	Watches []string
	Held    int
	Waiting bool
}

// Jobs walks all jobs, in no order.
func (c *Core) Jobs() iter.Seq[JobView] {
	return func(yield func(JobView) bool) {
		for b := range uint64(c.ids.size) {
			for i := *c.ids.head(b); i != 0; {
				j := c.jobs.At(i)
				v := JobView{j.id, c.tubes[j.tube].name, j.state, j.pri, j.client, j.deadline, c.bodyOf(j)}
				if j.state == Buried {
					v.Deadline = 0
				}
				if !yield(v) {
					return
				}
				i = j.hash
			}
		}
	}
}

// Tubes walks all tubes.
func (c *Core) Tubes() iter.Seq[TubeView] {
	return func(yield func(TubeView) bool) {
		for _, t := range c.tubes {
			if t != nil && !yield(TubeView{
				ID: t.id, Name: t.name, Pinned: t.pinned, Paused: t.pauseUntil != 0, Function: t.gear != nil,
				Jobs: t.jobs, Ready: t.ready.n,
				Using: int(t.using), Watching: int(t.watching), Waiting: t.waiters.n,
			}) {
				return
			}
		}
	}
}

// Clients walks all clients.
func (c *Core) Clients() iter.Seq[ClientView] {
	return func(yield func(ClientView) bool) {
		for _, cl := range c.clients {
			if cl == nil {
				continue
			}
			v := ClientView{ID: cl.id, Held: cl.held.n, Waiting: cl.waiting}
			for _, i := range cl.watches.list {
				v.Watches = append(v.Watches, c.tubes[c.watches.At(i).tube].name)
			}
			if !yield(v) {
				return
			}
		}
	}
}

func (c *Core) bodyOf(j *job) []byte {
	if j.flags&flagLarge != 0 {
		return c.large[j.body].Append(nil)
	}
	return c.bodies.Get(j.body, int(j.size))
}
