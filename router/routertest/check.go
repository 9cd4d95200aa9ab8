package routertest

import (
	"errors"
	"fmt"
	"slices"

	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// An inspected shows a connection's data about shards. Connections of both protocols implement it.
type inspected interface {
	// Handles returns the client's handles.
	Handles() *ops.Handles
	// Used returns the tube that it uses, if any.
	Used() (ops.Tube, bool)
	// Watched returns the tubes that it watches.
	Watched() []ops.Tube
	// Numbered returns the job that it is about to put, and its shard; zero: none.
	Numbered() (core.JobID, int)
	// CheckAtRest returns an error if the state of the idle connection is inconsistent.
	CheckAtRest() error
}

// CheckOutboxes returns an error if a message is in an outbox twice. Call it between any two calls
// to a Driven.
func (d *Driven) CheckOutboxes() error {
	for i, l := range d.Server.Host().Loops() {
		if err := l.CheckOutbox(); err != nil {
			return fmt.Errorf("loop %d: %w", i, err)
		}
	}
	return nil
}

// Check compares the data of sessions, shards, the list of tubes and ids with each other, and reports
// every inconsistency. Call it for a Driven at rest: no shard is owned or due, and every message
// was delivered.
func (d *Driven) Check() error {
	k := &drivenChecker{d: d, owners: make(map[place]*session.Session)}
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
	d      *Driven
	errs   []error
	owners map[place]*session.Session
}

func (k *drivenChecker) fail(format string, args ...any) {
	if len(k.errs) < 20 {
		k.errs = append(k.errs, fmt.Errorf(format, args...))
	}
}

// Inspect returns a session's data about shards.
func Inspect(s *session.Session) inspected { return s.Protocol().(inspected) }

// session checks a session without the shards.
func (k *drivenChecker) session(s *session.Session) {
	c := Inspect(s)
	if err := errors.Join(s.CheckAtRest(), c.CheckAtRest(), c.Handles().Check()); err != nil {
		k.fail("session %p: %w", s, err)
	}
	for i := range c.Handles().Len() {
		h := c.Handles().At(i)
		p := place{h.Shard(), h.Client}
		if k.owners[p] != nil {
			k.fail("session %p: client %d of shard %d is also another's", s, h.Client, h.Shard())
		}
		k.owners[p] = s
		if h.Waiting && !s.Waiting() {
			k.fail("session %p: registered in shard %d but does not wait", s, h.Shard())
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
	h := Inspect(s).Handles().In(shard)
	if int(h.Held) < v.Held {
		k.fail("shard %d: client %d holds %d jobs, its session knows of %d", shard, v.ID, v.Held, h.Held)
	}
	if waits := s.Waiting() && (h.Watching > 0 || v.Held > 0); v.Waiting && !s.Waiting() || waits && !v.Waiting {
		k.fail("shard %d: client %d waits: %v; its session is %v", shard, v.ID, v.Waiting, s.View().Life)
	}
	if v.Waiting && !h.Waiting {
		k.fail("shard %d: client %d waits and its session does not know", shard, v.ID)
	}
	var names []string
	for _, w := range Inspect(s).Watched() {
		if w.Shard == shard {
			names = append(names, w.Name)
		}
	}
	slices.Sort(names)
	slices.Sort(v.Watches)
	if !slices.Equal(names, v.Watches) || len(names) != int(h.Watching) {
		k.fail("shard %d: client %d watches %q, its session %q (%d)", shard, v.ID, v.Watches, names, h.Watching)
	}
}

// tubes compares the cores' tubes with the list of tubes and with the tubes that sessions use and
// watch. It reports waits that should have been served.
func (k *drivenChecker) tubes() {
	using, watching, waiting := map[string]int{}, map[string]int{}, map[string]int{}
	for ds := range k.d.sessions {
		c := Inspect(ds.Session)
		if t, ok := c.Used(); ok {
			using[t.Name]++
		}
		for _, w := range c.Watched() {
			watching[w.Name]++
			if ds.Waiting() {
				waiting[w.Name]++
			}
		}
	}
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
			if t.Ready > 0 && !t.Paused && waiting[t.Name] > 0 {
				k.fail("tube %q: %d jobs ready, %d sessions wait for one", t.Name, t.Ready, waiting[t.Name])
			}
			// A pause that was restored from a journal keeps its tube.
			if !t.Pinned && !t.Function && !t.Paused && t.Jobs+t.Using+t.Watching == 0 {
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
	if err := tubes.Check(); err != nil {
		k.fail("directory: %w", err)
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
	for ds := range k.d.sessions {
		if id, shard := Inspect(ds.Session).Numbered(); id != 0 {
			live[id] = shard
		}
	}
	m := k.d.Server.Host().Map
	found := 0
	for id := range m.IDs().Last() + 1 {
		at, ok := m.OfJob(core.JobID(id))
		if want, lives := live[core.JobID(id)]; ok != lives || ok && at != want {
			k.fail("job %d: in shard %d: %v; its id leads to %d: %v", id, want, lives, at, ok)
		}
		if ok {
			found++
		}
	}
	if found != len(live) {
		k.fail("%d ids lead to jobs, there are %d", found, len(live))
	}
}

// loops compares the loops' sums with the sessions.
func (k *drivenChecker) loops() {
	all := make(map[*session.Loop][]*session.Session)
	for ds := range k.d.sessions {
		all[ds.Loop()] = append(all[ds.Loop()], ds.Session)
	}
	for i, l := range k.d.Server.Host().Loops() {
		if err := l.CheckAtRest(all[l]); err != nil {
			k.fail("loop %d: %w", i, err)
		}
	}
}
