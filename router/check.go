package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"polystalk/router/placement"
	"polystalk/shard/core"
)

// CheckShards walks every core's invariants. It may be called between any two
// calls to a Driven.
func (d *Driven) CheckShards() error {
	for _, sh := range d.srv.places.Shards() {
		if err := sh.Check(); err != nil {
			return fmt.Errorf("shard %d: %w", sh.Index, err)
		}
	}
	return nil
}

// CheckOutboxes looks for messages that were posted again while they were under
// way. It may be called between any two calls to a Driven.
func (d *Driven) CheckOutboxes() error {
	for i, l := range d.srv.loops {
		// Linked in twice, a message makes the list a ring: who goes at double speed
		// meets the other.
		fast := l.outbox.Load()
		for slow := fast; fast != nil; slow = slow.Next.Load() {
			if fast = fast.Next.Load(); fast == nil {
				break
			}
			if fast = fast.Next.Load(); fast != nil && fast == slow.Next.Load() {
				return fmt.Errorf("loop %d: a message was posted twice", i)
			}
		}
	}
	return nil
}

// Check compares what sessions, shards, the list of tubes and ids know of each other,
// and reports every contradiction. It is for a Driven at rest: no shard is
// owned or due, every message has been delivered.
func (d *Driven) Check() error {
	k := &drivenChecker{d: d, owners: make(map[place]*session)}
	k.sessions()
	k.shards()
	k.tubes()
	k.jobs()
	k.counters()
	return errors.Join(k.errs...)
}

// place is a client's handle in a shard.
type place struct {
	shard  int
	client core.ClientID
}

type drivenChecker struct {
	d      *Driven
	errs   []error
	owners map[place]*session
}

func (k *drivenChecker) fail(format string, args ...any) {
	if len(k.errs) < 20 {
		k.errs = append(k.errs, fmt.Errorf(format, args...))
	}
}

// sessions checks what each session says of itself.
func (k *drivenChecker) sessions() {
	for ds := range k.d.sessions {
		s := ds.s
		switch {
		case s.phase == phaseBusy || s.phase == phaseClosing:
			k.fail("session %p: phase %d, step %d: stuck", s, s.phase, s.step)
		case s.pending || s.deferred || s.queued || s.dying:
			k.fail("session %p: pending %v, deferred %v, queued %v, dying %v at rest", s, s.pending, s.deferred, s.queued, s.dying)
		case s.eof && !s.stalled:
			k.fail("session %p: its client sends no more and it does not end", s)
		}
		if s.gear == nil && s.in != nil && s.phase == phaseIdle && !s.stalled && strings.Contains(string(s.in.B[s.inAt:]), "\r\n") {
			k.fail("session %p: idle with input held: %q", s, s.in.B[s.inAt:])
		}
		if s.phase != phaseBody && (s.pooled != nil || s.pieces != nil) || s.phase != phaseBody && s.putID != 0 {
			k.fail("session %p: phase %d, %d bytes of body, put id %d", s, s.phase, s.got, s.putID)
		}
		if ds.HasMail() {
			k.fail("session %p: its mail is under way at rest", s)
		}
		for i, w := range s.watched {
			if s.watchAt([]byte(w.Name())) != i {
				k.fail("session %p: %q is entry %d, found at %d", s, w.Name(), i, s.watchAt([]byte(w.Name())))
			}
			if !s.spread && s.shardOfWatch(i) != s.shardOfWatch(0) {
				k.fail("session %p: watches several shards, but has no published key of %q", s, w.Name())
			}
		}
		for i := range s.links {
			l := &s.links[i]
			if s.linkTo(l.shard) != l {
				k.fail("session %p: link %d is not the one to shard %d", s, i, l.shard)
			}
			p := place{l.shard, l.client}
			if k.owners[p] != nil {
				k.fail("session %p: client %d of shard %d is also another's", s, l.client, l.shard)
			}
			k.owners[p] = s
			if l.waiting && s.phase != phaseWaiting {
				k.fail("session %p: registered in shard %d but does not wait", s, l.shard)
			}
		}
	}
}

// watchedBy is what a session of either protocol watches.
func watchedBy(s *session) (list []placement.Tube) {
	for _, w := range s.watched {
		list = append(list, s.loop.srv.places.TubeOf(w))
	}
	if s.gear != nil {
		for i := range s.gear.abilities.list {
			list = append(list, s.gear.abilities.list[i].Tube)
		}
	}
	return list
}

// shards compares each core's clients with the sessions' links.
func (k *drivenChecker) shards() {
	seen := 0
	for _, sh := range k.d.srv.places.Shards() {
		for v := range sh.Clients() {
			s := k.owners[place{sh.Index, v.ID}]
			if s == nil {
				k.fail("shard %d: client %d is nobody's", sh.Index, v.ID)
				continue
			}
			seen++
			l := s.linkTo(sh.Index)
			if int(l.held) < v.Held {
				k.fail("shard %d: client %d holds %d jobs, its session knows of %d", sh.Index, v.ID, v.Held, l.held)
			}
			if waits := s.phase == phaseWaiting && (l.watching > 0 || v.Held > 0); v.Waiting && s.phase != phaseWaiting || waits && !v.Waiting {
				k.fail("shard %d: client %d waits: %v; its session: phase %d", sh.Index, v.ID, v.Waiting, s.phase)
			}
			if v.Waiting && !l.waiting {
				k.fail("shard %d: client %d waits and its session does not know", sh.Index, v.ID)
			}
			var names []string
			for _, w := range watchedBy(s) {
				if w.Shard == sh.Index {
					names = append(names, w.Name)
				}
			}
			slices.Sort(names)
			slices.Sort(v.Watches)
			if !slices.Equal(names, v.Watches) || len(names) != l.watching {
				k.fail("shard %d: client %d watches %q, its session %q (%d)", sh.Index, v.ID, v.Watches, names, l.watching)
			}
		}
	}
	if seen != len(k.owners) {
		k.fail("%d clients in shards, %d links to them", seen, len(k.owners))
	}
}

// tubes compares the cores' tubes with the directory and with what sessions
// use and watch, and looks for waits that should have been served.
func (k *drivenChecker) tubes() {
	using, watching, waiting := map[string]int{}, map[string]int{}, map[string]int{}
	for ds := range k.d.sessions {
		if ds.s.gear == nil {
			using[ds.s.used.Name]++
		}
		for _, w := range watchedBy(ds.s) {
			name := w.Name
			watching[name]++
			if ds.s.phase == phaseWaiting {
				waiting[name]++
			}
		}
	}
	var names []string
	for _, sh := range k.d.srv.places.Shards() {
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
			if !t.Pinned && !t.Function && t.Jobs+t.Using+t.Watching == 0 {
				k.fail("tube %q: nobody needs it", t.Name)
			}
		}
	}
	tubes := k.d.srv.places.Tubes()
	if err := tubes.Check(); err != nil {
		k.fail("the list of tubes: %v", err)
	}
	list, _ := tubes.Names()
	listed := slices.Collect(list.All())
	slices.Sort(names)
	slices.Sort(listed)
	if !slices.Equal(names, listed) || tubes.Len() != len(listed) {
		k.fail("tubes %q; listed are %q (%d)", names, listed, tubes.Len())
	}
}

// jobs checks that ids lead to exactly the jobs there are, and those puts
// whose body is awaited.
func (k *drivenChecker) jobs() {
	live := make(map[core.JobID]int)
	for _, sh := range k.d.srv.places.Shards() {
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
		if s := ds.s; s.putID != 0 {
			live[s.putID] = s.used.Shard
		}
	}
	ids := k.d.srv.places.IDs()
	found := 0
	for id := range ids.Last() + 1 {
		at, ok := ids.Find(id)
		if want, lives := live[id]; ok != lives || ok && at != want {
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

// counters compares the loops' sums with the sessions.
func (k *drivenChecker) counters() {
	type sums struct{ connections, producers, workers, waiting int64 }
	want := make(map[*loop]sums)
	for ds := range k.d.sessions {
		s := ds.s
		n := want[s.loop]
		n.connections++
		if s.producer {
			n.producers++
		}
		if s.worker {
			n.workers++
		}
		if s.phase == phaseWaiting {
			n.waiting++
		}
		want[s.loop] = n
	}
	for i, l := range k.d.srv.loops {
		got := sums{l.connections.Load(), l.producers.Load(), l.workers.Load(), l.waiting.Load()}
		if got != want[l] {
			k.fail("loop %d counts %+v, its sessions %+v", i, got, want[l])
		}
		kept := int64(len(l.holders)) // what waits for the disk, or for its time
		if len(l.late) > 0 {
			kept++
		}
		if n := l.unfinished.Load() - kept; n != 0 {
			k.fail("loop %d: %d operations or turns unfinished at rest", i, n)
		}
		if n := len(l.batch.Local) + l.queue.len() + l.answer.len() + len(l.out); n > 0 || l.outbox.Load() != nil {
			k.fail("loop %d: %d entries left at rest", i, n)
		}
	}
}
