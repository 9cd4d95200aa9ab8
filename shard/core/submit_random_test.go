package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A functionHistory plays random sessions of both protocols against one core.
type functionHistory struct {
	*functionWorld
	rng     *rand.Rand
	scribe  *scribe
	peers   []*functionPeer
	waits   []map[JobID]uint32 // by peer: submissions that wait
	putters []*peer
	deleted map[JobID]bool
	put     map[JobID]bool
	taken   []JobID // by an operator
}

var functionNames = []string{"", "f", "g", "default"}

func (h *functionHistory) name() string { return functionNames[h.rng.IntN(len(functionNames))] }

// some is a job's id that may live.
func (h *functionHistory) some() JobID { return JobID(1 + h.rng.Uint64N(uint64(h.last)+1)) }

func (h *functionHistory) apply(op *Op) (r Reply) {
	h.core.Apply(h.now, made(op), &r)
	if err := h.core.Check(); err != nil {
		h.t.Fatalf("after operation %d: %v", op.Kind, err)
	}
	return r
}

func (h *functionHistory) step() {
	if h.rng.IntN(4) == 0 {
		h.now += Time(h.rng.IntN(3)) * Second / 2
	}
	if h.rng.IntN(8) == 0 {
		h.core.Expire(h.now)
		h.check()
	}
	if h.rng.IntN(10) == 0 {
		h.operatorStep()
		h.deliver()
	}
	n := h.rng.IntN(len(h.peers) + len(h.putters))
	if n >= len(h.peers) {
		h.putterStep(h.putters[n-len(h.peers)])
	} else {
		h.peerStep(n)
	}
	h.deliver()
}

// operatorStep does what an operator may to some jobs.
func (h *functionHistory) operatorStep() {
	x := &OperatorOp{Act: Action{
		Verb: Verb(1 + h.rng.IntN(6)), Changes: Changes(h.rng.IntN(8)), Force: h.rng.IntN(2) == 0,
		Pri: h.rng.Uint32N(3000), Delay: h.rng.Uint32N(2), TTR: 1 + h.rng.Uint32N(3),
	}}
	switch h.rng.IntN(6) {
	case 0:
		x.ids = []JobID{h.some(), h.some()}
		h.apply(&Op{Kind: opMany, Operator: x})
	case 1:
		x.Filter.EnteredBy = h.now - Second
		state := []State{Ready, Delayed, Buried}[h.rng.IntN(3)]
		h.apply(&Op{Kind: opFlushStep, Name: []byte(h.name()), N: uint32(state), Operator: x})
	case 2:
		x.Act.Changes |= ChangeBody
		h.apply(&Op{Kind: opEdit, ID: h.some(), Body: fmt.Appendf(nil, "%d", h.rng.IntN(3)), Operator: x})
	case 3:
		h.moveStep([]Verb{VerbRead, VerbTake, VerbTake}[h.rng.IntN(3)])
	case 4:
		h.endMoves([]Verb{VerbPutBack, VerbDrop}[h.rng.IntN(2)])
	case 5:
		h.core.ensureCollection().most = 1 + h.rng.IntN(3)
		h.apply(&Op{Kind: opFlush, Name: []byte(h.name()), N: uint32(StatesOf(State(1+h.rng.IntN(4)), State(1+h.rng.IntN(4)))), Operator: x})
	}
}

// moveStep puts copies of some jobs, which are taken for that or only read.
func (h *functionHistory) moveStep(v Verb) {
	x := &OperatorOp{Act: Action{Verb: v}, ids: []JobID{h.some(), h.some(), h.some()}}
	h.apply(&Op{Kind: opMany, Operator: x})
	x.ids = nil
	for i := range x.Jobs {
		if v == VerbTake {
			h.taken = append(h.taken, x.Jobs[i].ID)
		}
		h.last++
		h.put[h.last] = true
		x.ids = append(x.ids, h.last)
	}
	h.apply(&Op{Kind: opPutCopies, Name: []byte(functionNames[1+h.rng.IntN(len(functionNames)-1)]), Operator: x})
}

// endMoves has what is taken put back or dropped.
func (h *functionHistory) endMoves(v Verb) {
	slices.Reverse(h.taken)
	x := &OperatorOp{Act: Action{Verb: v}, ids: h.taken}
	if h.apply(&Op{Kind: opMany, Operator: x}); slices.Max(append(x.Results, StatusOK)) != StatusOK {
		h.t.Fatalf("the end of moves of %v: %v", h.taken, x.Results)
	}
	h.taken = nil
}

func (h *functionHistory) putterStep(p *peer) {
	id := h.some()
	op := Op{Client: p.id, ID: id, Tube: p.tube, Pri: h.rng.Uint32N(3000), Bound: MaxKey}
	switch h.rng.IntN(7) {
	case 0:
		h.last++
		op.Kind, op.ID, op.TTR = OpPut, h.last, 1+h.rng.Uint32N(3)
		h.put[h.last] = true
	case 1, 2:
		op.Kind = OpReserve
	case 3:
		op.Kind = OpDelete
	case 4:
		op.Kind, op.Delay = OpRelease, h.rng.Uint32N(2)
	case 5:
		op.Kind = OpBury
	case 6:
		op.Kind = OpKickJob
	}
	if r := h.apply(&op); op.Kind == OpDelete && r.Status == StatusOK {
		h.deleted[id] = true
	}
}

func (h *functionHistory) peerStep(n int) {
	p := h.peers[n]
	op := &Op{Client: p.id, ID: h.some(), Name: []byte(h.name()), Function: &p.function, Bound: MaxKey}
	switch h.rng.IntN(12) {
	case 0, 1, 2, 3:
		op.Kind, op.Pri = opSubmit, []uint32{0, 1024, 1<<32 - 1}[h.rng.IntN(3)]
		op.Body = fmt.Appendf(nil, "%d", h.rng.IntN(3))
		p.function.setUnique([]byte([]string{"", "-", "u", "v"}[h.rng.IntN(4)]))
		p.function.setReducer([]byte([]string{"", "red"}[h.rng.IntN(2)]))
		p.function.ByBody = string(p.function.Unique()) == "-"
		p.function.Background = h.rng.IntN(2) == 0
		if p.function.Due = 0; h.rng.IntN(4) == 0 {
			p.function.Due = h.now + Time(h.rng.IntN(3))*Second
		}
		r := h.apply(op)
		p.id = r.Client
		if !p.function.Background {
			h.waits[n][r.ID]++
		}
	case 4:
		op.Kind, p.function.Timeout = opRegister, Time(h.rng.IntN(2))*Second
		p.id = h.apply(op).Client
	case 5, 6, 7:
		if t := h.ability(p); t != 0 {
			op.Kind, op.Tube = opGrab, t
			h.apply(op)
		}
	case 8, 9:
		op.Kind = opReport
		if i := h.held(p); i != 0 {
			op.ID = h.core.jobs.At(i).ID
		}
		p.function.Relay = RelayKind(1 + h.rng.IntN(6))
		h.apply(op)
	case 10:
		op.Kind = opCancelJob
		if h.rng.IntN(3) == 0 {
			op.Kind, op.Tube = opUnregister, h.ability(p)
		}
		if op.Kind == opCancelJob || op.Tube != 0 {
			h.apply(op)
		}
	case 11:
		if p.id != 0 && h.rng.IntN(4) == 0 {
			op.Kind = OpClose
			h.apply(op)
			h.deliver()
			p.id = 0
			clear(h.waits[n])
		}
	}
}

func (h *functionHistory) ability(p *functionPeer) TubeID {
	if p.id == 0 || len(h.core.clients[p.id].watches.list) == 0 {
		return 0
	}
	all := h.core.clients[p.id].watches.list
	return h.core.watches.At(all[h.rng.IntN(len(all))]).tube
}

func (h *functionHistory) held(p *functionPeer) uint32 {
	if p.id == 0 {
		return 0
	}
	return h.core.clients[p.id].held.Head
}

// deliver takes what the sessions hear: each of their submissions ends once.
func (h *functionHistory) deliver() {
	h.core.TakeMail(nil)
	for n, p := range h.peers {
		for r := p.mail.Take(); r != nil; r = r.Next {
			if p.id == 0 {
				continue
			}
			if want := h.waits[n][r.Job]; want != r.Copies {
				h.t.Fatalf("session %d hears of job %d %d times, %d wait", n, r.Job, r.Copies, want)
			}
			if r.Kind.Ends() {
				delete(h.waits[n], r.Job)
			}
		}
	}
}

// compareReplay replays what was recorded: the jobs that somebody wants even
// without a client are there as they were.
func (h *functionHistory) compareReplay() {
	collectAll(h.core, &h.now)
	h.check()
	h.deliver()
	if err := h.scribe.take(); err != nil {
		h.t.Fatal(err)
	}
	c, buf, err := h.scribe.replay(h.now, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	if buf.Live != h.scribe.buf.Live || buf.Jobs != h.scribe.buf.Jobs {
		h.t.Fatalf("%d bytes of %d jobs, want %d of %d", buf.Live, buf.Jobs, h.scribe.buf.Live, h.scribe.buf.Jobs)
	}
	got, want := describeJobs(c, h.core.submissions.opts), describeJobs(h.core, h.core.submissions.opts)
	if !slices.Equal(got, want) {
		h.t.Fatalf("replayed %q\nwant %q", got, want)
	}
}

func describeJobs(c *Core, o SubmitOptions) (list []string) {
	c.eachJob(func(j *Job) {
		if !j.isSubmitted() {
			list = append(list, fmt.Sprint(j.ID))
			return
		}
		x := c.submissionOf(j)
		if x.is(Background) {
			lost := c.submissions.progressOf(j.submission()).lost
			if o.Retries == 0 {
				lost = 0 // not recorded: nothing depends on it
			}
			list = append(list, fmt.Sprintf("%d %q %d %q %q %q %v %v %d", j.ID, c.tubes[j.Tube].name, j.Pri,
				c.submissions.uniqueOf(x), c.submissions.reducerOf(x), c.bodyOf(j), x.is(byBody), x.is(indexed), lost))
		}
	})
	slices.Sort(list)
	return list
}

// finish works everything off, and wants every job to end once.
func (h *functionHistory) finish() {
	h.endMoves(VerbPutBack)
	for _, p := range h.putters {
		h.apply(&Op{Kind: OpReturn, Client: p.id})
	}
	for _, p := range h.peers {
		if p.id != 0 {
			for _, w := range slices.Clone(h.core.clients[p.id].watches.list) {
				h.apply(&Op{Kind: opUnregister, Client: p.id, Tube: h.core.watches.At(w).tube, Function: &p.function})
			}
		}
	}
	h.now += 10 * Second
	h.core.Expire(h.now)
	collectAll(h.core, &h.now)
	h.check()
	h.deliver()
	worker := h.session()
	for _, name := range functionNames {
		tube := worker.able(name, 0)
		h.apply(&Op{Kind: OpKick, Tube: tube, N: 10000})
		for {
			r := h.apply(&Op{Kind: opGrab, Client: worker.id, Tube: tube, Bound: MaxKey, Function: &worker.function})
			if r.Status != StatusReserved {
				break
			}
			worker.report(r.ID, RelayDone, "", StatusOK)
			h.deliver()
		}
	}
	for n, waits := range h.waits {
		if len(waits) > 0 {
			h.t.Errorf("session %d waits for ever: %v", n, waits)
		}
	}
	for id := JobID(1); id <= h.last; id++ {
		times := h.ended[id]
		if h.deleted[id] {
			times++
		}
		if times != 1 {
			h.t.Errorf("job %d ended %d times", id, times)
		}
	}
}

func TestRandomSubmissions(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 7))
		w := newFunctionWorld(t, SubmitOptions{Retries: rng.Uint32N(3), BuryFailed: rng.IntN(3) == 0})
		h := &functionHistory{functionWorld: w, rng: rng, scribe: newScribe(w.core), deleted: map[JobID]bool{}, put: map[JobID]bool{}}
		for range 4 {
			h.peers = append(h.peers, w.session())
			h.waits = append(h.waits, map[JobID]uint32{})
		}
		h.putters = []*peer{w.join("f"), w.join("default")}
		for n := range 600 {
			h.step()
			if n%100 == 99 {
				h.compareReplay()
			}
		}
		h.finish()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
