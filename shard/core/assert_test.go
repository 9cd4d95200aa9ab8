package core

import (
	"fmt"
	"strings"
	"testing"

	"polystalk/shard/record"
)

// TestBrokenInvariantsPanic: what shows that the state is broken ends the process, with the
// values, and does not spread.
func TestBrokenInvariantsPanic(t *testing.T) {
	type parts struct {
		*peer
		tube *tube
		rec  func(JobID) uint32
		job  func(JobID) *Job
	}
	breaks := map[string]func(p parts){
		"enters a second container": func(p parts) { p.core.enterBuried(p.tube, p.rec(1), p.job(1)) },
		"reserved twice":            func(p parts) { p.core.enterReserved(p.tube, p.rec(4), p.job(4), p.core.clients[p.id]) },
		"leaves where it is not":    func(p parts) { p.core.leaveDelayed(p.tube, p.rec(1), p.job(1)) },
		"leaves twice": func(p parts) {
			p.core.leave(p.tube, p.rec(3), p.job(3))
			p.core.leave(p.tube, p.rec(3), p.job(3))
		},
		"freed in a container":     func(p parts) { p.core.freeJob(p.rec(1), p.job(1)) },
		"freed without an id":      func(p parts) { j := p.job(1); p.core.leave(p.tube, p.rec(1), j); j.ID = 99; p.core.freeJob(1, j) },
		"index out of its heap":    func(p parts) { p.job(1).Pos = 7; p.core.leave(p.tube, p.rec(1), p.job(1)) },
		"touched, another's index": func(p parts) { p.job(4).Pos = 9; p.on(OpTouch, 4, StatusOK) },
		"dropped, and not taken":   func(p parts) { p.core.leaveTaken(p.tube, p.job(4)) },
		"list of another":          func(p parts) { p.tube.buried.Remove(p.core.jobs, p.rec(4), p.job(4)) },
		"queue of another":         func(p parts) { p.core.unqueue(&p.tube.waiters, p.core.clients[p.id].watches.list[0]) },
		"timer out of its heap":    func(p parts) { p.core.timers.move(&timer{pos: 99}, 5) },
		"large body freed twice":   func(p parts) { i := p.job(5).Body; p.core.large.Remove(i); p.core.large.Remove(i) },
		"large body in use": func(p parts) {
			p.core.large.Free = append(p.core.large.Free, p.job(5).Body)
			p.core.large.Put(Large{{1}})
		},
		"tube closed": func(p parts) { p.core.tubes[p.tube.id] = nil; p.peer.kick(1) },
		"tube closed with jobs": func(p parts) {
			p.tube.jobs, p.tube.pinned, p.tube.using, p.tube.watching = 0, false, 0, 0
			p.core.closeTube(p.tube)
		},
		"tube let go of twice": func(p parts) {
			p.do(Op{Kind: OpUnuse, Tube: p.tube.id}, StatusOK)
			p.do(Op{Kind: OpUnuse, Tube: p.tube.id}, StatusOK)
		},
		"nobody watches": func(p parts) { p.tube.watching = 0; p.core.ignore(p.core.clients[p.id], 0) },
		"waits by nothing": func(p parts) {
			p.core.clients[p.id].waiter = nil
			p.do(Op{Kind: OpReserve, Client: p.id, Bound: MaxKey, Wait: true, Multi: true}, StatusOK)
		},
		"another waiter": func(p parts) {
			cl := p.core.clients[p.id]
			p.core.wait(cl, p.waiter.Arm(), Never)
			p.core.Apply(p.now, &Op{Kind: OpReserve, Client: p.id, Bound: MaxKey, Waiter: new(Waiter)}, new(Reply))
		},
		"client closed": func(p parts) {
			p.do(Op{Kind: OpClose, Client: p.id}, StatusOK)
			p.do(Op{Kind: OpReserve, Client: p.id}, StatusOK)
		},
		"client closed with jobs": func(p parts) { p.core.closeClient(p.core.clients[p.id], 10) },
		"no such operation":       func(p parts) { p.core.Apply(p.now, &Op{Kind: 200}, new(Reply)) },
		"no such worker":          func(p parts) { new(function).remove(3) },
		"submissions below zero": func(p parts) {
			p.core.ensureSubmissions()
			p.core.submissions.followers = append(p.core.submissions.followers, followerList{n: 1})
			p.core.unfollow(&submission{Followers: 1}, &follower{client: p.core.clients[p.id], n: 2})
		},
		"fewer jobs than none": func(p parts) {
			p.core.RecordTo(new(record.Buffer)) // which knows nothing of the jobs that are there
			p.core.recordDelete(p.tube, p.job(1))
		},
		"not in the index": func(p parts) {
			p.core.ensureSubmissions()
			n, _ := p.core.submissions.jobs.Alloc()
			m, _ := p.core.submissions.jobs.Alloc()
			p.core.submissions.unique.insert(p.core.submissions.jobs, n)
			p.core.submissions.unique.Remove(p.core.submissions.jobs, m)
		},
	}
	for name, breakIt := range breaks {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.join("default")
			p.put(5, 0, 10)
			p.put(0, 0, 10)
			p.put(5, 100, 10)
			p.put(0, 0, 10)
			p.last++
			p.do(Op{Kind: OpPut, Tube: p.tube, ID: p.last, Pri: 9, TTR: 10, Large: Large{make([]byte, 70000)}}, StatusOK)
			p.reserve(2)
			p.reserve(4)
			w.join("other")
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "core: ") && !strings.HasPrefix(got, "store: ") {
					t.Errorf("%s, want a panic that tells of the core", got)
				}
			}()
			breakIt(parts{
				peer: p, tube: w.core.tubes[p.tube],
				rec: func(id JobID) uint32 { i, _, _ := w.core.find(id); return i },
				job: func(id JobID) *Job { _, j, _ := w.core.find(id); return j },
			})
			t.Error("nothing has happened")
		})
	}
}
