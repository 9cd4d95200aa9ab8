package core

import (
	"slices"

	"polystalk/shard/stats"
)

// apply runs op and returns the reply it expects. got is what the core
// replied: the model takes new handles from it, and only those.
func (m *model) apply(now Time, op *Op, offer func() offered, got *Reply) Reply {
	m.expire(now)
	cl := m.clients[op.Client]
	r := Reply{Client: op.Client}
	newClient := func() *modelClient {
		if cl == nil {
			cl = &modelClient{id: got.Client, conn: op.Conn, waiter: op.Waiter}
			m.clients[got.Client] = cl
			r.Client = got.Client
		}
		return cl
	}
	job := m.jobs[op.ID]
	found := func(ok bool) bool {
		if job == nil || !ok {
			r.Status = StatusNotFound
			return false
		}
		return true
	}
	mine := job != nil && cl != nil && job.client == cl
	switch op.Kind {
	case OpJoin, OpWatch:
		newClient()
		m.unwait(cl)
		t := m.open(string(op.Name), got.Tube)
		cl.watches = append(cl.watches, t)
		if op.Kind == OpJoin {
			t.using++
		}
		r.Tube, r.Face = t.id, &Face{name: t.name}
	case OpUse:
		t := m.open(string(op.Name), got.Tube)
		t.using++
		m.letGo(op.Tube)
		r.Tube, r.Face = t.id, &Face{name: t.name}
	case OpUnuse:
		m.letGo(op.Tube)
	case OpMirror:
	case OpIgnore:
		m.unwait(cl)
		m.ignore(cl, slices.IndexFunc(cl.watches, func(t *modelTube) bool { return t.id == op.Tube }))
	case OpReturn, OpClose:
		if cl != nil {
			m.unwait(cl)
			held := m.held(cl)
			slices.SortFunc(held, func(a, b *modelJob) int { return a.since - b.since })
			for _, j := range held {
				m.happens(j.tube, stats.Return)
				m.returns(j)
			}
		}
		if op.Kind == OpClose {
			for cl != nil && len(cl.watches) > 0 {
				m.ignore(cl, 0)
			}
			delete(m.clients, op.Client)
			m.letGo(op.Tube)
		}
	case OpPut:
		m.put(op, &r)
	case OpReserve:
		if !op.Multi || cl.seq != op.Seq {
			m.unwait(cl)
		}
		m.applyReserve(op, cl, offer, &r)
	case OpCancel:
		if cl != nil {
			m.unwait(cl)
		}
	case OpReserveJob:
		if found(job != nil && job.state != Reserved) {
			m.reserve(job, newClient())
			r.Status, r.ID, r.Body = StatusReserved, job.id, []byte(job.body)
		}
	case OpDelete:
		if found(job != nil && (job.state != Reserved && !op.HeldOnly || mine)) {
			m.delete(job)
		}
	case OpRelease:
		if found(mine) {
			job.pri, job.delay = op.Pri, op.Delay
			job.stats.Releases++
			m.happens(job.tube, stats.Release)
			if !m.fails(job, op.Delay > 0) {
				m.enter(job, op.Delay)
			}
		}
	case OpBury:
		if found(mine) {
			job.pri = op.Pri
			m.bury(job, BuriedByWorker)
		}
	case OpTouch:
		if found(mine) {
			job.deadline = m.now + Time(job.ttr)*Second
		}
	case OpKick:
		s := Buried
		r.Kicked = kickBuried
		t := m.tubeByID(op.Tube)
		if len(m.in(t, Buried)) == 0 {
			s, r.Kicked = Delayed, kickDelayed
		}
		for _, j := range m.in(t, s) {
			if r.N < op.N {
				r.N++
				j.stats.Kicks++
				m.happens(j.tube, stats.Kick)
				m.set(j, Ready, nil, 0)
			}
		}
	case OpKickJob:
		if found(job != nil && (job.state == Buried || job.state == Delayed)) {
			m.kick(job)
		}
	case OpPeekReady, OpPeekDelayed, OpPeekBuried:
		job = nil
		s := map[opKind]State{OpPeekReady: Ready, OpPeekDelayed: Delayed, OpPeekBuried: Buried}[op.Kind]
		if l := m.in(m.tubeByID(op.Tube), s); len(l) > 0 {
			job = l[0]
		}
		fallthrough
	case OpPeek:
		if found(true) {
			r.Status, r.ID, r.Body = StatusFound, job.id, []byte(job.body)
		}
	case OpPause:
		if t := m.tubeNamed(string(op.Name)); t == nil {
			r.Status = StatusNotFound
		} else {
			t.pauses++
			t.pauseUntil, t.pauseFor = 0, 0
			if op.Delay > 0 {
				t.pauseFor = Time(op.Delay) * Second
				t.pauseUntil = m.now + t.pauseFor
			}
			m.serve(t)
		}
	case OpStatsJob:
		found(true)
	case OpStatsTube:
		if m.tubeNamed(string(op.Name)) == nil {
			r.Status = StatusNotFound
		}
	case OpStats:
	case opPutCopies:
		m.putCopies(op, &r, got)
	case opMany, opFlushStep, opEdit, opFlush, opAskFlushed:
		m.results = m.operate(op, &r)
	default:
		panic("the model does not know this operation")
	}
	m.serveFreed()
	if cl = m.clients[r.Client]; cl != nil {
		r.Held = uint32(len(m.held(cl)))
	}
	return r
}

// kick makes a buried or delayed job ready.
func (m *model) kick(j *modelJob) {
	j.stats.Kicks++
	m.happens(j.tube, stats.Kick)
	m.set(j, Ready, nil, 0)
}

func (m *model) tubeByID(id TubeID) *modelTube {
	return m.tubes[slices.IndexFunc(m.tubes, func(t *modelTube) bool { return t.id == id })]
}

func (m *model) letGo(id TubeID) {
	if id != 0 {
		t := m.tubeByID(id)
		t.using--
		m.forget(t)
	}
}

// ignore takes a tube off a watch list; the last one takes its place.
func (m *model) ignore(cl *modelClient, i int) {
	t, n := cl.watches[i], len(cl.watches)-1
	cl.watches[i] = cl.watches[n]
	cl.watches = cl.watches[:n]
	m.forget(t)
}

func (m *model) put(op *Op, r *Reply) {
	t := m.tubeByID(op.Tube)
	if !m.admits(t, len(op.Body)+op.Large.Len()) {
		r.Status = StatusFull
		return
	}
	j := &modelJob{
		id: op.ID, pri: op.Pri, delay: op.Delay, ttr: op.TTR,
		body: string(op.Large.Append(op.Body)), tube: t, created: m.now,
	}
	m.jobs[j.id] = j
	t.total++
	m.total++
	m.enter(j, op.Delay)
}

// enter makes a put or released job ready or delayed.
func (m *model) enter(j *modelJob, delay uint32) {
	if delay > 0 {
		m.leaves(j, Delayed)
		j.state = 0 // that was counted
		m.now = max(m.now, m.delayedAt+1)
		m.delayedAt = m.now
		m.set(j, Delayed, nil, m.now+Time(delay)*Second)
	} else {
		m.set(j, Ready, nil, 0)
	}
}

func (m *model) applyReserve(op *Op, cl *modelClient, offer func() offered, r *Reply) {
	j := m.best(cl.watches...)
	held := m.held(cl)
	soon := j == nil && len(held) > 0 && held[0].deadline-m.now <= Second
	switch {
	case j != nil && (op.Bound.Pri < j.pri || op.Bound.Pri == j.pri && op.Bound.ID < j.id), soon && op.Bound != MaxKey:
		r.Status = StatusElsewhere
		return
	case (j != nil || soon) && op.Multi:
		m.unwait(cl)
	}
	switch {
	case j != nil:
		m.reserve(j, cl)
		r.Status, r.ID, r.Body = StatusReserved, j.id, []byte(j.body)
	case soon:
		r.Status = StatusDeadlineSoon
	case !op.Wait || op.Multi && op.Until <= m.now:
		r.Status = StatusTimedOut
	default:
		r.Status = StatusWaiting
		if !cl.waiting {
			cl.offer = offer
			cl.waiting, cl.until, cl.seq = true, op.Until, op.Seq
			m.waiting = append(m.waiting, cl)
		}
	}
}
