package core

import (
	"testing"
)

// TestCheckFindsWhatIsBroken breaks one thing at a time.
func TestCheckFindsWhatIsBroken(t *testing.T) {
	type parts struct {
		*Core
		tube   *tube
		holder *client // holds two jobs
		waiter *client // waits in another tube
		job    func(JobID) *Job
	}
	breaks := map[string]func(p parts){
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
	}
	for name, breakIt := range breaks {
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
		breakIt(parts{
			Core: c, tube: c.tubes[p.tube], holder: c.clients[p.id], waiter: c.clients[q.id],
			job: func(id JobID) *Job { _, j, _ := c.find(id); return j },
		})
		if err := c.Check(); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
}
