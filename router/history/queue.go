package history

import "slices"

type place uint8

const (
	nowhere place = iota // not put yet
	ready
	delayed
	reserved
	buried
	gone
)

// A job is a job in the model queue.
type job struct {
	id     uint64
	pri    uint32
	tube   int
	in     place
	client int // its holder
}

// A queue is the model: all tubes at one moment. Every change can be undone.
type queue struct {
	jobs   map[uint64]*job
	ready  []*job // in no order
	paused map[int]bool
	hash   uint64
	past   []change
}

// A change holds the previous state of a job or a tube.
type change struct {
	was   job
	tube  int // of a change to a tube
	onOff bool
	none  bool // nothing was changed
}

func newQueue() *queue { return &queue{jobs: make(map[uint64]*job), paused: make(map[int]bool)} }

func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func (j *job) sum() uint64 {
	if j.in == nowhere {
		return 0
	}
	return mix(mix(j.id<<8|uint64(j.in)) ^ uint64(j.pri) ^ uint64(j.client)<<32)
}

func (q *queue) set(j *job, to job) {
	q.hash ^= j.sum()
	was := j.in
	*j = to
	q.hash ^= j.sum()
	if was == ready && j.in != ready {
		i := slices.Index(q.ready, j)
		q.ready[i] = q.ready[len(q.ready)-1]
		q.ready = q.ready[:len(q.ready)-1]
	}
	if was != ready && j.in == ready {
		q.ready = append(q.ready, j)
	}
}

// move sets j and records the change for undo.
func (q *queue) move(j *job, in place, client int, pri uint32) bool {
	q.past = append(q.past, change{was: *j})
	to := *j
	to.in, to.client, to.pri = in, client, pri
	q.set(j, to)
	return true
}

func (q *queue) nothing() bool {
	q.past = append(q.past, change{none: true})
	return true
}

func (q *queue) setPaused(tube int, on bool) {
	if q.paused[tube] != on {
		q.paused[tube] = on
		q.hash ^= mix(uint64(tube) + 0x9E3779B97F4A7C15)
	}
}

func (q *queue) undo() {
	c := q.past[len(q.past)-1]
	q.past = q.past[:len(q.past)-1]
	switch {
	case c.none:
	case c.was.id == 0:
		q.setPaused(c.tube, c.onOff)
	default:
		q.set(q.jobs[c.was.id], c.was)
	}
}

// best returns the job that a reserve gets, or nil.
func (q *queue) best(watch []bool) *job {
	var b *job
	for _, j := range q.ready {
		if watch[j.tube] && !q.paused[j.tube] && (b == nil || j.pri < b.pri || j.pri == b.pri && j.id < b.id) {
			b = j
		}
	}
	return b
}

// apply lets o take effect now and reports whether its answer is right; otherwise it changes nothing.
func (q *queue) apply(o *Op) bool {
	j := q.jobs[o.Job]
	if j == nil && o.Job != 0 {
		j = &job{id: o.Job, tube: o.Tube}
		q.jobs[o.Job] = j
	}
	mine := j != nil && j.in == reserved && j.client == o.Client
	switch o.Kind {
	case Put:
		if j.in != nowhere {
			return false
		}
		j.tube = o.Tube
		if o.Delayed {
			return q.move(j, delayed, 0, o.Pri)
		}
		return q.move(j, ready, 0, o.Pri)
	case Reserve:
		b := q.best(o.Watch)
		switch {
		case b != j:
			return false
		case b == nil:
			return q.nothing()
		}
		return q.move(j, reserved, o.Client, j.pri)
	case Delete:
		may := mine || j.in == ready || j.in == delayed || j.in == buried
		if may != o.Found {
			return false
		}
		if !may {
			return q.nothing()
		}
		return q.move(j, gone, 0, j.pri)
	case Release, Bury:
		switch {
		case mine != o.Found:
			return false
		case !mine:
			return q.nothing()
		case o.Kind == Bury:
			return q.move(j, buried, 0, o.Pri)
		}
		return q.move(j, ready, 0, o.Pri)
	case KickJob:
		may := j.in == delayed || j.in == buried
		switch {
		case may != o.Found:
			return false
		case !may:
			return q.nothing()
		}
		return q.move(j, ready, 0, j.pri)
	case DelayEnds:
		if j.in != delayed {
			return q.nothing()
		}
		return q.move(j, ready, 0, j.pri)
	case HoldEnds:
		if !mine {
			return q.nothing()
		}
		return q.move(j, ready, 0, j.pri)
	case Pause, Unpause:
		q.past = append(q.past, change{tube: o.Tube, onOff: q.paused[o.Tube]})
		q.setPaused(o.Tube, o.Kind == Pause)
		return true
	}
	panic("history: an operation of no kind")
}
