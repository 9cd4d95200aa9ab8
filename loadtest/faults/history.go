package main

import (
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
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
// is deleted.
type history struct {
	tubeNames []string
	// slack is how much earlier a server may end a delay or a TTR, by the clock of calls.
	slack time.Duration
	found func(r rule, text string) // called with the lock held

	mu     sync.Mutex
	jobs   jobTable
	lives  map[token]*life
	kicks  []kicks // by tube: kicks of a number of jobs
	next   token
	rest   bool // the run is over, and one client looks at the remaining jobs
	counts counts
	live   int64 // jobs that must exist
	rules  map[rule]int
}

func newHistory(tubes []string, slack time.Duration, found func(rule, string)) *history {
	h := &history{tubeNames: tubes, slack: slack, found: found, lives: make(map[token]*life), kicks: make([]kicks, len(tubes)), rules: make(map[rule]int)}
	h.jobs.ids = make(map[uint64]token)
	return h
}

// A rule is a rule that a correct server cannot break.
type rule string

const (
	lost     rule = "lost"     // an acknowledged job that no delete can have removed does not exist
	late     rule = "late"     // RESERVED or DELETED invoked after DELETED was answered
	back     rule = "back"     // a deleted job exists at the end of the run
	unwanted rule = "unwanted" // the job of a refused put exists
	altered  rule = "altered"  // a body has different bytes
	changed  rule = "changed"  // another tube, priority or TTR, or a state that the job cannot have
	idTwice  rule = "id twice" // two jobs have one id, or a job has two
	overlap  rule = "overlap"  // no order of events explains all reservations of the job
	disowned rule = "disowned" // NOT_FOUND for a client that certainly holds the job
	early    rule = "early"    // a delayed job was reserved before its time
	unburied rule = "unburied" // a buried job was reserved without a kick
	stranger rule = "stranger" // a job without a put
)

// rules lists all rules in the order of reports.
var rules = []rule{lost, back, late, altered, idTwice, overlap, disowned, changed, early, unburied, unwanted, stranger}

// violated reports a broken rule. A zero call means the end of the run.
func (h *history) violated(r rule, t token, id uint64, c call, format string, args ...any) {
	h.rules[r]++
	if h.found != nil {
		h.found(r, fmt.Sprintf("%s: put %d, job %d: %s (%d to %d ns; known: %s)", r, t, id, fmt.Sprintf(format, args...), c.invoked, c.answered, h.known(t)))
	}
}

// known describes a job for readers of a violation.
func (h *history) known(t token) string {
	if t == 0 {
		return "nothing"
	}
	j := h.jobs.at(t)
	var s strings.Builder
	fmt.Fprintf(&s, "id %d, tube %s, pri %d, ttr %d, %d bytes, marks %b, last reserved at %d, deleted by %d", j.id, h.tubeNames[j.tube], j.pri, j.ttr, j.size, j.is, j.reserved, j.gone)
	if l := h.lives[t]; l != nil {
		fmt.Fprintf(&s, ", %d holds, buried %v, delayed %v to %d, kicks %+v", len(l.holds), l.buried, l.delayed, l.due, l.kicks)
	}
	return s.String()
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
}

// kicks are commands that may have made a waiting job ready.
type kicks struct {
	open  int   // number without an answer, now or forever
	until int64 // time of the last answer to the others
}

// since reports whether any kick may have taken effect at t or later.
func (k kicks) since(t int64) bool { return k.open > 0 || k.until > t }

func (k *kicks) answered(at int64) {
	k.open--
	k.until = max(k.until, at)
}

// kicked reports whether a kick may have made the job ready at t or later.
func (h *history) kicked(j *job, l *life, t int64) bool {
	return l.kicks.since(t) || h.kicks[j.tube].since(t)
}

// newToken returns the token of the next put.
func (h *history) newToken() token {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	return h.next
}

// putting reports a put that is about to be sent.
func (h *history) putting(t token, p put, invoked int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.put++
	j := h.jobs.at(t)
	*j = job{size: uint32(len(p.body)), hash: checksum(p.body), pri: p.pri, ttr: p.ttr, tube: uint16(p.tube), is: isPut}
	if p.foreign {
		j.is |= isForeign
	}
	if p.delay > 0 { // the job is delayed even if the put is never answered
		h.lives[t] = &life{delayed: call{invoked, invoked}, due: invoked + int64(p.delay)}
	}
}

// inserted reports that a put was acknowledged.
func (h *history) inserted(t token, id uint64, c call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.acknowledged++
	j := h.jobs.at(t)
	j.is |= isAcknowledged
	if j.mustBe() {
		h.live++
	}
	h.named(t, j, id, c)
}

// refused reports that a put was answered with an error: its job must never exist.
func (h *history) refused(t token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.refused++
	h.jobs.at(t).is |= isRefused
}

// named checks that the job of t has this id.
func (h *history) named(t token, j *job, id uint64, c call) {
	switch other := h.jobs.byID(id, t); {
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
func (h *history) kicking(t token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.jobs.at(t).gone == 0 {
		h.life(t).kicks.open++
	}
}

// kickAnswered reports the answer to a kick-job.
func (h *history) kickAnswered(t token, c call, kicked bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lives[t]
	switch {
	case l == nil: // it is deleted
	case kicked:
		h.counts.kicked++
		l.observe(kickJob, nil, c)
		l.kicks.answered(c.answered)
	default:
		l.kicks.open--
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
	h.kicks[tube].answered(at)
}

// liveJobs returns the number of acknowledged jobs that cannot have been deleted.
func (h *history) liveJobs() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live
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
	if err != nil || t == 0 || t > h.next || h.jobs.at(t).is&isPut == 0 {
		h.violated(stranger, 0, id, c, "%d bytes %.40q", len(b), b)
		return 0, nil, false
	}
	j := h.jobs.at(t)
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
func (h *history) beginRest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rest = true
}

// remaining returns the jobs that may exist and have a known id.
func (h *history) remaining() (all []waitingJob) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := token(1); t <= h.next; t++ {
		if j := h.jobs.at(t); j.id != 0 && j.gone == 0 {
			all = append(all, waitingJob{t, j.id})
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
	j, l := h.jobs.at(t), h.lives[t]
	h.exists(t, j, j.id, c)
	if want := h.tubeNames[j.tube]; s.tube != want {
		h.violated(changed, t, j.id, c, "it is in the tube %s", s.tube)
	}
	if j.is&isForeign == 0 && s.ttr != j.ttr {
		h.violated(changed, t, j.id, c, "its TTR is %d", s.ttr)
	}
	if j.is&isForeign == 0 && s.pri != j.pri && (l == nil || !slices.Contains(l.otherPris, s.pri)) {
		h.violated(changed, t, j.id, c, "its priority is %d", s.pri)
	}
	want := "" // the only possible state
	switch {
	case l == nil:
		want = "ready" // no client ever changed it
	case l.buried.answered != 0 && !h.kicked(j, l, l.buried.invoked):
		want = "buried"
	case c.answered < l.due-int64(h.slack) && !h.kicked(j, l, l.delayed.invoked):
		want = "delayed"
	}
	// An unanswered reserve may have taken the job if the server has not noticed yet that the
	// connection has ended.
	if want != "" && s.state != want && (want != "ready" || s.state != "reserved") {
		h.violated(changed, t, j.id, c, "it is %s, and should be %s", s.state, want)
	}
}

// close ends the run. A job that must exist and was not seen since beginRest is lost. close returns
// the number of jobs seen at the end, and of puts in doubt that took effect.
func (h *history) close() (seen, appeared int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t, l := range h.lives {
		h.checkHolds(t, l)
	}
	for t := token(1); t <= h.next; t++ {
		j := h.jobs.at(t)
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
