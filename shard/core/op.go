package core

import (
	"sync/atomic"

	"github.com/valyala/bytebufferpool"
)

// opKind says what an Op asks for.
type opKind uint8

// The operations on tubes and jobs. What each does, reads and answers stands at the
// method of Op that makes it. Those on functions are in op_function.go.
const (
	OpNone opKind = iota

	OpJoin   // see Join
	OpUse    // see Use
	OpUnuse  // see Unuse
	OpWatch  // see Watch
	OpMirror // see AskMirror
	OpIgnore // see Ignore
	OpReturn // see ReturnJobs
	OpClose  // see Close

	OpPut         // see Put
	OpReserve     // see Reserve, ReserveOrWait, ReserveBetter and ReserveQueued
	OpCancel      // see CancelWait
	OpReserveJob  // see ReserveJob
	OpDelete      // see Delete
	OpRelease     // see Release
	OpBury        // see Bury
	OpTouch       // see Touch
	OpKick        // see Kick
	OpKickJob     // see KickJob
	OpPeek        // see Peek
	OpPeekReady   // see PeekReady
	OpPeekDelayed // see PeekDelayed
	OpPeekBuried  // see PeekBuried
	OpPause       // see Pause
	OpStatsJob    // see StatsJob
	OpStatsTube   // see StatsTube
	OpStats       // see Stats

	functionKinds // the kinds of op_function.go begin here
)

// Op is one operation on one core. It is made by the method that has the operation's
// name, which sets every field that the operation reads but for those that it says are the
// caller's; what other fields hold does not matter then, so one Op may serve many operations,
// of many sessions. Conn is always the caller's.
//
// The slices that a method takes are only read during Apply, except Large: the core keeps
// it, and the caller must not write to it again. Of bodies, Large is for those longer than
// slab.MaxSize, and Body for the others; one of the two is nil.
//
// All operations answer StatusOK or what their method names, and StatusNotFound if the
// job or the tube that they name does not exist.
type Op struct {
	Kind       opKind
	Kicked     kicked // by an earlier visit of this kick
	Wait       bool
	Multi      bool     // it concerns other shards too: ask the Waiter's Guard
	Mirror     bool     // answer the tube's Mirror
	Client     ClientID // zero: none, or a new one where the method says so
	Tube       TubeID
	ID         JobID
	Pri        uint32
	N          uint32
	Admitted   uint32 // bytes for which the journal has made room; see StatusUnadmitted
	Delay, TTR uint32 // seconds
	Name       []byte
	Body       []byte
	Large      Large
	Bound      Key
	Until      Time // when a wait ends, in time awake (timer.go); Never for plain reserve
	Seq        uint64
	Waiter     *Waiter
	Conn       uint64 // number of the caller's connection, for a new client; zero: none
	Figures

	// Function is the rest of an operation on functions. It belongs to the session, which
	// sets it before it calls the method of such an operation; no other reads it.
	Function *FunctionOp

	// Operator is the rest of an operation of an operator.
	Operator *OperatorOp
}

// Figures are where those go that an operation is asked for, of the kind that its method names.
type Figures struct {
	JobStats  *JobStats
	TubeStats *TubeStats
	Counts    *Counts
}

// set begins an operation. It sets or clears Name, Body and Large: Keep would copy what an
// earlier operation left there, and the collector keep it.
func (o *Op) set(k opKind, c ClientID, name, body []byte, large Large) {
	o.Kind, o.Client = k, c
	o.Name, o.Body, o.Large = name, body, large
}

// Join makes a client that uses and watches the tube, which is made if need be. w is the
// client's Waiter; nil: the Waiter of its first reserve.
// Reply: Client, Tube, Face. StatusOutOfMemory.
func (o *Op) Join(name []byte, w *Waiter) {
	o.set(OpJoin, 0, name, nil, nil)
	o.Waiter, o.Mirror = w, false
}

// Use uses the tube, made if need be, and after that lets go of the one that was used
// before, unless old is zero. Reply: Tube, Face.
func (o *Op) Use(name []byte, old TubeID) {
	o.set(OpUse, 0, name, nil, nil)
	o.Tube = old
}

// Unuse lets go of the used tube; zero: there is none.
func (o *Op) Unuse(t TubeID) {
	o.set(OpUnuse, 0, nil, nil, nil)
	o.Tube = t
}

// Watch adds the tube, which is made if need be, to the watch list of c. The caller knows that
// it is not on the list yet. If c is zero, it makes a client with the Waiter w as for Join.
// mirror asks for the tube's Mirror as well. Reply: Client, Tube, Face, Mirror.
// StatusOutOfMemory.
func (o *Op) Watch(c ClientID, name []byte, w *Waiter, mirror bool) {
	o.set(OpWatch, c, name, nil, nil)
	o.Waiter, o.Mirror = w, mirror
}

// AskMirror asks for the published best key of a tube that the caller watches.
// Reply: Mirror.
func (o *Op) AskMirror(t TubeID) {
	o.set(OpMirror, 0, nil, nil, nil)
	o.Tube = t
}

// Ignore takes a tube that c watches from its watch list.
func (o *Op) Ignore(c ClientID, t TubeID) {
	o.set(OpIgnore, c, nil, nil, nil)
	o.Tube = t
}

// ReturnJobs ends the wait of c and makes its reserved jobs ready again, a bounded number
// a visit: StatusMore asks for the same once more.
func (o *Op) ReturnJobs(c ClientID) { o.set(OpReturn, c, nil, nil, nil) }

// Close forgets c, unless that is zero: it no longer waits, its reserved jobs are ready
// again, its watch list is empty. Then it lets go of the used tube, unless that is zero.
// StatusMore as for ReturnJobs.
func (o *Op) Close(c ClientID, used TubeID) {
	o.set(OpClose, c, nil, nil, nil)
	o.Tube = used
}

// Put adds a job to a tube that the caller uses. The delay and the time to run are in
// seconds. StatusOutOfMemory.
func (o *Op) Put(t TubeID, id JobID, pri, delay, ttr uint32, body []byte, large Large) {
	o.set(OpPut, 0, nil, body, large)
	o.Tube, o.ID, o.Pri, o.Delay, o.TTR = t, id, pri, delay, ttr
}

// Reserve takes the best ready job of the tubes that c watches; it does not wait, and no
// other shard has any of them. StatusReserved; StatusDeadlineSoon and StatusTimedOut:
// there is none. A wait of c here is over. If the caller sets Op.Waiter besides, the
// waits of c are that one's from here on; so it is with the three that follow.
func (o *Op) Reserve(c ClientID) { o.reserve(c, MaxKey, false, false, 0, 0) }

// ReserveOrWait is Reserve for a client that waits, if there is no job, until the time
// awake until: the wait is seq of its Waiter, which is open. StatusWaiting: the Waiter will
// be woken.
func (o *Op) ReserveOrWait(c ClientID, seq uint64, until Time) {
	o.reserve(c, MaxKey, true, false, seq, until)
}

// ReserveBetter is Reserve for a client that watches tubes in other shards as well: it
// takes the best job here unless that goes behind bound, or the Waiter's Guard does not
// vouch for it. StatusReserved, StatusElsewhere, StatusDeadlineSoon, StatusTimedOut
// (there is none here). The first and the third end the wait seq, which is closed or zero;
// the others leave it as it is here.
func (o *Op) ReserveBetter(c ClientID, bound Key, seq uint64) {
	o.reserve(c, bound, false, true, seq, 0)
}

// ReserveQueued is ReserveBetter for the best job whatever it is, and queues the client if
// there is none, until the time awake until: StatusWaiting. StatusTimedOut: that moment has
// come.
func (o *Op) ReserveQueued(c ClientID, seq uint64, until Time) {
	o.reserve(c, MaxKey, true, true, seq, until)
}

// reserve makes an OpReserve. With multi, other shards have some of the client's tubes.
func (o *Op) reserve(c ClientID, bound Key, wait, multi bool, seq uint64, until Time) {
	o.set(OpReserve, c, nil, nil, nil)
	o.Bound, o.Wait, o.Multi, o.Seq, o.Until = bound, wait, multi, seq, until
	o.Waiter = nil
}

// CancelWait takes c, if it waits, out of the queues; zero: nobody.
func (o *Op) CancelWait(c ClientID) { o.set(OpCancel, c, nil, nil, nil) }

// onJob begins an operation on one job.
func (o *Op) onJob(k opKind, c ClientID, id JobID) {
	o.set(k, c, nil, nil, nil)
	o.ID = id
}

// ReserveJob reserves a job for c. If c is zero, it makes a client with the Waiter w as for
// Join. StatusReserved. Reply: Client.
func (o *Op) ReserveJob(c ClientID, id JobID, w *Waiter) {
	o.onJob(OpReserveJob, c, id)
	o.Waiter = w
}

// Delete deletes a job that nobody but c has reserved.
func (o *Op) Delete(c ClientID, id JobID) { o.onJob(OpDelete, c, id) }

// Release makes a job that c has reserved ready again, or delayed by delay seconds.
func (o *Op) Release(c ClientID, id JobID, pri, delay uint32) {
	o.onJob(OpRelease, c, id)
	o.Pri, o.Delay = pri, delay
}

// Bury buries a job that c has reserved. StatusUnadmitted.
func (o *Op) Bury(c ClientID, id JobID, pri uint32) {
	o.onJob(OpBury, c, id)
	o.Pri, o.Admitted = pri, 0
}

// Touch begins the time to run of a job that c has reserved anew.
func (o *Op) Touch(c ClientID, id JobID) { o.onJob(OpTouch, c, id) }

// kicked is which jobs of a tube a kick makes ready: the buried ones if there is any, else
// the delayed ones, never both.
type kicked uint8

// The choice is made by the first visit, and kept by those that follow, even when others
// have emptied the list of buried jobs meanwhile.
const (
	kickUndecided kicked = iota
	kickBuried
	kickDelayed
)

// onTube begins an operation on a tube that the caller uses.
func (o *Op) onTube(k opKind, t TubeID) {
	o.set(k, 0, nil, nil, nil)
	o.Tube = t
}

// Kick kicks up to n jobs of a tube that the caller uses, a bounded number a visit.
// Reply: N, as many as it has kicked. StatusMore asks for KickOn.
func (o *Op) Kick(t TubeID, n uint32) {
	o.onTube(OpKick, t)
	o.N, o.Kicked = n, kickUndecided
}

// KickOn makes a kick that r has answered with StatusMore the one for the rest.
func (o *Op) KickOn(r *Reply) { o.N, o.Kicked = o.N-r.N, r.Kicked }

// KickJob kicks a buried or delayed job.
func (o *Op) KickJob(c ClientID, id JobID) { o.onJob(OpKickJob, c, id) }

// Peek shows a job. StatusFound. Reply: ID, Body or Large.
func (o *Op) Peek(c ClientID, id JobID) { o.onJob(OpPeek, c, id) }

// PeekReady shows the first ready job of a tube that the caller uses; as Peek.
func (o *Op) PeekReady(t TubeID) { o.onTube(OpPeekReady, t) }

// PeekDelayed shows the job of such a tube that is ready next; as Peek.
func (o *Op) PeekDelayed(t TubeID) { o.onTube(OpPeekDelayed, t) }

// PeekBuried shows the job of such a tube that was buried first; as Peek.
func (o *Op) PeekBuried(t TubeID) { o.onTube(OpPeekBuried, t) }

// onName begins an operation on a tube that need not exist.
func (o *Op) onName(k opKind, name []byte) { o.set(k, 0, name, nil, nil) }

// Pause pauses a tube for delay seconds; zero ends the pause.
func (o *Op) Pause(name []byte, delay uint32) {
	o.onName(OpPause, name)
	o.Delay = delay
}

// StatsJob fills s with what there is to tell about a job.
func (o *Op) StatsJob(c ClientID, id JobID, s *JobStats) {
	o.onJob(OpStatsJob, c, id)
	o.JobStats = s
}

// StatsTube fills s with what there is to tell about a tube.
func (o *Op) StatsTube(name []byte, s *TubeStats) {
	o.onName(OpStatsTube, name)
	o.TubeStats = s
}

// Stats fills n with the sums of the whole core.
func (o *Op) Stats(n *Counts) {
	o.set(OpStats, 0, nil, nil, nil)
	o.Counts = n
}

// Status is the outcome of an Op.
type Status uint8

// Outcomes; the methods of Op say which of them each operation gives.
const (
	StatusOK Status = iota
	StatusReserved
	StatusFound
	StatusNotFound
	StatusTimedOut
	StatusDeadlineSoon
	StatusWaiting     // registered; the Waiter will be woken
	StatusElsewhere   // the best job here is behind Bound, or another shard may have a better one
	StatusMore        // bounded work: ask again
	StatusOutOfMemory // nothing was changed
	StatusFull        // the function has as many jobs as it may; nothing was changed
	StatusInUse       // the function has workers or jobs; nothing was changed
	// A large body of Reply.N bytes would now be recorded; nothing was changed. The caller asks
	// again, with Op.Admitted, once the journal has admitted that many bytes.
	StatusUnadmitted
	StatusUnwanted // an operator's filter does not want the job
	StatusUnfit    // what an operator asks does not apply to the job as it is
	StatusChanged  // the job is not as an operator has seen it
	StatusMoving   // an operator has taken the job, to move it
	StatusAwaited  // somebody waits for what comes of the job
)

// Reply answers an Op. Body aliases the core's memory: it is good until the
// shard is released; a Large body is instead of it, and never changes.
type Reply struct {
	Status Status
	Kicked kicked
	Client ClientID
	Held   uint32 // jobs that Client holds here now
	Tube   TubeID
	N      uint32
	ID     JobID
	Face   *Face // of a tube that is used or watched now
	Body   []byte
	Large  Large
	Mirror *Mirror

	// Commit is the journal's commit that the reply must wait for: the commit of its own record,
	// and of the job that it shows. Zero: none.
	Commit uint64
}

// Home takes finished messages back to the event loop they came from.
// Post never blocks; it is called with no shard owned.
type Home interface {
	Post(*Message)
}

// A Message carries one Op to a shard that is busy, and its Reply back. Its
// sender owns it before Push and again once its Home has handed it over;
// between the two it belongs to the shard. A sender has one under way at a
// time, so the queues are bounded by the number of clients.
type Message struct {
	Op    Op
	Reply Reply
	Home  Home
	Owner any // the sender's own: never looked at here
	From  int // the Index of the shard that answered

	// Next links a Home's queue.
	Next atomic.Pointer[Message]

	in, out *bytebufferpool.ByteBuffer
}

// Keep copies the slices of Op into memory of the message, so that they
// outlive the caller's buffer. A Large body stays where it is.
func (m *Message) Keep() {
	n := len(m.Op.Name)
	if n == 0 && len(m.Op.Body) == 0 {
		return
	}
	if m.in == nil {
		// Pooled, because only contended operations need it and bodies vary.
		m.in = bytebufferpool.Get()
	}
	m.in.B = append(m.in.B[:0], m.Op.Name...)
	m.in.B = append(m.in.B, m.Op.Body...)
	m.Op.Body = m.in.B[n:]
	m.Op.Name = m.in.B[:n:n]
}

// KeepBody copies the reply's body out of the core's memory.
func (m *Message) KeepBody() {
	if len(m.Reply.Body) == 0 {
		return
	}
	if m.out == nil {
		m.out = bytebufferpool.Get()
	}
	m.out.B = append(m.out.B[:0], m.Reply.Body...)
	m.Reply.Body = m.out.B
}

// Done gives the message's buffers back once the reply has been used.
func (m *Message) Done() {
	if m.in != nil {
		bytebufferpool.Put(m.in)
		m.in = nil
	}
	if m.out != nil {
		bytebufferpool.Put(m.out)
		m.out = nil
	}
	m.Op.Name, m.Op.Body, m.Op.Large = nil, nil, nil
	m.Reply.Body, m.Reply.Large = nil, nil
}
