package core

import "polystalk/shard/stats"

// The operations of an operator, which read jobs without reserving them, and change jobs that
// belong to other clients or to none. The method of Op that makes an operation documents it.
// Each visit does a bounded amount of work: StatusMore asks for the same operation again, with
// Operator.Cursor as it is. Other operations may run between two visits.
const (
	opFlow       opKind = iota + operatorKinds // see AskFlow
	opTubes                                    // see ListTubes
	opHead                                     // see ListHead
	opList                                     // see ListArrivals
	opScan                                     // see ScanJobs
	opJob                                      // see AskJob
	opMany                                     // see ActOnMany
	opFlushStep                                // see FlushStep
	opEdit                                     // see Edit
	opPutCopies                                // see PutCopies
	opHeld                                     // see ListHeld
	opAskHolders                               // see AskHolders
	opPick                                     // see PickJobs
	opFlush                                    // see Flush
	opAskFlushed                               // see AskFlushed
)

// What a visit may do, in units of work: to look at a job is one, and so is each bodyUnit
// bytes of a body that are searched or copied.
const (
	visitWork = 2048
	bodyUnit  = 512
	rowsMax   = 1000 // rows of jobs in a visit
)

// TubesMost is the most rows of tubes that a visit appends. A caller that allocates them
// before avoids an allocation while the shard is owned.
const TubesMost = 1024

// An OperatorOp has the further arguments and results of an operator's operations. It belongs
// to the caller; the core touches it only during Apply. Rows are appended to its slices, so
// one OperatorOp serves many visits without garbage.
type OperatorOp struct {
	Flow   Flow
	Filter Filter
	Cursor Cursor
	Newest bool // ListArrivals begins with those that came last
	Act    Action
	Limit  int    // rows wanted in a visit; zero, or too many: as many as a visit gives
	Body   uint32 // bytes of each body that are wanted

	Tubes   []TubeRow
	Jobs    []JobRow
	Bodies  []byte // what JobRow.Body tells of
	Looked  int    // jobs that were looked at in this visit
	Holders []Holder

	Flushed Flushed // by a Flush

	Results []Status // what became of each job of an ActOnMany or PutCopies
	Seen    Time     // when the rows of VerbRead and VerbTake were, in core time
	Version uint64   // of the job of AskJob and Edit: another whenever anything about it is

	ids   []JobID
	order []uint32 // of ListHead: positions in a heap
	work  int      // what is left of a visit's for VerbPutBack
}

// A Cursor says how far an operation in several visits has come. It is a value: it may be
// kept as long as one likes, and holds nothing. The zero Cursor is the beginning.
type Cursor struct {
	At    uint64 // in a table: of tubes, of clients, of records
	Since Time   // of the last job of a list that was shown
	Last  JobID  // that job
	// Near are jobs before that one, from which its place is found if it has gone from the
	// list: the last few that were shown, or one that a visit has passed which looked for it.
	Near [4]JobID
}

// A Filter says which jobs are wanted; zero fields want all.
type Filter struct {
	States           States
	MinID, MaxID     JobID
	EnteredBy        Time // those that were in their state by then already, in core time
	CreatedBy        Time // those that were put by then
	Contains         []byte
	LargeAreSearched bool // by the asker: Contains leaves large bodies to it, which never change
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

// The verbs. Each says to which states it applies; what workers hold is left alone unless
// Action.Force is set, and a job to which it does not apply is as it was.
const (
	VerbDelete  Verb = iota + 1 // any; a submitted one fails for its followers
	VerbKick                    // buried, delayed
	VerbBury                    // ready, delayed, reserved; a submitted one fails for its followers
	VerbRelease                 // reserved: it is ready again, and its worker's word is not heard any more
	VerbTouch                   // reserved: its time to run begins anew
	VerbSet                     // any: its priority, its delay, its time to run

	// Those of a move or a copy; see move.go.
	VerbRead    // any: it is appended to OperatorOp.Jobs, with its body
	VerbTake    // ready, delayed, buried: it is read, and nobody's until one of the next two
	VerbPutBack // taken: it is where it was. Those that were taken last are to be put back first
	VerbDrop    // taken: it is gone
)

// An Action is what is to be done to jobs.
type Action struct {
	Verb    Verb
	Changes Changes // of VerbSet and Edit: which of those that follow
	Force   bool    // also to jobs that are reserved
	Pri     uint32
	Delay   uint32 // seconds from now; of a ready or delayed job. Zero: it is ready
	TTR     uint32 // seconds, from the next reservation or touch on; of a job that was put
}

// Changes are what of a job is to be changed.
type Changes uint8

// The changes; a new body is Edit's alone.
const (
	ChangePri Changes = 1 << iota
	ChangeDelay
	ChangeTTR
	ChangeBody
)

// actMax is how many jobs an operator may change in a visit: each costs as much as a command.
const actMax = 256

// A TubeRow is one tube of a list.
type TubeRow struct {
	TubeStats
	ID       TubeID
	Slot     uint16
	Function bool
	Bytes    uint64 // of bodies
	Oldest   Time   // how long the job has been ready that has been so for longest; else zero
	Events   [stats.Events]uint64
}

// A JobRow is one job of a list.
type JobRow struct {
	JobStats
	TubeID   TubeID
	Client   ClientID // the client that has reserved it, or zero
	Conn     uint64   // the number of that one's connection; zero: it has none
	Since    Time     // when it entered its state, in core time
	InState  Time     // how long ago that was
	Size     uint32   // bytes of the body
	BodyAt   int      // where what was wanted of it begins in OperatorOp.Bodies
	BodySize int
	Large    Large // instead, of a large one; it never changes
	Moving   bool  // an operator has taken it, to move it: it is Reserved, and no client's
}

// onOperator begins an operation of an operator.
func (o *Op) onOperator(k opKind, name []byte, x *OperatorOp) {
	o.onName(k, name)
	o.Operator = x
	x.Looked = 0
}

// AskFlow fills x.Flow with what has passed through a tube, or with nil for a name through
// the whole core.
func (o *Op) AskFlow(name []byte, x *OperatorOp) { o.onOperator(opFlow, name, x) }

// ListTubes appends the tubes to x.Tubes, from x.Cursor on. One that comes or goes meanwhile
// may or may not be there.
func (o *Op) ListTubes(x *OperatorOp) { o.onOperator(opTubes, nil, x) }

// ListHead appends the first jobs of a tube in a state to x.Jobs: ready jobs in serving order,
// delayed ones in the order in which they are due, buried ones in the order of burial, which
// is the order of a kick. One visit is all. x.Filter is not read.
func (o *Op) ListHead(name []byte, s State, x *OperatorOp) {
	o.onOperator(opHead, name, x)
	o.N = uint32(s)
}

// ListArrivals appends the jobs of a tube in a state, but not Reserved, that match x.Filter, in
// the order in which they entered it, from x.Cursor on. Jobs that enter meanwhile come last. If
// the job of the cursor has left, its place is found by its moment; of several jobs with the
// same moment one may be shown twice or left out then.
func (o *Op) ListArrivals(name []byte, s State, x *OperatorOp) {
	o.onOperator(opList, name, x)
	o.N = uint32(s)
}

// ScanJobs appends the jobs that x.Filter wants to x.Jobs, of one tube or with nil of all,
// from x.Cursor on. A job that is there and wanted from the first visit to the last is
// shown exactly once, wherever it moves meanwhile.
func (o *Op) ScanJobs(name []byte, x *OperatorOp) { o.onOperator(opScan, name, x) }

// PickJobs is like ScanJobs for jobs with known ids, in any tube. x.Cursor.At counts the ids
// that the visits have reached, and x.Looked the ids of this visit with an existing job.
func (o *Op) PickJobs(ids []JobID, x *OperatorOp) {
	o.onOperator(opPick, nil, x)
	x.ids = ids
}

// AskJob appends one job to x.Jobs, and tells its x.Version. The version is the same as long
// as nothing about the job has changed; another core, or process, has others.
func (o *Op) AskJob(id JobID, x *OperatorOp) {
	o.onOperator(opJob, nil, x)
	o.ID = id
}

// ActOnMany does x.Act to jobs, at most 256: x.Results says of each what became of it, in
// their order. StatusOK; StatusNotFound; StatusUnwanted: x.Filter does not want it, perhaps
// no longer; StatusInUse: it is reserved, and Force is not set; StatusUnfit: it is not in a
// state to which the verb applies, or it is submitted, and the change is not for such;
// StatusUnadmitted as for Bury. Reply: N, to how many jobs it was done.
//
// A job that is taken to be moved is StatusMoving for all verbs but those that end that. To
// VerbRead and VerbTake a job may be StatusAwaited: it was submitted, and somebody waits for
// what comes of it; StatusUnadmitted: its body is large, and Op.Admitted is for as many bytes
// as it may have. StatusMore, of VerbPutBack as well, is the last of x.Results: the visit has
// come to its end there, and the rest is to be asked for again.
func (o *Op) ActOnMany(ids []JobID, x *OperatorOp) {
	o.onOperator(opMany, nil, x)
	x.ids = ids
	o.Admitted = 0
	x.Results = x.Results[:0]
}

// Edit changes one job, unless its version is not the one expected; zero expects any. A new
// body, of x.Act.Changes, is body or large. StatusChanged: it has another version;
// StatusInUse, StatusUnfit as for ActOnMany, and StatusOutOfMemory: nothing was changed.
func (o *Op) Edit(id JobID, expect uint64, body []byte, large Large, x *OperatorOp) {
	o.onOperator(opEdit, nil, x)
	o.ID, o.Body, o.Large = id, body, large
	o.Seq = expect
}

// PutCopies puts copies of the jobs in x.Jobs into a tube, which is made if need be, with their
// bodies as they were at x.Seen. A copy has the original's age, counters, priority, time to run
// and remaining delay, and is ready, delayed or buried like it; a copy of a reserved job is
// ready. It has the id at its place in ids, at most 256, and its wait begins now. A submitted
// job becomes a background job that no client can join. x.Results has StatusOK or
// StatusOutOfMemory for each. The name has 1 to 255 bytes, the most in a record of a put.
// x.Act.Verb is the verb that has read the jobs: after VerbTake they are moved, and no job is
// counted as put. Reply: Tube, N, the number of copies.
func (o *Op) PutCopies(name []byte, ids []JobID, x *OperatorOp) {
	o.onOperator(opPutCopies, name, x)
	x.ids = ids
	x.Results = x.Results[:0]
}
