package core

// A submission is what a submitted job has besides a job: 28 bytes without pointers.
type submission struct {
	Hash                  uint32 // of its unique id, or of its body
	Next                  uint32 // see UniqueTable
	Job                   uint32 // its job
	Unique, Reducer       uint32 // in the core's texts
	Followers             uint32 // index of its followers; zero: nobody
	UniqueLen, ReducerLen uint8
	Flags                 submissionFlags
}

// submissionFlags say what else a submitted job is.
type submissionFlags uint8

// The flags.
const (
	Background  submissionFlags = 1 << iota // it is done even if nobody waits for it
	byBody                                  // its unique id is its body
	indexed                                 // it is in the UniqueTable: others may join it
	cancelled                               // it runs, but is over for everybody else
	hasProgress                             // there is an entry for it among the core's progresses
)

// is reports whether x has the flag.
func (x *submission) is(f submissionFlags) bool { return x.Flags&f != 0 }
