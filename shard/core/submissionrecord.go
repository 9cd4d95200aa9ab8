package core

// A submission is the additional record of a submitted job: 28 bytes without pointers.
type submission struct {
	Hash                  uint32 // of its unique id, or of its body
	Next                  uint32 // see uniqueTable
	Job                   uint32 // its job
	Unique, Reducer       uint32 // in the core's texts
	Followers             uint32 // index of its followers; zero: none
	UniqueLen, ReducerLen uint8
	Flags                 submissionFlags
}

// submissionFlags are further properties of a submitted job.
type submissionFlags uint8

// The flags.
const (
	Background  submissionFlags = 1 << iota // it runs even if no client waits for it
	byBody                                  // its unique id is its body
	indexed                                 // it is in the uniqueTable: submissions can join it
	cancelled                               // it runs, but exists only for its worker
	hasProgress                             // it has an entry in submissions.progresses
)

// is reports whether x has the flag.
func (x *submission) is(f submissionFlags) bool { return x.Flags&f != 0 }
