package main

import (
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"sync"
	"time"

	"polystalk/loadtest/bench"
)

// A history records what clients sent and what the servers answered, and finds what no correct
// server does. Any goroutine may use it.
//
// A command takes effect between the times at which it was invoked and answered. An unanswered
// command is in doubt: it may have taken effect at any time, or never. A rule is broken only if no
// order of events explains the answers.
//
// A reservation is certain from its answer to the last later command that was answered on the same
// connection, but not beyond the job's TTR. No connection survives its leader, so a change of
// leader does not excuse an overlap.
//
// Many goroutines report answers, and late. So a client reports what allows an event (putting,
// kicking) before it sends the command, and what forbids one (an answer) after it arrived. The
// history compares two answers only if one command was invoked after the other was answered.
//
// A job costs 48 bytes for the whole run. Its life costs more, from its first reservation until it
// is deleted; then it is judged.
type history struct {
	tubeNames []string
	// slack is how much earlier a server may end a delay or a TTR, by the clock of calls.
	slack time.Duration
	found func(r rule, text string) // called with the lock held

	mu     sync.Mutex
	jobs   []job            // by token
	ids    map[uint64]token // of the first job with this id
	lives  map[token]*life
	kicks  []kicks // by tube: kicks of a number of jobs
	rest   bool    // the run is over, and one client looks at the remaining jobs
	counts counts
	// lastAck is the time of the latest acknowledgement of a put, and pause the longest time without
	// one, since beginPause.
	lastAck, pause int64
	rules          map[rule]int

	attempts int // of the policy; 0: there is none
	exits    []exits
	tries    []tries
	most     int   // reservations of one job of that tube
	end      int64 // when rest began
}

func newHistory(tubes []string, slack time.Duration, found func(rule, string)) *history {
	return &history{tubeNames: tubes, slack: slack, found: found, jobs: make([]job, 1), ids: make(map[uint64]token), lives: make(map[token]*life),
		kicks: make([]kicks, len(tubes)), rules: make(map[rule]int)}
}

// A rule is a rule that a correct server cannot break.
type rule string

const (
	lost     rule = "lost"     // an acknowledged job that no delete can have removed does not exist
	late     rule = "late"     // RESERVED or DELETED invoked after DELETED was answered
	back     rule = "back"     // a deleted job exists at the end of the run
	unwanted rule = "unwanted" // the job of a refused put exists
	altered  rule = "altered"  // a body has different bytes
	changed  rule = "changed"  // another tube or TTR
	idTwice  rule = "id twice" // two jobs have one id, or a job has two
	stranger rule = "stranger" // a job without a put
	// No order of events explains what clients were told of a job: two held it at once, it was
	// delayed or buried and yet reserved, or its state or priority is wrong at the end.
	unexplained rule = "unexplained"
	often       rule = "too often" // more reservations than the policy and the exits of servers allow
)

// rules lists all rules in the order of reports.
var rules = []rule{lost, back, late, altered, idTwice, unexplained, changed, unwanted, stranger, often}

// violated reports a broken rule. A zero call means the end of the run.
func (h *history) violated(r rule, t token, id uint64, c call, format string, args ...any) {
	h.rules[r]++
	if h.found != nil {
		h.found(r, fmt.Sprintf("%s: put %d, job %d: %s (%d to %d ns; known: %+v)", r, t, id, fmt.Sprintf(format, args...), c.invoked, c.answered, h.jobs[t]))
	}
}

// A call has the times at which a command was sent and answered, in nanoseconds of one clock.
type call struct{ invoked, answered int64 }

// A put has the properties that a job must have while it exists. The body is not kept.
type put struct {
	tube     int // index into tubeNames
	pri, ttr uint32
	delay    time.Duration
	body     []byte
	foreign  bool // of Gearman: the server chooses priority and TTR
}

// counts counts the answers that clients got.
type counts struct {
	put, acknowledged, refused                  int64
	reserved, deleted, released, buried         int64 // answered
	kicked, deletesInDoubt, otherChangesInDoubt int64
	live                                        int64 // acknowledged jobs that cannot have been deleted
}

// kicks are kicks of a number of jobs of a tube.
type kicks struct {
	open  int   // number without an answer, now or forever
	until int64 // time of the last answer to the others
}

// since reports whether any kick may have taken effect at t or later.
func (k kicks) since(t int64) bool { return k.open > 0 || k.until > t }

// newToken returns the token of the next put.
func (h *history) newToken() token {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.jobs = append(h.jobs, job{})
	return token(len(h.jobs) - 1)
}

// putting reports a put that is about to be sent.
func (h *history) putting(t token, p put, invoked int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.put++
	j := &h.jobs[t]
	*j = job{size: uint32(len(p.body)), hash: checksum(p.body), pri: p.pri, ttr: p.ttr, tube: uint16(p.tube), is: isPut}
	if p.foreign {
		j.is |= isForeign
	}
	if p.delay > 0 { // the job is delayed even if the put is never answered
		h.life(t, invoked).ops[0].Input.(*op).due = invoked + int64(p.delay)
	}
}

// inserted reports that a put was acknowledged.
func (h *history) inserted(t token, id uint64, c call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.acknowledged++
	h.pause = max(h.pause, c.answered-h.lastAck)
	h.lastAck = max(h.lastAck, c.answered)
	j := &h.jobs[t]
	j.is |= isAcknowledged
	if j.mustBe() {
		h.counts.live++
	}
	h.named(t, j, id, c)
}

// refused reports that a put was answered with an error: its job must never exist.
func (h *history) refused(t token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.refused++
	h.jobs[t].is |= isRefused
}

// named checks that the job of t has this id.
func (h *history) named(t token, j *job, id uint64, c call) {
	if h.ids[id] == 0 {
		h.ids[id] = t
	}
	switch other := h.ids[id]; {
	case other != t:
		h.violated(idTwice, t, id, c, "put %d has the same id", other)
	case j.id != 0 && j.id != id:
		h.violated(idTwice, t, id, c, "the job had the id %d", j.id)
	}
	if j.id == 0 {
		j.id = id
	}
}

// kicking reports a kick-job that is about to be sent. If it is never answered, it may take effect
// at any time.
func (h *history) kicking(t token, invoked int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.jobs[t].gone == 0 {
		h.life(t, invoked).observe(op{kind: opKick, doubt: true}, call{invoked, never})
	}
}

// kickAnswered reports the answer to a kick-job.
func (h *history) kickAnswered(t token, c call, kicked bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lives[t]
	if kicked {
		h.counts.kicked++
	}
	if l == nil { // it is deleted
		return
	}
	if i := l.lastKick(); i >= 0 {
		l.ops = slices.Delete(l.ops, i, i+1)
	}
	if kicked {
		l.observe(op{kind: opKick}, c)
	}
}

// kickingTube reports a kick of a number of jobs that is about to be sent.
func (h *history) kickingTube(tube int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kicks[tube].open++
}

// tubeKicked reports the answer to that kick.
func (h *history) tubeKicked(tube int, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := &h.kicks[tube]
	k.open--
	k.until = max(k.until, at)
}

// beginPause begins to measure the longest time in which no client gets an acknowledgement of a put.
func (h *history) beginPause() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastAck, h.pause = bench.Now(), 0
}

func (h *history) longestPause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Duration(max(h.pause, bench.Now()-h.lastAck))
}

func (h *history) countsNow() counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts
}

// violations returns how often each rule was broken.
func (h *history) violations() map[rule]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.rules)
}

// recognize checks the bytes of a job's body, and returns its put.
func (h *history) recognize(id uint64, b []byte, c call) (token, *job, bool) {
	stamp, err := bench.Stamp(b)
	t := token(stamp)
	if err != nil || t == 0 || int(t) >= len(h.jobs) || h.jobs[t].is&isPut == 0 {
		h.violated(stranger, 0, id, c, "%d bytes %.40q", len(b), b)
		return 0, nil, false
	}
	j := &h.jobs[t]
	if uint32(len(b)) != j.size || checksum(b) != j.hash {
		h.violated(altered, t, id, c, "%d bytes %.40q…, %d were put", len(b), b, j.size)
	}
	return t, j, true
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// exists checks that a job may exist.
func (h *history) exists(t token, j *job, id uint64, c call) {
	if h.rest {
		j.is |= isSeen
	}
	switch {
	case j.is&isRefused != 0:
		h.violated(unwanted, t, id, c, "the put was refused")
	case j.gone == 0 || c.invoked <= j.gone:
	case h.rest:
		h.violated(back, t, id, c, "it was deleted")
	default:
		h.violated(late, t, id, c, "it was reserved %v after DELETED", time.Duration(c.invoked-j.gone))
	}
}

// beginRest reports the end of the run: all connections have ended, no fault lasts, and one client
// looks at the remaining jobs and removes them.
func (h *history) beginRest(now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rest, h.end = true, now
}

// remaining returns the jobs that may exist and have a known id.
func (h *history) remaining() (all []waitingJob) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t, j := range h.jobs {
		if j.id != 0 && j.gone == 0 {
			all = append(all, waitingJob{token(t), j.id})
		}
	}
	return all
}

// A sight is the server's description of a job at rest.
type sight struct {
	tube     string
	state    string // ready, delayed, buried or reserved
	pri, ttr uint32
}

// look checks the server's description of a job at rest.
func (h *history) look(t token, s sight, c call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := &h.jobs[t]
	h.exists(t, j, j.id, c)
	if want := h.tubeNames[j.tube]; s.tube != want {
		h.violated(changed, t, j.id, c, "it is in the tube %s", s.tube)
	}
	if j.is&isForeign != 0 {
		s.pri = 0
	} else if s.ttr != j.ttr {
		h.violated(changed, t, j.id, c, "its TTR is %d", s.ttr)
	}
	l := h.life(t, c.invoked)
	l.observe(op{kind: opSight, state: s.state, pri: s.pri, due: c.answered + int64(h.slack), kicked: h.kicks[j.tube].since(l.begun), dies: h.dies(j)}, c)
}

// dies reports whether the policy may bury the job.
func (h *history) dies(j *job) bool { return h.attempts > 0 && j.tube == failingTube }

// close ends the run. A job that must exist and was not seen since beginRest is lost. close returns
// the number of jobs seen at the end, and of puts in doubt that took effect.
func (h *history) close() (seen, appeared int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t, l := range h.lives {
		h.judge(t, l)
	}
	h.judgeTries()
	for i := range h.jobs[1:] {
		t, j := token(i+1), &h.jobs[i+1]
		if j.mustBe() && j.is&isSeen == 0 {
			h.violated(lost, t, j.id, call{}, "it is not there")
		}
		if j.is&(isAcknowledged|isRefused) == 0 && j.id != 0 {
			appeared++
		}
		if j.is&isSeen != 0 {
			seen++
		}
	}
	return seen, appeared
}
