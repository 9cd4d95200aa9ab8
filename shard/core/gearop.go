package core

import "hash"

// The operations of Gearman sessions. A function is a tube; its workers are
// clients that watch it. Comments are as in op.go; where they say Gear, they
// name its fields.
const (
	// OpFunction makes the function Name, which then stays until OpDrop; others are
	// forgotten when nobody has used them for long. Name.
	OpFunction OpKind = iota + gearFirst
	// OpDrop forgets the function Name. Name. StatusNotFound, StatusInUse.
	OpDrop
	// OpLimit bounds the function Name, if there is one. Name, Gear: Limits.
	OpLimit
	// OpRegister makes a client a worker of the function Name, made if need be,
	// or gives it a new timeout. Client (zero: a new one), Name, Gear: Mail,
	// Timeout. Reply: Client, Tube, Face, Mirror, N: 1 if it was none,
	// Gear: Sleepers.
	OpRegister
	// OpUnregister ends that; jobs of the function that the client runs are
	// lost. It looks at a bounded number a visit: StatusMore asks for another with
	// Gear.Cursor as it is left. Client, Tube (zero: all functions), Gear: Cursor.
	OpUnregister
	// OpSubmit adds a job to the function Name, made if need be, or joins one.
	// Client (zero: a new one), Name, Pri, Body or Large, Gear: Mail, Numbers,
	// Background, ByBody, Unique, Reducer, Due. StatusFull, StatusOutOfMemory.
	// Reply: ID, Client if it waits for the job.
	OpSubmit
	// OpGrab takes the best ready job of the function Tube. Client, Tube, Bound.
	// StatusReserved, StatusElsewhere, StatusTimedOut. Reply: Gear: Unique,
	// Reducer.
	OpGrab
	// OpReport tells those who wait for a job that the client runs. Client, ID,
	// Body or Large, Gear: Relay, Numerator, Denominator. StatusNotFound. Reply: N
	// clients were told.
	OpReport
	// OpJobStatus: ID. OpUniqueStatus, which looks at a bounded number of jobs a
	// visit, however many functions there are: Gear: Unique, Cursor; StatusMore as
	// for OpFunctions, with a job or without. StatusNotFound. Reply: ID (zero: none),
	// Gear: Running, Numerator, Denominator, Clients.
	OpJobStatus
	OpUniqueStatus
	// OpCancelJob ends a job: who waits for it is told that it failed. One that
	// runs goes on unheard. ID. StatusNotFound.
	OpCancelJob
	// OpFunctions lists the functions, and the tubes with jobs; OpListJobs lists
	// jobs. They list a bounded number a visit: StatusMore asks for another with
	// Gear.Cursor as it is left. Gear: Cursor, Functions or Jobs.
	OpFunctions
	OpListJobs
)

// uniqueMax is the most bytes of a unique id or a reducer. Source: PROTOCOL of
// gearmand, and its GEARMAN_UNIQUE_SIZE.
const uniqueMax = 64

// Gear is what the operations of Gearman sessions carry besides Op and Reply. It
// belongs to the session; the core touches it only during Apply.
type Gear struct {
	Mail    *Mail
	Numbers Numbers

	Background bool
	ByBody     bool // joins a job with the same body that was submitted so too
	Due        Time // when the job may run; past or zero: at once
	Timeout    Time // how long a grabbed job may run; zero: as long as it takes
	Relay      RelayKind
	Limits     [NumClasses]uint32 // jobs of any class; zero: no limit

	Running                bool
	Numerator, Denominator uint32
	Clients                uint32 // submissions that wait
	Sleepers               *Sleepers

	Functions []FunctionStatus // appended to
	Jobs      []SubmittedJob   // appended to
	Cursor    uint64

	unique, reducer       [uniqueMax]byte
	uniqueLen, reducerLen uint8
}

// Unique and Reducer are good until the Gear's next operation.
func (g *Gear) Unique() []byte  { return g.unique[:g.uniqueLen] }
func (g *Gear) Reducer() []byte { return g.reducer[:g.reducerLen] }

// SetUnique and SetReducer copy at most 64 bytes, the longest there are.
func (g *Gear) SetUnique(b []byte)  { g.uniqueLen = uint8(copy(g.unique[:], b)) }
func (g *Gear) SetReducer(b []byte) { g.reducerLen = uint8(copy(g.reducer[:], b)) }

// Numbers gives out the server's next job id. It is called while the shard is
// owned, and only for a job that comes to be: one that joins another takes none.
type Numbers interface {
	NextID() JobID
}

// A Finisher is a Directory that hears of jobs that end without an OpDelete. It
// is called while the shard is owned, like a Directory.
type Finisher interface {
	JobFinished(JobID)
}

// GearOptions are how a core treats submitted jobs.
type GearOptions struct {
	// Retries is how often a job may lose its worker before it fails; zero: any
	// number of times.
	Retries uint32
	// Wakeup is how many sleeping workers hear of a job; zero: all.
	Wakeup int
	// BuryFailed keeps a background job that its worker fails, buried.
	BuryFailed bool
	// Hash is that of unique ids, the core's alone. With a seed of its own clients cannot
	// choose ids that all fall into one bucket, where each submission would look at all
	// of them; nothing else depends on it. Nil: xxhash, without a seed.
	Hash hash.Hash64
}

// Classes are the three priorities of a function among those of a tube.
const (
	ClassHigh = iota
	ClassNormal
	ClassLow
	NumClasses
)

// lowFrom is the first priority of ClassLow. ClassHigh is what is urgent.
const lowFrom = 1 << 31

// ClassLast is the last priority of each class.
var ClassLast = [NumClasses]uint32{urgentBelow - 1, lowFrom - 1, 1<<32 - 1}

func classOf(pri uint32) int {
	switch {
	case pri < urgentBelow:
		return ClassHigh
	case pri < lowFrom:
		return ClassNormal
	}
	return ClassLow
}

// ClassOf is the class of a priority.
func ClassOf(pri uint32) int { return classOf(pri) }

// A FunctionStatus counts one function's jobs and workers.
type FunctionStatus struct {
	Name    string
	Waiting [NumClasses]uint64 // ready or delayed
	Running uint64
	Workers uint64
}

// A SubmittedJob is one live job in a list.
type SubmittedJob struct {
	ID         JobID
	Lost       uint32
	Background bool
	Unique     string
}
