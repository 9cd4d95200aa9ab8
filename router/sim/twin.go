package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"polystalk/shard/core"
)

// A twin is the whole server done naively: one list of jobs, sorted whenever
// an order is needed, no shards, no timers. It takes one command at a time,
// in words, and notes what each client is told.
// Source: beanstalkd doc/protocol.txt.
type twin struct {
	now     core.Time
	jobs    []*twinJob
	tubes   []*twinTube
	clients []*twinClient
	waiting []*twinClient // in the order in which they began to wait
	last    uint64
	seq     int

	total, timeouts int

	// Tied is set once two things happened by themselves at the same moment:
	// which of them is first is nobody's promise.
	Tied bool
}

type twinJob struct {
	id                                          uint64
	pri, delay, ttr                             int64
	body                                        string
	tube                                        *twinTube
	state                                       string
	holder                                      *twinClient
	created, deadline                           core.Time
	seq                                         int // when it came to its state
	reserves, timeouts, releases, buries, kicks int
}

type twinTube struct {
	name                   string
	paused                 core.Time // until when; zero: it is not
	pauseFor               int64
	total, deletes, pauses int
}

type twinClient struct {
	use              *twinTube
	watch            []*twinTube
	until            core.Time // of the wait
	told             string
	gone             bool
	producer, worker bool
}

// newTwin makes an empty server at Epoch.
func newTwin() *twin {
	return &twin{now: epoch, tubes: []*twinTube{{name: "default"}}}
}

func (t *twin) join() *twinClient {
	c := &twinClient{use: t.tubes[0], watch: []*twinTube{t.tubes[0]}}
	t.clients = append(t.clients, c)
	return c
}

// leave is a client's end. Its jobs are ready again, then its watch list is
// emptied, the last entry taking each first one's place, then its used tube
// goes.
func (t *twin) leave(c *twinClient) {
	c.gone = true
	t.unwait(c)
	held := t.where(func(j *twinJob) bool { return j.holder == c })
	slices.SortFunc(held, func(a, b *twinJob) int { return a.seq - b.seq })
	for _, j := range held {
		t.enter(j, "ready")
	}
	for len(c.watch) > 0 {
		c.ignore(0, t)
	}
	t.clients = slices.DeleteFunc(t.clients, func(o *twinClient) bool { return o == c })
	t.sweep()
}

func (c *twinClient) ignore(i int, t *twin) {
	n := len(c.watch) - 1
	c.watch[i] = c.watch[n]
	c.watch = c.watch[:n]
	t.sweep()
}

// sweep forgets the tubes that nobody needs; the last takes the place.
func (t *twin) sweep() {
	for i := 1; i < len(t.tubes); i++ {
		q := t.tubes[i]
		needs := func(c *twinClient) bool { return c.use == q || slices.Contains(c.watch, q) }
		if slices.ContainsFunc(t.clients, needs) || slices.ContainsFunc(t.jobs, func(j *twinJob) bool { return j.tube == q }) {
			continue
		}
		n := len(t.tubes) - 1
		t.tubes[i] = t.tubes[n]
		t.tubes = t.tubes[:n]
		i--
	}
}

func (t *twin) tube(name string) *twinTube {
	for _, q := range t.tubes {
		if q.name == name {
			return q
		}
	}
	return nil
}

func (t *twin) open(name string) *twinTube {
	if q := t.tube(name); q != nil {
		return q
	}
	q := &twinTube{name: name}
	t.tubes = append(t.tubes, q)
	return q
}

func (t *twin) where(keep func(*twinJob) bool) (list []*twinJob) {
	for _, j := range t.jobs {
		if keep(j) {
			list = append(list, j)
		}
	}
	return list
}

// in is the jobs of a tube in a state, the next one first.
func (t *twin) in(q *twinTube, state string) []*twinJob {
	list := t.where(func(j *twinJob) bool { return j.tube == q && j.state == state })
	slices.SortFunc(list, func(a, b *twinJob) int {
		switch state {
		case "ready":
			return cmp.Or(cmp.Compare(a.pri, b.pri), cmp.Compare(a.id, b.id))
		case "delayed":
			return cmp.Or(cmp.Compare(a.deadline, b.deadline), cmp.Compare(a.id, b.id))
		}
		return a.seq - b.seq
	})
	return list
}

func (t *twin) find(id uint64) *twinJob {
	for _, j := range t.jobs {
		if j.id == id {
			return j
		}
	}
	return nil
}

// enter brings a job into a state.
func (t *twin) enter(j *twinJob, state string) {
	t.seq++
	j.seq = t.seq
	j.state, j.holder, j.deadline = state, nil, 0
	switch state {
	case "delayed":
		j.deadline = t.now + core.Time(j.delay)*core.Second
	case "buried":
		j.buries++
	case "ready":
		t.serve(j.tube)
	}
}

func (t *twin) enterPut(j *twinJob) {
	if j.delay > 0 {
		t.enter(j, "delayed")
	} else {
		t.enter(j, "ready")
	}
}

func (t *twin) reserve(j *twinJob, c *twinClient) {
	t.enter(j, "reserved")
	j.holder = c
	j.reserves++
	j.deadline = t.now + core.Time(j.ttr)*core.Second
	c.told += fmt.Sprintf("RESERVED %d %d\r\n%s\r\n", j.id, len(j.body), j.body)
}

// serve gives a tube's jobs to the clients that wait for them, first come first
// served.
func (t *twin) serve(q *twinTube) {
	for q.paused == 0 {
		ready := t.in(q, "ready")
		i := slices.IndexFunc(t.waiting, func(c *twinClient) bool { return slices.Contains(c.watch, q) })
		if len(ready) == 0 || i < 0 {
			return
		}
		c := t.waiting[i]
		t.unwait(c)
		t.reserve(ready[0], c)
	}
}

func (t *twin) unwait(c *twinClient) {
	t.waiting = slices.DeleteFunc(t.waiting, func(o *twinClient) bool { return o == c })
}

// margin is the moment from which a client hears DEADLINE_SOON.
func (t *twin) margin(c *twinClient) core.Time {
	at := core.Never
	for _, j := range t.jobs {
		if j.holder == c {
			at = min(at, j.deadline-core.Second)
		}
	}
	return at
}

// pass does what happens by itself, one event after the other.
func (t *twin) pass(now core.Time) {
	for {
		at, do, tie := core.Never, func() {}, false
		note := func(when core.Time, f func()) {
			switch {
			case when < at:
				at, do, tie = when, f, false
			case when == at:
				tie = true
			}
		}
		for _, q := range t.tubes {
			if q.paused != 0 {
				note(q.paused, func() { q.paused, q.pauseFor = 0, 0; t.serve(q) })
			}
		}
		for _, c := range t.waiting {
			note(t.margin(c), func() { t.unwait(c); c.told += "DEADLINE_SOON\r\n" })
			note(c.until, func() { t.unwait(c); c.told += "TIMED_OUT\r\n" })
		}
		for _, j := range t.jobs {
			switch j.state {
			case "delayed":
				note(j.deadline, func() { t.enter(j, "ready") })
			case "reserved":
				note(j.deadline, func() { j.timeouts++; t.timeouts++; t.enter(j, "ready") })
			}
		}
		if at > now {
			t.now = now
			return
		}
		t.now = at
		t.Tied = t.Tied || tie
		do()
	}
}

// Do runs a command; body is the job of a put.
func (t *twin) Do(c *twinClient, line, body string) {
	words := strings.Fields(line)
	arg := func(i int) int64 { n, _ := strconv.ParseInt(words[i], 10, 64); return n }
	say := func(f string, args ...any) { c.told += fmt.Sprintf(f+"\r\n", args...) }
	var j *twinJob
	switch words[0] {
	case "reserve-job", "delete", "release", "bury", "touch", "kick-job", "peek", "stats-job":
		j = t.find(uint64(arg(1)))
		if !t.may(words[0], j, c) {
			say("NOT_FOUND")
			return
		}
	}
	switch words[0] {
	case "put":
		c.producer = true
		t.last++
		j := &twinJob{
			id: t.last, pri: arg(1), delay: arg(2), ttr: max(1, arg(3)), body: body, tube: c.use, created: t.now,
		}
		t.total++
		j.tube.total++
		say("INSERTED %d", j.id)
		t.jobs = append(t.jobs, j)
		t.enterPut(j)
	case "use":
		c.use = t.open(words[1])
		t.sweep()
		say("USING %s", c.use.name)
	case "watch":
		if q := t.open(words[1]); !slices.Contains(c.watch, q) {
			c.watch = append(c.watch, q)
		}
		say("WATCHING %d", len(c.watch))
	case "ignore":
		i := slices.IndexFunc(c.watch, func(q *twinTube) bool { return q.name == words[1] })
		switch {
		case i >= 0 && len(c.watch) == 1:
			say("NOT_IGNORED")
		default:
			if i >= 0 {
				c.ignore(i, t)
			}
			say("WATCHING %d", len(c.watch))
		}
	case "reserve":
		t.applyReserve(c, core.Never)
	case "reserve-with-timeout":
		t.applyReserve(c, t.now+core.Time(arg(1))*core.Second)
	case "reserve-job":
		c.worker = true
		t.reserve(j, c)
	case "delete":
		t.jobs = slices.DeleteFunc(t.jobs, func(o *twinJob) bool { return o == j })
		j.tube.deletes++
		t.sweep()
		say("DELETED")
	case "release":
		j.pri, j.delay = arg(2), arg(3)
		j.releases++
		say("RELEASED")
		t.enterPut(j)
	case "bury":
		j.pri = arg(2)
		t.enter(j, "buried")
		say("BURIED")
	case "touch":
		j.deadline = t.now + core.Time(j.ttr)*core.Second
		say("TOUCHED")
	case "kick":
		t.kick(c, arg(1))
	case "kick-job":
		j.kicks++
		say("KICKED")
		t.enter(j, "ready")
	case "peek":
		say("FOUND %d %d\r\n%s", j.id, len(j.body), j.body)
	case "peek-ready", "peek-delayed", "peek-buried":
		list := t.in(c.use, strings.TrimPrefix(words[0], "peek-"))
		if len(list) == 0 {
			say("NOT_FOUND")
			return
		}
		say("FOUND %d %d\r\n%s", list[0].id, len(list[0].body), list[0].body)
	case "pause-tube":
		q := t.tube(words[1])
		if q == nil {
			say("NOT_FOUND")
			return
		}
		q.pauses++
		q.paused, q.pauseFor = 0, arg(2)
		if q.pauseFor > 0 {
			q.paused = t.now + core.Time(q.pauseFor)*core.Second
		}
		say("PAUSED")
		t.serve(q)
	default:
		t.answerQuery(c, words, j)
	}
}

// may reports whether a command on one job finds it.
func (t *twin) may(cmd string, j *twinJob, c *twinClient) bool {
	if j == nil {
		return false
	}
	switch cmd {
	case "reserve-job":
		return j.state != "reserved"
	case "delete":
		return j.state != "reserved" || j.holder == c
	case "release", "bury", "touch":
		return j.holder == c
	case "kick-job":
		return j.state == "buried" || j.state == "delayed"
	}
	return true
}

func (t *twin) applyReserve(c *twinClient, until core.Time) {
	c.worker = true
	var best *twinJob
	for _, q := range c.watch {
		if ready := t.in(q, "ready"); q.paused == 0 && len(ready) > 0 {
			if j := ready[0]; best == nil || j.pri < best.pri || j.pri == best.pri && j.id < best.id {
				best = j
			}
		}
	}
	switch {
	case best != nil:
		t.reserve(best, c)
	case t.margin(c) <= t.now:
		c.told += "DEADLINE_SOON\r\n"
	case until <= t.now:
		c.told += "TIMED_OUT\r\n"
	default:
		c.until = until
		t.waiting = append(t.waiting, c)
	}
}

func (t *twin) kick(c *twinClient, most int64) {
	list := t.in(c.use, "buried")
	if len(list) == 0 {
		list = t.in(c.use, "delayed")
	}
	list = list[:min(most, int64(len(list)))]
	c.told += fmt.Sprintf("KICKED %d\r\n", len(list))
	for _, j := range list {
		j.kicks++
		t.enter(j, "ready")
	}
}
