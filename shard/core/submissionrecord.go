package core

// A Submission is what a submitted job has besides a job: 28 bytes without pointers.
type Submission struct {
	Hash                  uint32 // of its unique id, or of its body
	Next                  uint32 // see UniqueTable
	Job                   uint32 // its job
	Unique, Reducer       uint32 // in the core's texts
	Followers             uint32 // index of its followers; zero: nobody
	UniqueLen, ReducerLen uint8
	Flags                 SubmissionFlags
}

// SubmissionFlags say what else a submitted job is.
type SubmissionFlags uint8

// The flags.
const (
	Background  SubmissionFlags = 1 << iota // it is done even if nobody waits for it
	ByBody                                  // its unique id is its body
	Indexed                                 // it is in the UniqueTable: others may join it
	Cancelled                               // it runs, but is over for everybody else
	HasProgress                             // there is an entry for it among the core's progresses
)

// Is reports whether x has the flag.
func (x *Submission) Is(f SubmissionFlags) bool { return x.Flags&f != 0 }
