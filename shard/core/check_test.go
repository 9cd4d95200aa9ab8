package core

import (
	"fmt"
	"strings"
	"testing"

	"polystalk/shard/record"
)

// parts are the parts of a core that a test breaks. Jobs 1 and 2 are ready, 3 is delayed, 4 and 5
// are reserved, and 5 has a large body.
type parts struct {
	*Core
	peer   *peer
	tube   *tube
	holder *client // the peer's; holds two jobs
	waiter *client // waits in another tube
	rec    func(JobID) uint32
	job    func(JobID) *Job
}

func newParts(t *testing.T) parts {
	w := newWorld(t)
	p := w.join("work")
	m := w.do(Op{Kind: OpMirror, Tube: p.tube}, StatusOK).Mirror
	p.put(5, 0, 10)
	p.put(6, 0, 10)
	p.put(5, 9, 10)
	p.put(0, 0, 10)
	w.do(Op{Kind: OpPut, Tube: p.tube, ID: 5, TTR: 9, Large: Large{make([]byte, 60_000), make([]byte, 10_000)}}, StatusOK)
	p.last = 5
	p.reserve(4)
	p.reserve(5)
	q := w.join("idle")
	q.wait(Never)
	if _, ok := m.Load(); !ok {
		t.Fatal("nothing is published")
	}
	c := w.core
	return parts{
		Core: c, peer: p, tube: c.tubes[p.tube], holder: c.clients[p.id], waiter: c.clients[q.id],
		rec: func(id JobID) uint32 { i, _, _ := c.find(id); return i },
		job: func(id JobID) *Job { _, j, _ := c.find(id); return j },
	}
}

// TestCheckFindsWhatIsBroken breaks one thing at a time.
func TestCheckFindsWhatIsBroken(t *testing.T) {
	for name, breakIt := range map[string]func(p parts){
		"two states":             func(p parts) { p.job(1).State = Buried },
		"lost from its heap":     func(p parts) { p.tube.ready.N-- },
		"heap position":          func(p parts) { p.job(2).Pos = 0 },
		"heap order":             func(p parts) { p.tube.ready.At(0).B = 99 },
		"list link":              func(p parts) { p.job(4).Prev = 77 },
		"list tail":              func(p parts) { p.holder.held.Tail = p.holder.held.Head },
		"list count":             func(p parts) { p.holder.held.N++ },
		"holder":                 func(p parts) { p.job(4).Client = p.waiter.id },
		"arrivals' order":        func(p parts) { p.job(1).Since = Never },
		"arrivals' count":        func(p parts) { p.tube.delayList.N = 0 },
		"arrival in another's":   func(p parts) { p.tube.readyList, p.tube.delayList = p.tube.delayList, p.tube.readyList },
		"deadline of another":    func(p parts) { p.job(4).Pos, p.job(5).Pos = p.job(5).Pos, p.job(4).Pos },
		"tube's bytes":           func(p parts) { p.tube.bytes++ },
		"tube of a job":          func(p parts) { p.job(1).Tube = p.tubes[1].id },
		"tube that is gone":      func(p parts) { p.job(1).Tube = 99 },
		"tube's jobs":            func(p parts) { p.tube.jobs++ },
		"tube's reserved":        func(p parts) { p.tube.reserved-- },
		"tube's urgent":          func(p parts) { p.tube.urgent++ },
		"tube's total":           func(p parts) { p.tube.total++ },
		"tube's watchers":        func(p parts) { p.tube.watching++ },
		"tube without a use":     func(p parts) { p.openTube([]byte("new")) },
		"pause without an end":   func(p parts) { p.tube.pauseFor = 1 },
		"ready list":             func(p parts) { p.ready = nil },
		"mirror":                 func(p parts) { p.tube.mirror.store(Key{1, 1}) },
		"name":                   func(p parts) { delete(p.names, "default") },
		"core's ready":           func(p parts) { p.counts.Ready++ },
		"core's waiting":         func(p parts) { p.counts.waiting++ },
		"core's total":           func(p parts) { p.counts.Total = 0 },
		"waits but not queued":   func(p parts) { w := p.waiter.watches.list[0]; p.unqueue(&p.tubeAt(p.watches.At(w).tube).waiters, w) },
		"queued but not waiting": func(p parts) { p.waiter.waiting = false },
		"waiter and job":         func(p parts) { p.watch(p.waiter, p.tube); p.wait(p.waiter, p.waiter.waiter.Arm(), Never) },
		"watch of another":       func(p parts) { p.watches.At(p.waiter.watches.list[0]).client = p.holder.id },
		"watch lost":             func(p parts) { p.watches.Alloc() },
		"watch index":            func(p parts) { p.holder.watches.byTube.Add(func(int) uint64 { return 0 }) },
		"watched twice": func(p parts) {
			p.holder.watches.list = append(p.holder.watches.list, p.holder.watches.list[0])
		},
		"timer too late":         func(p parts) { p.holder.timer.at++; p.timers.heap[p.holder.timer.pos-1].at++ },
		"timer lost":             func(p parts) { p.timers.stop(&p.tube.timer) },
		"timer order":            func(p parts) { p.timers.heap[0].at = Never },
		"id table's count":       func(p parts) { p.ids.N++ },
		"id table's chain":       func(p parts) { *p.ids.head(p.ids.bucket(1)) = 0 },
		"id table's mask":        func(p parts) { p.ids.Mask = 31 },
		"id table too large":     func(p parts) { p.ids.Size = 512 },
		"id":                     func(p parts) { p.job(1).ID = 1000 },
		"body lost":              func(p parts) { p.bodies.Free(p.job(1).Body, int(p.job(1).Size)) },
		"body size":              func(p parts) { p.job(5).Size++ },
		"large body shared":      func(p parts) { p.job(1).Flags = flagLarge },
		"large slot free twice":  func(p parts) { p.large.Free = append(p.large.Free, p.job(5).Body) },
		"tube handle free twice": func(p parts) { p.freeTubes = append(p.freeTubes, p.tube.id) },
		"client handle lost":     func(p parts) { p.clients = append(p.clients, nil) },
	} {
		p := newParts(t)
		breakIt(p)
		if err := p.Check(); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
}

// TestBrokenInvariantsPanic: what shows that the state is broken ends the process, with the values,
// and does not spread.
func TestBrokenInvariantsPanic(t *testing.T) {
	for name, breakIt := range map[string]func(p parts){
		"enters a second container": func(p parts) { p.enterBuried(p.tube, p.rec(1), p.job(1)) },
		"reserved twice":            func(p parts) { p.enterReserved(p.tube, p.rec(4), p.job(4), p.holder) },
		"leaves where it is not":    func(p parts) { p.leaveDelayed(p.tube, p.rec(1), p.job(1)) },
		"leaves twice": func(p parts) {
			p.leave(p.tube, p.rec(3), p.job(3))
			p.leave(p.tube, p.rec(3), p.job(3))
		},
		"freed in a container":     func(p parts) { p.freeJob(p.rec(1), p.job(1)) },
		"freed without an id":      func(p parts) { j := p.job(1); p.leave(p.tube, p.rec(1), j); j.ID = 99; p.freeJob(1, j) },
		"index out of its heap":    func(p parts) { p.job(1).Pos = 7; p.leave(p.tube, p.rec(1), p.job(1)) },
		"touched, another's index": func(p parts) { p.job(4).Pos = 9; p.peer.on(OpTouch, 4, StatusOK) },
		"dropped, and not taken":   func(p parts) { p.leaveTaken(p.tube, p.job(4)) },
		"list of another":          func(p parts) { p.tube.buried.Remove(p.jobs, p.rec(4), p.job(4)) },
		"queue of another":         func(p parts) { p.unqueue(&p.tube.waiters, p.holder.watches.list[0]) },
		"timer out of its heap":    func(p parts) { p.timers.move(&timer{pos: 99}, 5) },
		"large body freed twice":   func(p parts) { i := p.job(5).Body; p.large.Remove(i); p.large.Remove(i) },
		"large body in use": func(p parts) {
			p.large.Free = append(p.large.Free, p.job(5).Body)
			p.large.Put(Large{{1}})
		},
		"tube closed": func(p parts) { p.tubes[p.tube.id] = nil; p.peer.kick(1) },
		"tube closed with jobs": func(p parts) {
			p.tube.jobs, p.tube.pinned, p.tube.using, p.tube.watching = 0, false, 0, 0
			p.closeTube(p.tube)
		},
		"tube let go of twice": func(p parts) {
			p.peer.do(Op{Kind: OpUnuse, Tube: p.tube.id}, StatusOK)
			p.peer.do(Op{Kind: OpUnuse, Tube: p.tube.id}, StatusOK)
		},
		"nobody watches": func(p parts) { p.tube.watching = 0; p.ignore(p.holder, 0) },
		"waits by nothing": func(p parts) {
			p.holder.waiter = nil
			p.peer.do(Op{Kind: OpReserve, Client: p.holder.id, Bound: MaxKey, Wait: true, Multi: true}, StatusOK)
		},
		"another waiter": func(p parts) {
			cl := p.holder
			p.wait(cl, p.peer.waiter.Arm(), Never)
			p.Apply(p.peer.now, &Op{Kind: OpReserve, Client: p.holder.id, Bound: MaxKey, Waiter: new(Waiter)}, new(Reply))
		},
		"client closed": func(p parts) {
			p.peer.do(Op{Kind: OpClose, Client: p.holder.id}, StatusOK)
			p.peer.do(Op{Kind: OpReserve, Client: p.holder.id}, StatusOK)
		},
		"client closed with jobs": func(p parts) { p.closeClient(p.holder, 10) },
		"no such operation":       func(p parts) { p.Apply(p.peer.now, &Op{Kind: 200}, new(Reply)) },
		"no such worker":          func(p parts) { new(function).remove(3) },
		"submissions below zero": func(p parts) {
			p.ensureSubmissions()
			p.submissions.followers = append(p.submissions.followers, followerList{n: 1})
			p.unfollow(&submission{Followers: 1}, &follower{client: p.holder, n: 2})
		},
		"fewer jobs than none": func(p parts) {
			p.RecordTo(new(record.Buffer)) // which knows nothing of the jobs that are there
			p.recordDelete(p.tube, p.job(1))
		},
		"not in the index": func(p parts) {
			p.ensureSubmissions()
			n, _ := p.submissions.jobs.Alloc()
			m, _ := p.submissions.jobs.Alloc()
			p.submissions.unique.insert(p.submissions.jobs, n)
			p.submissions.unique.Remove(p.submissions.jobs, m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParts(t)
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "core: ") && !strings.HasPrefix(got, "store: ") {
					t.Errorf("%s, want a panic that tells of the core", got)
				}
			}()
			breakIt(p)
			t.Error("nothing has happened")
		})
	}
}
