package core

import "fmt"

// State is the place a job is in.
type State uint8

// The four states of a job. A job has none of them only while an operation moves it.
const (
	Nowhere State = iota
	Ready
	Delayed
	Reserved
	Buried
)

// String is the state's word in stats-job.
func (s State) String() string {
	switch s {
	case Ready:
		return "ready"
	case Delayed:
		return "delayed"
	case Reserved:
		return "reserved"
	case Buried:
		return "buried"
	}
	return "invalid"
}

// A Job is a pointer-free record in a slab, so that the collector has nothing
// to walk. Its State names the containers it is in:
//
//	Ready     a heap by (pri, id), and a list
//	Delayed   a heap by (the moment at which it is due, id), and a list
//	Reserved  its client's heap by (deadline, id), and a list
//	Buried    a list
//
// Since is when the job entered its state, and all lists are in the order of Since. The moment
// at which a delay or a reservation ends is only in the heap's entry.
// Source of the states: beanstalkd doc/protocol.txt.
type Job struct {
	ID              JobID
	Created         Time
	Since           Time
	Body            uint32 // slab reference, or for a large body its place in largeBodies
	Size            uint32 // bytes of the body
	Pri             uint32
	Delay           uint32 // seconds, as last set
	ttrOrSubmission uint32 // see TTR and Submission
	Tube            TubeID
	Client          ClientID // the client that reserved it; while it is Ready, its turn: see entry
	Prev            uint32   // list links; a job is in one list at most
	Next            uint32
	Pos             uint32 // index in its heap
	Hash            uint32 // next job in its bucket of the id table
	Reserves        uint32
	Timeouts        uint32
	Releases        uint32
	Buries          uint32
	Kicks           uint32
	State           State
	Flags           Flags

	commitHigh uint16 // see Commit
	commitLow  uint32
}

// Flags are further properties of a job.
type Flags uint8

// The flags.
const (
	flagLarge     Flags = 1 << iota // its body is too large for a slab
	flagSubmitted                   // it was submitted, not put: it has a submission
)

// BuriedBy is the reason for which a job is buried. It is in Flags, and in no record.
type BuriedBy uint8

// The reasons. After a restart only the reason BuriedByAttempts is known.
const (
	BuriedUnknown BuriedBy = iota
	BuriedByWorker
	BuriedByOperator
	BuriedByAttempts
	BuriedByExpiry
)

// buriedShift is the first bit of Flags with the BuriedBy, and buriedBits has all of them.
const (
	buriedShift       = 2
	buriedBits  Flags = 7 << buriedShift
)

func (j *Job) buriedBy() BuriedBy { return BuriedBy(j.Flags & buriedBits >> buriedShift) }

func (j *Job) setBuriedBy(by BuriedBy) { j.Flags = j.Flags&^buriedBits | Flags(by)<<buriedShift }

// isSubmitted reports whether the job was submitted to a function, not put.
func (j *Job) isSubmitted() bool { return j.Flags&flagSubmitted != 0 }

// ttr is the time to run, in seconds, of a job that was put. It shares its field with
// submission, since a submitted job has no time to run.
func (j *Job) ttr() uint32 { return j.ttrOrSubmission }

// setTTR sets the time to run, in seconds, of a job that was put.
func (j *Job) setTTR(seconds uint32) { j.ttrOrSubmission = seconds }

// submission is the index of a submitted job's submission record.
func (j *Job) submission() uint32 { return j.ttrOrSubmission }

// submit makes the job a submitted one, with the submission record of that index.
func (j *Job) submit(index uint32) {
	j.Flags |= flagSubmitted
	j.ttrOrSubmission = index
}

// mustBe panics unless the job is in state s.
func (j *Job) mustBe(s State) {
	if j.State != s {
		j.isElsewhere(s)
	}
}

// isElsewhere panics with the state of the job, which is not s.
//
//go:noinline
func (j *Job) isElsewhere(s State) {
	panic(fmt.Sprintf("store: job %d of tube %d, client %d: %s, not %s", j.ID, j.Tube, j.Client, j.State, s))
}

// Commit is the number under which the job's last full record is durable.
func (j *Job) Commit() uint64 { return uint64(j.commitHigh)<<32 | uint64(j.commitLow) }

// setCommit sets Commit; 48 bits are enough for a thousand commits a second over thousands of
// years.
func (j *Job) setCommit(n uint64) {
	j.commitLow, j.commitHigh = uint32(n), uint16(n>>32)
}
