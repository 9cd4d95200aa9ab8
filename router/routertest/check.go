package routertest

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"polystalk/router/session"
	"polystalk/shard/core"
)

// Check compares the data of sessions, shards, the list of tubes and ids with each other, and reports
// every inconsistency. Call it for a Driven at rest: no shard is owned or due, and every message
// was delivered.
func (d *Driven) Check() error {
	d.forget() // an operator may have ended some since the last event
	k := &drivenChecker{d: d, sessions: make(map[*session.Session]*session.Snapshot), owners: make(map[place]*session.Session)}
	for ds := range d.sessions {
		k.session(ds.Session)
	}
	k.shards()
	k.tubes()
	k.jobs()
	k.loops()
	return errors.Join(k.errs...)
}

// A place is a client's handle in a shard.
type place struct {
	shard  int
	client core.ClientID
}

type drivenChecker struct {
	d        *Driven
	errs     []error
	sessions map[*session.Session]*session.Snapshot
	owners   map[place]*session.Session
}

func (k *drivenChecker) fail(format string, args ...any) {
	if len(k.errs) < 20 {
		k.errs = append(k.errs, fmt.Errorf(format, args...))
	}
}

// session checks a session without the shards.
func (k *drivenChecker) session(s *session.Session) {
	v := s.Snapshot(math.MaxInt)
	k.sessions[s] = &v
	if v.Life != session.Ready && v.Life != session.Waiting {
		k.fail("session %p is %s at rest", s, v.Life)
	}
	for _, name := range v.Client.Watched {
		if !s.Teller().Knows([]byte(name)) {
			k.fail("session %p watches %q, and does not find it", s, name)
		}
	}
	for _, h := range v.Client.Places {
		p := place{h.Shard, h.Client}
		if k.owners[p] != nil {
			k.fail("session %p: client %d of shard %d is also another's", s, h.Client, h.Shard)
		}
		k.owners[p] = s
		if h.Waiting && !s.Waiting() {
			k.fail("session %p: registered in shard %d but does not wait", s, h.Shard)
		}
	}
}

// shards compares each core's clients with the sessions' handles.
func (k *drivenChecker) shards() {
	seen := 0
	for _, sh := range k.d.Shards() {
		for v := range sh.Clients() {
			s := k.owners[place{sh.Index, v.ID}]
			if s == nil {
				k.fail("shard %d: client %d is nobody's", sh.Index, v.ID)
				continue
			}
			seen++
			k.client(sh.Index, &v, s)
		}
	}
	if seen != len(k.owners) {
		k.fail("%d clients in shards, %d handles to them", seen, len(k.owners))
	}
}

// client compares a client of a shard with its session.
func (k *drivenChecker) client(shard int, v *core.ClientView, s *session.Session) {
	snapshot := k.sessions[s]
	h := snapshot.Client.Places[slices.IndexFunc(snapshot.Client.Places, func(h session.Place) bool { return h.Shard == shard })]
	if int(h.Held) < v.Held {
		k.fail("shard %d: client %d holds %d jobs, its session knows of %d", shard, v.ID, v.Held, h.Held)
	}
	if waits := s.Waiting() && (h.Watching > 0 || v.Held > 0); v.Waiting && !s.Waiting() || waits && !v.Waiting {
		k.fail("shard %d: client %d waits: %v; its session is %v", shard, v.ID, v.Waiting, snapshot.Life)
	}
	if v.Waiting && !h.Waiting {
		k.fail("shard %d: client %d waits and its session does not know", shard, v.ID)
	}
	var names []string
	for _, name := range snapshot.Client.Watched {
		if k.d.ShardOf(name) == shard {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Sort(v.Watches)
	if !slices.Equal(names, v.Watches) || len(names) != h.Watching {
		k.fail("shard %d: client %d watches %q, its session %q (%d)", shard, v.ID, v.Watches, names, h.Watching)
	}
}

// tubes compares the cores' tubes with the list of tubes and with the tubes that sessions use and
// watch. It reports waits that should have been served.
func (k *drivenChecker) tubes() {
	using, watching, waiting := map[string]int{}, map[string]int{}, map[string]int{}
	for s, v := range k.sessions {
		using[v.Client.Used]++ // empty for Gearman, which uses no tube
		for _, name := range v.Client.Watched {
			watching[name]++
			if s.Waiting() {
				waiting[name]++
			}
		}
	}
	delete(using, "")
	var names []string
	for _, sh := range k.d.Shards() {
		for t := range sh.Tubes() {
			names = append(names, t.Name)
			if home := k.d.ShardOf(t.Name); home != sh.Index {
				k.fail("tube %q is in shard %d, not in %d", t.Name, sh.Index, home)
			}
			if t.Using != using[t.Name] || t.Watching != watching[t.Name] || t.Waiting != waiting[t.Name] {
				k.fail("tube %q: using %d, watching %d, waiting %d; the sessions say %d, %d, %d", t.Name,
					t.Using, t.Watching, t.Waiting, using[t.Name], watching[t.Name], waiting[t.Name])
			}
			if t.Ready > 0 && !t.Held && waiting[t.Name] > 0 {
				k.fail("tube %q: %d jobs ready, %d sessions wait for one", t.Name, t.Ready, waiting[t.Name])
			}
			// A pause that was restored from a journal keeps its tube.
			if !t.Pinned && !t.Function && !t.Held && t.Jobs+t.Using+t.Watching == 0 {
				k.fail("tube %q: it is unused", t.Name)
			}
		}
	}
	tubes := k.d.Server.Host().Map.Tubes()
	all, _ := tubes.Names()
	listed := slices.Sorted(all.All())
	slices.Sort(names)
	if !slices.Equal(names, listed) || tubes.Len() != len(listed) {
		k.fail("tubes %q; the directory has %q (%d)", names, listed, tubes.Len())
	}
}

// jobs checks that ids lead to exactly the existing jobs, and to puts that wait for a body.
func (k *drivenChecker) jobs() {
	live := make(map[core.JobID]int)
	for _, sh := range k.d.Shards() {
		for j := range sh.Jobs() {
			if at, ok := live[j.ID]; ok {
				k.fail("job %d is in shards %d and %d", j.ID, at, sh.Index)
			}
			live[j.ID] = sh.Index
			if j.State == core.Reserved && k.owners[place{sh.Index, j.Client}] == nil {
				k.fail("job %d is reserved by nobody's client %d", j.ID, j.Client)
			}
		}
	}
	puts := make(map[int]int) // sessions that may wait for the body of a put, by shard
	for _, v := range k.sessions {
		if v.Client.Used != "" && v.Roles&session.Producer != 0 {
			puts[k.d.ShardOf(v.Client.Used)]++
		}
	}
	m := k.d.Server.Host().Map
	for id := range m.IDs().Last() + 1 {
		at, ok := m.OfJob(core.JobID(id))
		want, lives := live[core.JobID(id)]
		if ok && !lives && puts[at] > 0 {
			puts[at]--
			continue
		}
		if ok != lives || ok && at != want {
			k.fail("job %d: in shard %d: %v; its id leads to %d: %v", id, want, lives, at, ok)
		}
		delete(live, core.JobID(id))
	}
	if len(live) > 0 {
		k.fail("%d jobs have ids that were never allocated", len(live))
	}
}

// loops compares the loops' lists and sums with the sessions.
func (k *drivenChecker) loops() {
	var got, want struct{ connections, producers, workers, sleepers, waiting int64 }
	count := func(n *int64, is bool) {
		if is {
			*n++
		}
	}
	for _, v := range k.sessions {
		want.connections++
		count(&want.producers, v.Roles&session.Producer != 0)
		count(&want.workers, v.Roles&session.Worker != 0)
		count(&want.sleepers, v.Roles&session.Sleeper != 0)
		count(&want.waiting, v.Life == session.Waiting)
	}
	sums := k.d.Server.Host().Sums()
	got.connections, got.producers, got.workers, got.sleepers, got.waiting = sums.Connections, sums.Producers, sums.Workers, sums.Sleeping, sums.Waiting
	if got != want {
		k.fail("the loops count %+v, their sessions are %+v", got, want)
	}
	listed := 0
	for i, l := range k.d.Server.Host().Loops() {
		if v := l.View(); v.Unfinished != 0 || v.Queued != 0 {
			k.fail("loop %d at rest: %+v", i, v)
		}
		last := uint64(0)
		for s := range l.Sessions(0) {
			if k.sessions[s] == nil || s.Number() <= last || l.Session(s.Number()) != s {
				k.fail("loop %d lists session %d behind %d, known: %v", i, s.Number(), last, k.sessions[s] != nil)
			}
			last = s.Number()
			listed++
		}
	}
	if listed != len(k.sessions) {
		k.fail("%d sessions are listed, there are %d", listed, len(k.sessions))
	}
}
