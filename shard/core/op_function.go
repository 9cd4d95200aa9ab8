package core

// The operations on functions and on submitted jobs. A function is a tube that a client has
// named to submit jobs to it or to work for it. Its workers are clients that watch it. The
// method of Op that makes an operation documents it.
const (
	opCreateFunction opKind = iota + functionKinds // see CreateFunction
	opDropFunction                                 // see DropFunction
	opLimitFunction                                // see LimitFunction
	opRegister                                     // see Register
	opUnregister                                   // see Unregister
	opSubmit                                       // see Submit
	opGrab                                         // see Grab
	opReport                                       // see Report and ReportStatus
	opJobStatus                                    // see JobStatus
	opUniqueStatus                                 // see UniqueStatus
	opCancelJob                                    // see CancelJob
	opListFunctions                                // see ListFunctions
	opListJobs                                     // see ListJobs

	operatorKinds // the kinds of op_operator.go begin here
)

// uniqueMax is the most bytes of a unique id or a reducer. Source: PROTOCOL of
// gearmand, and its GEARMAN_UNIQUE_SIZE.
const uniqueMax = 64

// FunctionOp has the further arguments and results of operations on functions. It belongs to
// the session, which sets Mail; the core uses it only during Apply.
type FunctionOp struct {
	Mail    *Mail   // notifies the session of results of its jobs, and of jobs to run
	Numbers Numbers // for a new job

	Background bool
	ByBody     bool // joins a job with the same body that was submitted by body too
	Due        Time // when the job may run; past or zero: at once
	Timeout    Time // how long a grabbed job may run; zero: as long as it takes
	Relay      RelayKind
	Limits     [NumClasses]uint32 // jobs of any class; zero: no limit

	Running                bool
	Numerator, Denominator uint32    // the job's progress as its worker reported it
	Clients                uint32    // submissions that wait for the job
	Sleepers               *Sleepers // of the function

	Functions []functionStatus // appended to
	Jobs      []submittedJob   // appended to
	Cursor    uint64           // progress of an operation in several visits

	// Visible hides jobs and functions from JobStatus, UniqueStatus, CancelJob and both lists, as if
	// they did not exist. It is given the name of the tube. Nil: nothing is hidden.
	Visible func(tube string) bool

	unique, reducer       [uniqueMax]byte
	uniqueLen, reducerLen uint8
}

// Unique is good until the next operation.
func (f *FunctionOp) Unique() []byte { return f.unique[:f.uniqueLen] }

// Reducer is good until the next operation.
func (f *FunctionOp) Reducer() []byte { return f.reducer[:f.reducerLen] }

// setUnique copies at most 64 bytes, the longest there are.
func (f *FunctionOp) setUnique(b []byte) { f.uniqueLen = uint8(copy(f.unique[:], b)) }

// setReducer copies at most 64 bytes, the longest there are.
func (f *FunctionOp) setReducer(b []byte) { f.reducerLen = uint8(copy(f.reducer[:], b)) }

// CreateFunction makes the function, which then stays until DropFunction. Functions that were
// not created so are forgotten after functionRest without use.
func (o *Op) CreateFunction(name []byte) { o.onName(opCreateFunction, name) }

// DropFunction forgets the function. It may answer StatusInUse.
func (o *Op) DropFunction(name []byte) { o.onName(opDropFunction, name) }

// LimitFunction sets the limits of an existing function: with most[class] jobs of any class
// it takes no more jobs of that class. Zero is no limit.
func (o *Op) LimitFunction(name []byte, most [NumClasses]uint32) {
	o.onName(opLimitFunction, name)
	o.Function.Limits = most
}

// Register makes c a worker of the function, which is made if need be; c is zero for a new
// client. If c is a worker already, it gets a new timeout: a job that it grabs there loses its
// worker after that time, or never if it is zero. A new worker that is asleep is added to the
// function's Sleepers. Reads Function: Mail. Reply: Client, Tube, Face, Mirror, N (1 if the
// worker is new), Function: Sleepers. It may answer StatusOutOfMemory.
func (o *Op) Register(c ClientID, name []byte, timeout Time, asleep bool) {
	o.set(opRegister, c, name, nil, nil)
	o.Function.Timeout = timeout
	if o.N = 0; asleep {
		o.N = 1
	}
}

// Unregister ends Register for a function; zero: for all functions. Jobs of the function that
// c runs lose their worker, a bounded number per visit: after StatusMore the caller repeats the
// operation, and must not change Function.Cursor.
func (o *Op) Unregister(c ClientID, t TubeID) {
	o.set(opUnregister, c, nil, nil, nil)
	o.Tube = t
	o.Function.Cursor = 0
}

// A SubmitRequest is what a client submits. Apply reads its slices and does not keep them, except
// Large: the core keeps it, and the caller must not write to it again.
type SubmitRequest struct {
	Function        []byte
	Pri             uint32
	Body            []byte
	Large           Large // instead of Body if that is longer than slab.MaxSize
	Unique, Reducer []byte
	Background      bool // the job runs even if no client waits for it
	ByBody          bool // it joins a job with the same body that was submitted by body too
	Due             Time // when the job may run; past or zero: at once
	Numbers         Numbers
}

// Submit adds a job to a function, which is made if need be, or joins one with the same unique id;
// c is zero for a new client. Reads Function: Mail, unless in the background. Reply: ID; Client, if
// it waits for the job. StatusFull, StatusOutOfMemory, It may answer StatusUnadmitted.
func (o *Op) Submit(c ClientID, s *SubmitRequest) {
	o.set(opSubmit, c, s.Function, s.Body, s.Large)
	o.Pri, o.Admitted = s.Pri, 0
	f := o.Function
	f.Background, f.ByBody, f.Due, f.Numbers = s.Background, s.ByBody, s.Due, s.Numbers
	f.setUnique(s.Unique)
	f.setReducer(s.Reducer)
}

// Grab takes the best ready job of a function for its worker c, unless the job comes after
// bound. StatusReserved, StatusElsewhere, StatusTimedOut. Reply: ID, Body or Large, Function:
// Unique, Reducer.
func (o *Op) Grab(c ClientID, t TubeID, bound Key) {
	o.set(opGrab, c, nil, nil, nil)
	o.Tube, o.Bound = t, bound
}

// Report sends a report of worker c to the followers of its job. Reply: N, their number.
func (o *Op) Report(c ClientID, id JobID, k RelayKind, body []byte, large Large) {
	o.set(opReport, c, nil, body, large)
	o.ID = id
	o.Function.Relay = k
}

// ReportStatus is Report for the job's progress; body is the progress as the worker sent it.
func (o *Op) ReportStatus(c ClientID, id JobID, numerator, denominator uint32, body []byte) {
	o.Report(c, id, RelayStatus, body, nil)
	o.Function.Numerator, o.Function.Denominator = numerator, denominator
}

// JobStatus asks for a job's progress. A job that c follows is not hidden. Reply: ID, Function:
// Running, Numerator, Denominator, Clients.
func (o *Op) JobStatus(c ClientID, id JobID) { o.onJob(opJobStatus, c, id) }

// UniqueStatus is JobStatus for the newest job with that unique id, of any function. A visit
// looks at a bounded number of jobs, for any number of functions: after StatusMore the caller
// repeats the operation, and must not change Function.Cursor. The reply of a visit is about
// the jobs of that visit; Reply.ID is zero if it found none.
func (o *Op) UniqueStatus(c ClientID, unique []byte) {
	o.set(opUniqueStatus, c, nil, nil, nil)
	o.Function.setUnique(unique)
	o.Function.ByBody, o.Function.Cursor = false, 0
}

// CancelJob ends a job: its followers are told that it failed. If a worker runs it, the
// worker's reports go to no client.
func (o *Op) CancelJob(id JobID) { o.onJob(opCancelJob, 0, id) }

// ListFunctions appends the functions, and the tubes with jobs, to Function.Functions: a
// bounded number per visit. StatusMore as for UniqueStatus.
func (o *Op) ListFunctions() {
	o.set(opListFunctions, 0, nil, nil, nil)
	o.Function.Cursor = 0
}

// ListJobs is ListFunctions for jobs and Function.Jobs.
func (o *Op) ListJobs() {
	o.set(opListJobs, 0, nil, nil, nil)
	o.Function.Cursor = 0
}
