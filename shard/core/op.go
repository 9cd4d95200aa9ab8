package core

import (
	"sync/atomic"

	"github.com/valyala/bytebufferpool"
)

// opKind says what an Op asks for.
type opKind uint8

// The operations on tubes and jobs. The method of Op that makes an operation documents it.
// Operations on functions are in op_function.go.
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

// Op is one operation on one core. The method with the name of the operation makes it, and
// sets every field that the operation reads, except the fields that its comment leaves to the
// caller. Other fields are ignored, so one Op may serve many operations of many sessions. The
// caller always sets Conn.
//
// The slices that a method takes are only read during Apply, except Large: the core keeps
// it, and the caller must not write to it again. A body longer than slab.MaxSize is in Large,
// and any other in Body; one of the two is nil.
//
// An operation answers StatusOK or a status that its method names, and StatusNotFound if the
// job or tube does not exist.
type Op struct {
	Kind       opKind
	Kicked     kicked // by an earlier visit of this kick
	Wait       bool
	Multi      bool     // it is part of a reserve over several shards: ask the Waiter's Guard
	Mirror     bool     // answer the tube's Mirror
	HeldOnly   bool     // delete only a job that the Client has reserved
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

	// Function has the further fields of operations on functions; others do not read it. It
	// belongs to the session, which must set it before it calls the method of the operation.
	Function *FunctionOp

	// Operator has the further fields of an operator's operations.
	Operator *OperatorOp
}

// Figures points to the results of a stats operation; its method names the field that is used.
type Figures struct {
	JobStats  *JobStats
	TubeStats *TubeStats
	Counts    *Counts
}

// set begins an operation. It always sets Name, Body and Large: otherwise Keep would copy the
// slices of an earlier operation, and the collector could not free them.
func (o *Op) set(k opKind, c ClientID, name, body []byte, large Large) {
	o.Kind, o.Client = k, c
	o.Name, o.Body, o.Large = name, body, large
}

// Join makes a client that uses and watches the tube, which is made if need be. w is the
// client's Waiter; nil: the Waiter of its first reserve.
// Reply: Client, Tube, Face. It may answer StatusOutOfMemory.
func (o *Op) Join(name []byte, w *Waiter) {
	o.set(OpJoin, 0, name, nil, nil)
	o.Waiter, o.Mirror = w, false
}

// Use uses the tube, which is made if need be, and then ends the use of the tube old; zero:
// there is none. Reply: Tube, Face.
func (o *Op) Use(name []byte, old TubeID) {
	o.set(OpUse, 0, name, nil, nil)
	o.Tube = old
}

// Unuse ends the use of a tube; zero: there is none.
func (o *Op) Unuse(t TubeID) {
	o.set(OpUnuse, 0, nil, nil, nil)
	o.Tube = t
}

// Watch adds the tube, which is made if need be, to the watch list of c. It must not be on the list
// yet. If c is zero, Watch makes a client with the Waiter w as for Join. mirror asks for the tube's
// Mirror as well. Reply: Client, Tube, Face, Mirror. It may answer StatusOutOfMemory.
func (o *Op) Watch(c ClientID, name []byte, w *Waiter, mirror bool) {
	o.set(OpWatch, c, name, nil, nil)
	o.Waiter, o.Mirror = w, mirror
}

// AskMirror asks for the published best key of a tube that the caller watches. Reply: Mirror.
func (o *Op) AskMirror(t TubeID) {
	o.set(OpMirror, 0, nil, nil, nil)
	o.Tube = t
}

// Ignore takes a tube that c watches from its watch list.
func (o *Op) Ignore(c ClientID, t TubeID) {
	o.set(OpIgnore, c, nil, nil, nil)
	o.Tube = t
}

// ReturnJobs ends the wait of c and makes its reserved jobs ready again, a bounded number per
// visit: after StatusMore the caller repeats the operation.
func (o *Op) ReturnJobs(c ClientID) { o.set(OpReturn, c, nil, nil, nil) }

// Close ends the client c: its wait ends, its reserved jobs become ready again, and its watch
// list is emptied. Then it ends the use of the tube used. Each may be zero: there is none.
// StatusMore as for ReturnJobs.
func (o *Op) Close(c ClientID, used TubeID) {
	o.set(OpClose, c, nil, nil, nil)
	o.Tube = used
}

// size is the size of the operation's body.
func (o *Op) size() int { return len(o.Body) + o.Large.Len() }

// Put adds a job to a tube that the caller uses. The delay and the time to run are in
// seconds. It may answer StatusFull or StatusOutOfMemory.
func (o *Op) Put(t TubeID, id JobID, pri, delay, ttr uint32, body []byte, large Large) {
	o.set(OpPut, 0, nil, body, large)
	o.Tube, o.ID, o.Pri, o.Delay, o.TTR = t, id, pri, delay, ttr
}

// Reserve takes the best ready job of the tubes that c watches, and does not wait. All these
// tubes must be in this shard. StatusReserved; StatusDeadlineSoon and StatusTimedOut: there is
// no job. It ends a wait of c in this core. The caller of Reserve and of the next three methods
// may set Op.Waiter afterwards: it replaces the Waiter of c.
func (o *Op) Reserve(c ClientID) { o.reserve(c, MaxKey, false, false, 0, 0) }

// ReserveOrWait is Reserve for a client that waits if there is no job, until the time awake until.
// The wait is number seq of its Waiter, and open. StatusWaiting: the Waiter will be woken.
func (o *Op) ReserveOrWait(c ClientID, seq uint64, until Time) {
	o.reserve(c, MaxKey, true, false, seq, until)
}

// ReserveBetter is Reserve for a client that also watches tubes in other shards. It takes the
// best job of this shard, unless the job comes after bound or the Waiter's Guard rejects it.
// StatusReserved, StatusElsewhere, StatusDeadlineSoon, StatusTimedOut (this shard has no job).
// StatusReserved and StatusDeadlineSoon end the wait seq, which is closed or zero; the others
// do not change it.
func (o *Op) ReserveBetter(c ClientID, bound Key, seq uint64) {
	o.reserve(c, bound, false, true, seq, 0)
}

// ReserveQueued is ReserveBetter without a bound. If there is no job, it queues the client
// until the time awake until: StatusWaiting. StatusTimedOut: that moment has passed.
func (o *Op) ReserveQueued(c ClientID, seq uint64, until Time) {
	o.reserve(c, MaxKey, true, true, seq, until)
}

// reserve makes an OpReserve. With multi, other shards have some of the client's tubes.
func (o *Op) reserve(c ClientID, bound Key, wait, multi bool, seq uint64, until Time) {
	o.set(OpReserve, c, nil, nil, nil)
	o.Bound, o.Wait, o.Multi, o.Seq, o.Until = bound, wait, multi, seq, until
	o.Waiter = nil
}

// CancelWait takes c, if it waits, out of the queues; zero: there is no client.
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

// Delete deletes a job that no client other than c has reserved. The caller may set HeldOnly
// afterwards.
func (o *Op) Delete(c ClientID, id JobID) {
	o.onJob(OpDelete, c, id)
	o.HeldOnly = false
}

// Release makes a job that c has reserved ready again, or delayed by delay seconds.
func (o *Op) Release(c ClientID, id JobID, pri, delay uint32) {
	o.onJob(OpRelease, c, id)
	o.Pri, o.Delay = pri, delay
}

// Bury buries a job that c has reserved. It may answer StatusUnadmitted.
func (o *Op) Bury(c ClientID, id JobID, pri uint32) {
	o.onJob(OpBury, c, id)
	o.Pri, o.Admitted = pri, 0
}

// Touch restarts the time to run of a job that c has reserved.
func (o *Op) Touch(c ClientID, id JobID) { o.onJob(OpTouch, c, id) }

// kicked says which jobs of a tube a kick makes ready: the buried ones if there are any, else
// the delayed ones, never both.
type kicked uint8

// The first visit makes the choice. Later visits keep it, even if the list of buried jobs has
// become empty meanwhile.
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

// Kick kicks up to n jobs of a tube that the caller uses, a bounded number per visit.
// Reply: N, the number of kicked jobs. After StatusMore the caller continues with KickOn.
func (o *Op) Kick(t TubeID, n uint32) {
	o.onTube(OpKick, t)
	o.N, o.Kicked = n, kickUndecided
}

// KickOn turns a kick that r answered with StatusMore into the kick of the remaining jobs.
func (o *Op) KickOn(r *Reply) { o.N, o.Kicked = o.N-r.N, r.Kicked }

// KickJob kicks a buried or delayed job.
func (o *Op) KickJob(c ClientID, id JobID) { o.onJob(OpKickJob, c, id) }

// Peek shows a job. StatusFound. Reply: ID, Body or Large.
func (o *Op) Peek(c ClientID, id JobID) { o.onJob(OpPeek, c, id) }

// PeekReady is Peek for the first ready job of a tube that the caller uses.
func (o *Op) PeekReady(t TubeID) { o.onTube(OpPeekReady, t) }

// PeekDelayed is Peek for the delayed job of such a tube that is due first.
func (o *Op) PeekDelayed(t TubeID) { o.onTube(OpPeekDelayed, t) }

// PeekBuried is Peek for the job of such a tube that was buried first.
func (o *Op) PeekBuried(t TubeID) { o.onTube(OpPeekBuried, t) }

// onName begins an operation on a tube that need not exist.
func (o *Op) onName(k opKind, name []byte) { o.set(k, 0, name, nil, nil) }

// Pause pauses a tube for delay seconds; zero ends the pause.
func (o *Op) Pause(name []byte, delay uint32) {
	o.onName(OpPause, name)
	o.Delay = delay
}

// StatsJob fills s with the statistics of a job.
func (o *Op) StatsJob(c ClientID, id JobID, s *JobStats) {
	o.onJob(OpStatsJob, c, id)
	o.JobStats = s
}

// StatsTube fills s with the statistics of a tube.
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

// The statuses. Each method of Op names the ones that its operation answers.
const (
	StatusOK Status = iota
	StatusReserved
	StatusFound
	StatusNotFound
	StatusTimedOut
	StatusDeadlineSoon
	StatusWaiting     // registered; the Waiter will be woken
	StatusElsewhere   // the best job here comes after Bound, or another shard may have a better job
	StatusMore        // the visit reached its bound: ask again
	StatusOutOfMemory // nothing was changed
	StatusFull        // the tube has as many jobs or bytes as it may; nothing was changed
	StatusInUse       // the function has workers or jobs; nothing was changed
	// A large body of Reply.N bytes must be recorded first; nothing was changed. The caller asks
	// again, with Op.Admitted, once the journal has admitted that many bytes.
	StatusUnadmitted
	StatusUnwanted // an operator's filter rejects the job
	StatusUnfit    // an operator's action does not apply to the job in its state
	StatusChanged  // the job has changed since the operator saw it
	StatusMoving   // an operator is moving the job
	StatusAwaited  // a client waits for the job's result
)

// Reply answers an Op. Body aliases the core's memory and is valid until the shard is released.
// A large body is in Large instead, and never changes.
type Reply struct {
	Status Status
	Kicked kicked
	Client ClientID
	Held   uint32 // jobs that Client holds here now
	Tube   TubeID
	N      uint32
	ID     JobID
	Face   *Face // of the tube that the operation uses or watches
	Body   []byte
	Large  Large
	Mirror *Mirror

	// Commit is the journal's commit that the reply must wait for: the commit of the operation's
	// records, and of the job that the reply shows. Zero: none.
	Commit uint64
}

// Home takes finished messages back to the event loop they came from.
// Post never blocks; it is called with no shard owned.
type Home interface {
	Post(*Message)
}

// A Message carries one Op to a busy shard, and its Reply back. Push passes ownership from the
// sender to the shard; the Home passes it back to the sender. A sender has at most one message
// in flight, so the queues are bounded by the number of clients.
type Message struct {
	Op    Op
	Reply Reply
	Home  Home
	Owner any // for the sender; this package does not read it
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

// Done gives the message's buffers back to their pool. The reply is not valid afterwards.
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
