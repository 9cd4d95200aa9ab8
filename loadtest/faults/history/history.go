package history

import (
	"fmt"
	"hash/crc32"
	"math"
	"sync"
	"time"

	"polystalk/loadtest/bench"
)

// A Call is when a command was sent and when its answer had come, in nanoseconds of
// one clock that never goes back.
type Call struct{ Invoked, Answered int64 }

// A Token names one put: its body begins with the token as a stamp of package bench.
// Tokens count up from 1.
type Token uint64

// MinBody is the least length of a body: that of its stamp.
const MinBody = bench.StampLen

// A Put is what is to be true of a job as long as it is there. Body is not kept.
type Put struct {
	Tube     int // index into Options.Tubes
	Pri, TTR uint32
	Delay    time.Duration
	Body     []byte
	// Foreign jobs are Gearman's, whose priority and TTR are the server's affair.
	Foreign bool
}

// Options are what a History is made with.
type Options struct {
	Tubes []string
	// Slack is how much earlier than the clock of calls a server's may have a delay or
	// a TTR end. With clocks that are set wrong on purpose: longer than any delay.
	Slack time.Duration
	// Found is told of each violation, under the lock of the History: it must not call it.
	Found func(Violation)
}

// A History is told what clients sent and were answered. Its methods may be called by
// any goroutine.
type History struct {
	o  Options
	mu sync.Mutex

	jobs  table
	lives map[Token]*life
	tubes []tube
	next  Token
	rest  bool // the run is over, and whoever looks now is alone

	sums  Sums
	live  Stock
	rules map[Rule]int
}

// Sums count what clients were told.
type Sums struct {
	Put           int64 `json:"put"`          // puts sent
	Acknowledged  int64 `json:"acknowledged"` // of which were answered
	Refused       int64 `json:"refused"`      // of which the server took none
	Reserved      int64 `json:"reserved"`
	Deleted       int64 `json:"deleted"`  // acknowledged
	Released      int64 `json:"released"` // acknowledged
	Buried        int64 `json:"buried"`   // acknowledged
	Kicked        int64 `json:"kicked"`   // by id, acknowledged
	DeleteInDoubt int64 `json:"deleteInDoubt"`
	ChangeInDoubt int64 `json:"changeInDoubt"` // releases and burials
}

// PutInDoubt is how many puts were never answered.
func (s Sums) PutInDoubt() int64 { return s.Put - s.Acknowledged - s.Refused }

// New makes an empty History.
func New(o Options) *History {
	h := &History{o: o, lives: make(map[Token]*life), tubes: make([]tube, len(o.Tubes)), rules: make(map[Rule]int)}
	h.jobs.ids = make(map[uint64]*idPage)
	return h
}

// A tube is what matters of one beyond its jobs: kicks of as many as there are.
type tube struct{ kicks kicks }

// kicks are commands that may have made a job ready that waited for it.
type kicks struct {
	open  int   // not answered, for now or for ever
	until int64 // when the last of the others was answered
}

// since reports whether any may have taken effect at t or later.
func (k kicks) since(t int64) bool { return k.open > 0 || k.until > t }

func (k *kicks) answered(at int64) {
	k.open--
	k.until = max(k.until, at)
}

// A life is what is known of a job besides its record, from its first reservation on,
// or its put if it was delayed.
type life struct {
	holds []hold // those whose end has not been told
	kicks kicks
	// told is when the latest answer came that said what the job is now: one that was
	// invoked before that says nothing for certain.
	told      int64
	buried    Call // the answer because of which it is buried; zero: it may be anything
	delayed   Call // the same, delayed until due
	due       int64
	otherPris []uint32 // it has one of these, or that of the record
}

// A hold is a reservation that somebody was told of.
type hold struct {
	by      *Session
	invoked int64 // its reserve
	since   int64 // when RESERVED had come
	until   int64 // the TTR: beyond, the server may give the job to anybody
	// refuted is when the first answer had come that is wrong if the job is held still;
	// zero: there is none.
	refuted int64
	refuter string
}

// Token is the name of the next put.
func (h *History) Token() Token {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	return h.next
}

// Putting tells of a put that is about to be sent.
func (h *History) Putting(t Token, p Put, invoked int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sums.Put++
	j := h.jobs.at(t)
	*j = job{size: uint32(len(p.Body)), hash: sum(p.Body), pri: p.Pri, ttr: p.TTR, tube: uint16(p.Tube), is: isPut}
	if p.Foreign {
		j.is |= isForeign
	}
	if p.Delay > 0 {
		// It is delayed from when it is there, whether that is answered or not.
		h.lives[t] = &life{delayed: Call{invoked, invoked}, due: invoked + int64(p.Delay)}
	}
}

// Inserted tells that a put was acknowledged.
func (h *History) Inserted(t Token, id uint64, c Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sums.Acknowledged++
	j := h.jobs.at(t)
	j.is |= isAcknowledged
	if j.counts() {
		h.live.add(h, j, 1)
	}
	h.named(t, j, id, c)
}

// Refused tells that a put was answered with an error: its job must never be there.
func (h *History) Refused(t Token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sums.Refused++
	h.jobs.at(t).is |= isRefused
}

// named judges that the job of t has that id.
func (h *History) named(t Token, j *job, id uint64, c Call) {
	switch other := h.jobs.byID(id, t); {
	case other != t:
		h.found(IDTwice, t, id, c, "the id is that of put %d too", other)
	case j.id != 0 && j.id != id:
		h.found(IDTwice, t, id, c, "the job has had the id %d", j.id)
	}
	if j.id == 0 {
		j.id = id
	}
}

// Kicking tells of a kick-job that is about to be sent; one that is never answered
// may take effect for ever.
func (h *History) Kicking(t Token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if j := h.jobs.at(t); j.gone == 0 {
		h.life(t).kicks.open++
	}
}

// Kicked tells how a kick-job was answered.
func (h *History) Kicked(t Token, c Call, kicked bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lives[t]
	if l == nil {
		return // it is deleted
	}
	if kicked {
		h.sums.Kicked++
		l.refute(nil, c, "KICKED")
		l.kicks.answered(c.Answered)
	} else {
		l.kicks.open--
	}
}

// KickingTube tells of a kick of as many jobs as there are in a tube.
func (h *History) KickingTube(tube int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tubes[tube].kicks.open++
}

// KickedTube tells that it was answered at that time.
func (h *History) KickedTube(tube int, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tubes[tube].kicks.answered(at)
}

// A Stock is the jobs that must be there.
type Stock struct {
	Jobs  int64
	Bytes int64 // of their bodies and the names of their tubes
}

func (s *Stock) add(h *History, j *job, n int64) {
	s.Jobs += n
	s.Bytes += n * (int64(j.size) + int64(len(h.tubeName(int(j.tube)))))
}

// Live is the jobs that were acknowledged and that no delete can have removed.
func (h *History) Live() Stock {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live
}

// Sums is what was counted so far.
func (h *History) Sums() Sums {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sums
}

// life is that of t, which gets one if it has none.
func (h *History) life(t Token) *life {
	l := h.lives[t]
	if l == nil {
		l = new(life)
		h.lives[t] = l
	}
	return l
}

// certain makes an answer what the job is now, unless another may be later.
func (l *life) certain(c Call) bool {
	before := l.told
	l.told = max(before, c.Answered)
	l.buried, l.delayed, l.due = Call{}, Call{}, 0
	return before < c.Invoked
}

// refute notes that an answer to s cannot be if another holds the job all the while.
func (l *life) refute(s *Session, c Call, by string) {
	for i := range l.holds {
		o := &l.holds[i]
		if o.by != s && o.since < c.Invoked && (o.refuted == 0 || c.Answered < o.refuted) {
			o.refuted, o.refuter = c.Answered, by
		}
	}
}

// body judges the bytes of a job, and returns its token.
func (h *History) body(id uint64, b []byte, c Call) (Token, *job, bool) {
	stamp, err := bench.Stamp(b)
	t := Token(stamp)
	if err != nil || t == 0 || t > h.next || h.jobs.at(t).is&isPut == 0 {
		h.found(Stranger, 0, id, c, "%d bytes %.40q", len(b), b)
		return 0, nil, false
	}
	j := h.jobs.at(t)
	if uint32(len(b)) != j.size || sum(b) != j.hash {
		h.found(Altered, t, id, c, "%d bytes %.40q…, %d were put", len(b), b, j.size)
	}
	return t, j, true
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// never is later than any time.
const never = math.MaxInt64

func (h *History) tubeName(i int) string {
	if i < 0 || i >= len(h.o.Tubes) {
		return fmt.Sprintf("tube %d", i)
	}
	return h.o.Tubes[i]
}
