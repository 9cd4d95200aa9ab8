package core

import (
	"polystalk/shard/record"
	"polystalk/shard/stats"
)

// The operations of an operator, which read jobs without reserving them, and change jobs that
// belong to other clients or to none. The method of Op that makes an operation documents it.
// Each visit does a bounded amount of work. After StatusMore the caller repeats the operation,
// and must not change Operator.Cursor. Other operations may run between two visits.
const (
	opFlow        opKind = iota + operatorKinds // see AskFlow
	opTubes                                     // see ListTubes
	opHead                                      // see ListHead
	opList                                      // see ListArrivals
	opScan                                      // see ScanJobs
	opJob                                       // see AskJob
	opMany                                      // see ActOnMany
	opFlushStep                                 // see FlushStep
	opEdit                                      // see Edit
	opPutCopies                                 // see PutCopies
	opHeld                                      // see ListHeld
	opAskHolders                                // see AskHolders
	opPick                                      // see PickJobs
	opFlush                                     // see Flush
	opAskFlushed                                // see AskFlushed
	opSetPolicies                               // see SetPolicies
)

// The bounds of a visit. One unit of work is one job, or bodyUnit bytes of a body that are
// searched or copied.
const (
	visitWork = 2048
	bodyUnit  = 512
	rowsMax   = 1000 // rows of jobs
)

// TubesMost is the maximum number of rows of tubes that a visit appends. A caller that
// allocates them in advance avoids an allocation while the shard is owned.
const TubesMost = 1024

// An OperatorOp has the further arguments and results of an operator's operations. It belongs
// to the caller; the core touches it only during Apply. Rows are appended to its slices, so
// one OperatorOp serves many visits without garbage.
type OperatorOp struct {
	Flow   Flow
	Filter Filter
	Cursor Cursor
	Newest bool // ListArrivals shows the latest arrivals first
	Act    Action
	Limit  int    // maximum number of rows of a visit; zero or too large: the visit's own bound
	Body   uint32 // maximum number of bytes of each body in Bodies

	Tubes   []TubeRow
	Jobs    []JobRow
	Bodies  []byte // parts of bodies; see JobRow.BodyAt
	Looked  int    // jobs that this visit has examined
	Holders []Holder

	Flushed Flushed // by a Flush

	Results []Status // of an ActOnMany or PutCopies, one for each job
	Seen    Time     // when VerbRead or VerbTake made the rows, in core time
	Version uint64   // of the job of AskJob and Edit: it changes whenever the job changes

	policies *Policies // of SetPolicies

	ids   []JobID
	order []uint32 // of ListHead: positions in a heap
	work  int      // remaining work of the visit, for VerbPutBack
}

// A Cursor is the position of an operation in several visits. The caller may keep it for any
// time: it refers to nothing that must be freed. The zero Cursor is the beginning.
type Cursor struct {
	At    uint64 // index in a table of tubes, clients or records
	Since Time   // of the last job of a list that was shown
	Last  JobID  // the last job of a list that was shown
	// Near are jobs before Last. If Last has left the list, its place is found from them. They
	// are the last few jobs that were shown, or one that an earlier search has reached.
	Near [4]JobID
}

// A Filter selects jobs; a zero field selects all.
type Filter struct {
	States           States
	MinID, MaxID     JobID
	EnteredBy        Time // latest moment at which the job entered its state, in core time
	CreatedBy        Time // latest moment at which the job was put
	Contains         []byte
	LargeAreSearched bool // the caller searches large bodies itself: Contains selects all of them
}

// States is a set of states; none means all.
type States uint8

// StatesOf is the set of some states.
func StatesOf(list ...State) (s States) {
	for _, x := range list {
		s |= 1 << x
	}
	return s
}

// Has reports whether s has a state.
func (s States) Has(x State) bool { return s == 0 || s&(1<<x) != 0 }

// A Verb is what an operator does to jobs.
type Verb uint8

// The verbs, with the states to which they apply. Reserved jobs are changed only if
// Action.Force is set. A job to which a verb does not apply is not changed.
const (
	VerbDelete  Verb = iota + 1 // any; the followers of a submitted job are told that it failed
	VerbKick                    // buried, delayed
	VerbBury                    // ready, delayed, reserved; followers as for VerbDelete
	VerbRelease                 // reserved: it is ready again, and its worker's later commands fail
	VerbTouch                   // reserved: its time to run restarts
	VerbSet                     // any: its priority, its delay, its time to run

	// The verbs of a move or a copy; see move.go.
	VerbRead    // any: it is appended to OperatorOp.Jobs, with its body
	VerbTake    // ready, delayed, buried: VerbRead, and the job is taken until VerbPutBack or VerbDrop
	VerbPutBack // taken: it returns to its old place. Put back the jobs that were taken last first
	VerbDrop    // taken: it ends
)

// An Action is a change of jobs.
type Action struct {
	Verb    Verb
	Changes Changes // of VerbSet and Edit: the properties that change
	Force   bool    // also change reserved jobs
	Pri     uint32
	Delay   uint32 // seconds from now; for a ready or delayed job. Zero: it becomes ready
	TTR     uint32 // seconds, from the next reservation or touch on; for a job that was put
}

// Changes is the set of a job's properties that change.
type Changes uint8

// The changes; only Edit accepts ChangeBody.
const (
	ChangePri Changes = 1 << iota
	ChangeDelay
	ChangeTTR
	ChangeBody
)

// actMax is how many jobs an operator may change in a visit: each change costs a command's time.
const actMax = 256

// A TubeRow is one tube of a list.
type TubeRow struct {
	TubeStats
	ID       TubeID
	Slot     uint16
	Function bool
	Bytes    uint64 // of bodies
	Oldest   Time   // age of the oldest ready job; zero: there is none
	Events   [stats.Events]uint64
	Held     Held
	Policy   *record.Policy // nil: none
	Policed  [PolicyEvents]uint64
}

// A JobRow is one job of a list.
type JobRow struct {
	JobStats
	TubeID   TubeID
	Client   ClientID // the client that has reserved it, or zero
	Conn     uint64   // the number of that client's connection; zero: it has none
	Since    Time     // when it entered its state, in core time
	InState  Time     // how long ago that was
	Size     uint32   // bytes of the body
	BodyAt   int      // start of the body's part in OperatorOp.Bodies
	BodySize int
	Large    Large // a large body, instead of a part; it never changes
	Moving   bool  // an operator is moving it: it is Reserved, but by no client
	BuriedBy BuriedBy
}

// onOperator begins an operation of an operator.
func (o *Op) onOperator(k opKind, name []byte, x *OperatorOp) {
	o.onName(k, name)
	o.Operator = x
	x.Looked = 0
}

// AskFlow fills x.Flow with the flow of a tube, or of the whole core if name is nil. It appends the
// tube to x.Tubes.
func (o *Op) AskFlow(name []byte, x *OperatorOp) { o.onOperator(opFlow, name, x) }

// ListTubes appends the tubes to x.Tubes, from x.Cursor on. A tube that is made or forgotten
// between two visits may be missing.
func (o *Op) ListTubes(x *OperatorOp) { o.onOperator(opTubes, nil, x) }

// ListHead appends the first jobs of a tube in a state to x.Jobs: ready jobs in serving order,
// delayed ones in the order in which they are due, buried ones in the order of burial, which
// is the order of a kick. There is only one visit. x.Filter is not read.
func (o *Op) ListHead(name []byte, s State, x *OperatorOp) {
	o.onOperator(opHead, name, x)
	o.N = uint32(s)
}

// ListArrivals appends the jobs of a tube in a state, but not Reserved, that match x.Filter, in
// the order in which they entered it, from x.Cursor on. Jobs that enter meanwhile come last. If
// the job of the cursor has left the list, its place is found by its moment. Then a job with
// the same moment may be shown twice or be missing.
func (o *Op) ListArrivals(name []byte, s State, x *OperatorOp) {
	o.onOperator(opList, name, x)
	o.N = uint32(s)
}

// ScanJobs appends the jobs that match x.Filter to x.Jobs, from x.Cursor on: of one tube, or of
// all if name is nil. A job that lives and matches from the first visit to the last is shown
// exactly once, whatever its state meanwhile.
func (o *Op) ScanJobs(name []byte, x *OperatorOp) { o.onOperator(opScan, name, x) }

// PickJobs is like ScanJobs for jobs with known ids. A job in another tube counts as no job.
// x.Cursor.At counts the ids that the visits have processed, and x.Looked the ids of this visit
// with an existing job.
func (o *Op) PickJobs(name []byte, ids []JobID, x *OperatorOp) {
	o.onOperator(opPick, name, x)
	x.ids = ids
}

// AskJob appends one job to x.Jobs, and sets x.Version. The version is the same until the job
// changes; it is only valid for this core in this process.
func (o *Op) AskJob(id JobID, x *OperatorOp) {
	o.onOperator(opJob, nil, x)
	o.ID = id
}

// ActOnMany applies x.Act to at most 256 jobs, and appends the status of each to x.Results, in
// their order. StatusOK; StatusNotFound; StatusUnwanted: it does not match x.Filter;
// StatusInUse: it is reserved, and Force is not set; StatusUnfit: the verb does not apply to
// its state, or the change does not apply to submitted jobs; StatusUnadmitted as for Bury.
// Reply: N, the number of jobs with StatusOK.
//
// A job that an operator is moving has StatusMoving, except for VerbRead, VerbPutBack and
// VerbDrop. VerbRead and VerbTake have more statuses. StatusAwaited, of VerbTake: the job was
// submitted, and a client waits for its result. StatusUnadmitted: its body is large, and the
// caller must set Op.Admitted to at least its size. StatusMore, also for VerbPutBack, is the
// last of x.Results: the visit ended before this job, and the caller asks again for the rest.
func (o *Op) ActOnMany(ids []JobID, x *OperatorOp) {
	o.onOperator(opMany, nil, x)
	x.ids = ids
	o.Admitted = 0
	x.Results = x.Results[:0]
}

// Edit changes one job if its version is expect; zero accepts any version. If x.Act.Changes
// has ChangeBody, the new body is body or large. StatusChanged: the job has another version;
// StatusInUse, StatusMoving and StatusUnfit as for ActOnMany; StatusOutOfMemory. With any of
// them nothing was changed.
func (o *Op) Edit(id JobID, expect uint64, body []byte, large Large, x *OperatorOp) {
	o.onOperator(opEdit, nil, x)
	o.ID, o.Body, o.Large = id, body, large
	o.Seq = expect
}

// PutCopies puts copies of the jobs in x.Jobs into a tube, which is made if need be, with their
// bodies as they were at x.Seen. A copy has the original's age, counters, priority, time to run
// and remaining delay, and is ready, delayed or buried like it; a copy of a reserved job is
// ready. Its id is at the same index in ids, at most 256, and it enters its state now. A
// copy of a submitted job is a job that was put. x.Results gets StatusOK, StatusFull or
// StatusOutOfMemory for each. The name has 1 to 255 bytes, the maximum in a record of a put.
// x.Act.Verb is the verb that has read the jobs: after VerbTake they are moved, no job is
// counted as put, and no tube is full. Reply: Tube, N, the number of copies.
func (o *Op) PutCopies(name []byte, ids []JobID, x *OperatorOp) {
	o.onOperator(opPutCopies, name, x)
	x.ids = ids
	x.Results = x.Results[:0]
}
