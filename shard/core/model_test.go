package core

import (
	"cmp"
	"slices"

	"polystalk/shard/record"
	"polystalk/shard/stats"
)

// model is the naive twin of Core: it keeps all jobs in one map, sorts
// whenever it needs an order, and knows nothing of heaps, links or timers.
// It follows the protocol document and the comments of Op.
type model struct {
	now Time

	delayedAt Time // no two delays are set at the same moment
	jobs      map[JobID]*modelJob
	tubes     []*modelTube // in the order in which they came
	clients   map[ClientID]*modelClient
	waiting   []*modelClient // in the order in which they began to wait
	woken     []modelWake
	log       []string // what a Directory hears
	seq       int      // orders burials and reservations

	buriedAt        Time // no two are buried at the same moment
	total, timeouts uint64
	flow            Flow
	results         []Status   // of the last OpMany
	read            []modelJob // by the last VerbRead or VerbTake
	copied          []modelJob // by the next OpPutCopies

	modelFlushes
	policies []record.Policy
	freed    []*modelTube // that lost a reserved job
}

type modelJob struct {
	id                JobID
	pri, delay, ttr   uint32
	body              string
	tube              *modelTube
	state             State
	client            *modelClient
	deadline, created Time
	since             int  // when it was buried or reserved
	at                Time // when it entered its state
	stats             JobStats
	taken             *modelTaken // nil: it is not
	by                BuriedBy
}

type modelTube struct {
	id                     TubeID // as the core calls it: it orders ties
	name                   string
	pinned                 bool
	using                  int
	pauseUntil, pauseFor   Time
	total, deletes, pauses uint64
	flow                   Flow
	flushedUntil           Time // of ready jobs
	policy                 modelPolicy
}

type modelClient struct {
	id      ClientID
	conn    uint64
	waiter  *Waiter
	watches []*modelTube
	waiting bool
	until   Time
	seq     uint64
	offer   func() offered // the twin of Waiter.offer
}

// modelWake is what a woken client is told.
type modelWake struct {
	waiter *Waiter
	client ClientID
	held   uint32
	status Status
	id     JobID
	body   string
}

func newModel() *model {
	return &model{jobs: map[JobID]*modelJob{}, clients: map[ClientID]*modelClient{}}
}

// sorted returns the jobs that keep says, ordered by key.
func (m *model) sorted(keep func(*modelJob) bool, key func(*modelJob) int64) []*modelJob {
	var list []*modelJob
	for _, j := range m.jobs {
		if keep(j) {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b *modelJob) int {
		return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a.id, b.id))
	})
	return list
}

func (m *model) in(t *modelTube, s State) []*modelJob {
	return m.sorted(func(j *modelJob) bool { return j.tube == t && j.state == s }, func(j *modelJob) int64 {
		switch s {
		case Ready:
			return int64(j.pri)
		case Delayed:
			return int64(j.deadline)
		}
		return int64(j.since)
	})
}

// held are a client's reserved jobs, the first to run out first.
func (m *model) held(cl *modelClient) []*modelJob {
	return m.sorted(func(j *modelJob) bool { return j.client == cl }, func(j *modelJob) int64 { return int64(j.deadline) })
}

func (m *model) tubeNamed(name string) *modelTube {
	for _, t := range m.tubes {
		if t.name == name {
			return t
		}
	}
	return nil
}

// open finds or makes a tube; the core's handle for it is id.
func (m *model) open(name string, id TubeID) *modelTube {
	if t := m.tubeNamed(name); t != nil {
		return t
	}
	t := &modelTube{id: id, name: name}
	m.tubes = append(m.tubes, t)
	m.applyPolicy(t)
	m.log = append(m.log, "+"+name)
	return t
}

// forget removes t when nothing needs it.
func (m *model) forget(t *modelTube) {
	used := t.pinned || t.using > 0 || t.policy.spent
	for _, cl := range m.clients {
		used = used || slices.Contains(cl.watches, t)
	}
	for _, j := range m.jobs {
		used = used || j.tube == t
	}
	if !used && !m.isFlushing(t) {
		m.tubes = slices.DeleteFunc(m.tubes, func(o *modelTube) bool { return o == t })
		m.log = append(m.log, "-"+t.name)
	}
}

// best is the job that a reserve over tubes takes, nil when there is none.
func (m *model) best(tubes ...*modelTube) *modelJob {
	var best *modelJob
	for _, t := range tubes {
		if t.pauseUntil != 0 || m.holds(t) {
			continue
		}
		if ready := m.in(t, Ready); len(ready) > 0 {
			if j := ready[0]; best == nil || j.pri < best.pri || j.pri == best.pri && j.id < best.id {
				best = j
			}
		}
	}
	return best
}

func (m *model) set(j *modelJob, s State, cl *modelClient, deadline Time) {
	m.setAt(j, s, cl, deadline, m.now)
}

// happens counts an event in a tube.
func (m *model) happens(t *modelTube, e stats.Event) {
	t.flow.Events[e]++
	m.flow.Events[e]++
}

// took counts a length of time.
func (m *model) took(d Time, of func(*Flow) *stats.Times, t *modelTube) {
	b := 0
	for b < stats.FlowBuckets-1 && float64(d) > stats.FlowBound(b) {
		b++
	}
	of(&t.flow).N[b]++
	of(&m.flow).N[b]++
}

// leaves counts what a job's leaving its state tells; s is the next one.
func (m *model) leaves(j *modelJob, s State) {
	switch {
	case j.state == Ready && s == Reserved:
		m.took(m.now-j.at, func(f *Flow) *stats.Times { return &f.Wait }, j.tube)
	case j.state == Reserved:
		if p := j.tube.policy.p; p != nil && p.RunningPlus > 0 && !slices.Contains(m.freed, j.tube) {
			m.freed = append(m.freed, j.tube)
		}
		m.took(m.now-j.at, func(f *Flow) *stats.Times { return &f.Run }, j.tube)
	}
}

// delete ends a job.
func (m *model) delete(j *modelJob) {
	m.leaves(j, 0)
	delete(m.jobs, j.id)
	j.tube.deletes++
	m.flow.Deletes++
	m.forget(j.tube)
}

// setAt is set for what happened at a moment that may be past.
func (m *model) setAt(j *modelJob, s State, cl *modelClient, deadline, at Time) {
	m.seq++
	m.leaves(j, s)
	switch s {
	case Ready:
		for _, o := range m.in(j.tube, Ready) {
			at = max(at, o.at)
		}
		if m.isFlushing(j.tube) {
			at = max(at, j.tube.flushedUntil+1)
		}
	case Buried:
		at = max(at, m.buriedAt+1)
		m.buriedAt = at
	}
	if j.by = cmp.Or(j.by, BuriedUnknown); s != Buried {
		j.by = BuriedUnknown
	}
	j.at = at
	j.state, j.client, j.deadline, j.since = s, cl, deadline, m.seq
	switch s {
	case Reserved:
		j.stats.Reserves++
		m.happens(j.tube, stats.Reserve)
		m.tookToken(j.tube)
	case Buried:
		j.stats.Buries++
		m.happens(j.tube, stats.Bury)
		if x := &j.tube.policy; x.p != nil && x.p.MaxBuried > 0 && len(m.in(j.tube, Buried)) > int(x.p.MaxBuried) && x.trimAt == 0 {
			x.trimAt = m.now
		}
	case Ready:
		m.serve(j.tube)
	}
}

// returns applies the policy to a job whose reservation has ended, or makes the job ready.
func (m *model) returns(j *modelJob) {
	if !m.fails(j, false) {
		m.set(j, Ready, nil, 0)
	}
}

func (m *model) reserve(j *modelJob, cl *modelClient) {
	m.set(j, Reserved, cl, m.now+Time(j.ttr)*Second)
}

// serve gives the jobs of t to the clients that wait, first come first served.
func (m *model) serve(t *modelTube) {
	for _, cl := range slices.Clone(m.waiting) {
		j := m.best(t)
		if j == nil || !slices.Contains(cl.watches, t) {
			continue
		}
		switch cl.offer() {
		case offerWon:
			m.unwait(cl)
			m.reserve(j, cl)
			m.woken = append(m.woken, modelWake{cl.waiter, cl.id, uint32(len(m.held(cl))), StatusReserved, j.id, j.body})
		case offerLost:
			m.unwait(cl)
		}
	}
}

func (m *model) unwait(cl *modelClient) {
	cl.waiting = false
	m.waiting = slices.DeleteFunc(m.waiting, func(o *modelClient) bool { return o == cl })
}

func (m *model) wake(cl *modelClient, s Status) {
	m.unwait(cl)
	if cl.offer() == offerWon {
		m.woken = append(m.woken, modelWake{cl.waiter, cl.id, uint32(len(m.held(cl))), s, 0, ""})
	}
}

// tubeDue and clientDue are the next moments at which something happens by itself.
func (m *model) tubeDue(t *modelTube) Time {
	at := Never
	if t.pauseUntil != 0 {
		at = t.pauseUntil
	}
	if d := m.in(t, Delayed); len(d) > 0 {
		at = min(at, d[0].deadline)
	}
	return min(at, m.policyDue(t))
}

func (m *model) clientDue(cl *modelClient) Time {
	at := Never
	if cl.waiting {
		at = cl.until
	}
	if h := m.held(cl); len(h) > 0 {
		at = min(at, h[0].deadline)
		if cl.waiting {
			at = min(at, h[0].deadline-Second)
		}
	}
	return at
}

// next is the moment of the next event, and the event. At one moment tubes go
// before clients, and lower handles before higher ones; before them all goes what has neither,
// the next part of what is to be collected.
func (m *model) next() (at Time, t *modelTube, cl *modelClient) {
	at = Never
	if len(m.lists) > 0 {
		at = m.collectAt
	}
	for _, o := range m.tubes {
		if d := m.tubeDue(o); d < at || d == at && t != nil && o.id < t.id {
			at, t = d, o
		}
	}
	for _, o := range m.clients {
		if d := m.clientDue(o); d < at || d == at && cl != nil && o.id < cl.id {
			at, t, cl = d, nil, o
		}
	}
	return at, t, cl
}

// expire does one event after the other until now.
func (m *model) expire(now Time) {
	m.now = max(m.now, now)
	for {
		at, t, cl := m.next()
		switch {
		case at > m.now || at == Never:
			return
		case t != nil && t.pauseUntil == at:
			t.pauseUntil, t.pauseFor = 0, 0
			m.serve(t)
		case t != nil:
			if d := m.in(t, Delayed); len(d) > 0 && d[0].deadline == at {
				m.setAt(d[0], Ready, nil, 0, at)
			} else {
				m.runPolicy(t, at)
			}
		case cl == nil:
			m.collect(at)
		default:
			held := m.held(cl)
			switch {
			case cl.waiting && len(held) > 0 && held[0].deadline-Second <= at:
				m.wake(cl, StatusDeadlineSoon)
			case cl.waiting && cl.until <= at:
				m.wake(cl, StatusTimedOut)
			default:
				held[0].stats.Timeouts++
				m.timeouts++
				m.happens(held[0].tube, stats.Timeout)
				m.returns(held[0])
			}
		}
		m.serveFreed()
	}
}

func (m *model) tubeStats(t *modelTube) TubeStats {
	s := TubeStats{
		Name: t.name, Using: uint64(t.using), Total: t.total, Deletes: t.deletes, Pauses: t.pauses, Pause: t.pauseFor,
		Ready: uint64(len(m.in(t, Ready))), Reserved: uint64(len(m.in(t, Reserved))),
		Delayed: uint64(len(m.in(t, Delayed))), Buried: uint64(len(m.in(t, Buried))),
	}
	if t.pauseUntil != 0 {
		s.PauseLeft = t.pauseUntil - m.now
	}
	for _, j := range m.in(t, Ready) {
		if j.pri < 1024 {
			s.Urgent++
		}
	}
	for _, cl := range m.clients {
		if slices.Contains(cl.watches, t) {
			s.Watching++
			if cl.waiting {
				s.Waiting++
			}
		}
	}
	return s
}

func (m *model) jobStats(j *modelJob) JobStats {
	s := j.stats
	s.ID, s.Tube, s.State, s.Pri, s.Delay, s.TTR = j.id, j.tube.name, j.state, j.pri, j.delay, j.ttr
	s.Age = m.now - j.created
	if j.deadline != 0 {
		s.TimeLeft = max(0, j.deadline-m.now) // an operation may set several delays, each a nanosecond later
	}
	return s
}

// flowOf is what has passed through a tube, nil: through all.
func (m *model) flowOf(t *modelTube) Flow {
	f := &m.flow
	f.Puts = m.total
	if t != nil {
		f = &t.flow
		f.Puts, f.Deletes = t.total, t.deletes
	}
	g := *f
	for _, l := range m.lists {
		for _, j := range l.jobs {
			if j.tube == t {
				g.Bytes += uint64(len(j.body))
			}
		}
	}
	for _, j := range m.jobs {
		if j.tube == t {
			g.Bytes += uint64(len(j.body))
		}
		if j.tube == t && j.state == Ready {
			g.Waiting, g.Oldest = true, max(g.Oldest, m.now-j.at)
		}
	}
	return g
}

func (m *model) counts() Counts {
	c := Counts{Total: m.total, Timeouts: m.timeouts, Tubes: uint64(len(m.tubes)), Clients: uint64(len(m.clients))}
	for _, t := range m.tubes {
		s := m.tubeStats(t)
		c.Urgent += s.Urgent
		c.Ready += s.Ready
		c.Reserved += s.Reserved
		c.Delayed += s.Delayed
		c.Buried += s.Buried
	}
	return c
}
