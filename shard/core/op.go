package core

// Time is a moment in nanoseconds, or a length of time. The core only ever gets it as
// an argument; it begins with the time of day at the start, and see moment.go.
type Time int64

// Second is one second of Time; the wire speaks seconds, the core nanoseconds.
const Second Time = 1e9

// Never is later than every deadline.
const Never Time = 1<<63 - 1

// JobID names a job over the whole server: 1, 2, 3 … in the order in which
// the put lines parse. Zero names no job.
type JobID uint64

// TubeID and ClientID are handles that one core gave out; they mean nothing
// to another. Zero is none. A TubeID is good while its holder uses or watches
// the tube, a ClientID until OpClose.
type (
	TubeID   uint32
	ClientID uint32
)

// State is the place a job is in.
type State uint8

// The four states of a job.
const (
	Ready State = iota + 1
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

// OpKind says what an Op asks for.
type OpKind uint8

// The operations of a core. Comments name the fields of Op they read beyond
// Kind, and the statuses they answer beyond StatusOK.
const (
	OpNone OpKind = iota

	// OpJoin makes a client that uses and watches the tube Name.
	// Name, Waiter. Reply: Client, Tube, Face. StatusOutOfMemory.
	OpJoin
	// OpUse uses the tube Name, made if need be, and lets go of Tube where
	// that is not zero. Name, Tube. Reply: Tube, Face.
	OpUse
	// OpUnuse lets go of the used tube. Tube.
	OpUnuse
	// OpWatch adds the tube Name to the client's watch list; the caller knows
	// that it is not on it yet. Client (zero: a new one), Waiter, Name,
	// Mirror. Reply: Client, Tube, Face, Mirror. StatusOutOfMemory.
	OpWatch
	// OpMirror asks for the published best key of a watched tube. Tube.
	// Reply: Mirror.
	OpMirror
	// OpIgnore takes a tube from the watch list. Client, Tube.
	OpIgnore
	// OpReturn makes the client's reserved jobs ready again, a bounded number
	// a visit: StatusMore asks for another. Client.
	OpReturn
	// OpClose forgets a client: it no longer waits, its reserved jobs are ready
	// again, its watch list is empty, it no longer uses Tube. Bounded like
	// OpReturn. Client, Tube.
	OpClose

	// OpPut adds a job. Tube, ID, Pri, Delay, TTR, Body or Large.
	// StatusOutOfMemory.
	OpPut
	// OpReserve takes the best ready job of the watched tubes here.
	// Client, Bound; Wait, Multi, Until, Seq. StatusReserved, StatusElsewhere,
	// StatusDeadlineSoon, StatusTimedOut (nothing here, and Wait is not set or,
	// with Multi, the wait is over), StatusWaiting. With Multi, the first three end
	// the wait Seq, which is closed, or zero; the others leave it as it is here.
	OpReserve
	// OpCancel takes a waiting client out of the queues. Client.
	OpCancel
	// OpReserveJob takes the job ID. Client (zero: a new one), Waiter, ID.
	// StatusReserved, StatusNotFound. Reply: Client.
	OpReserveJob
	// OpDelete … OpTouch: ID, Client and what the command carries.
	// StatusNotFound.
	OpDelete
	OpRelease
	OpBury
	OpTouch
	// OpKick kicks up to N jobs of Tube; StatusMore (with Reply.N so far) asks
	// for another visit with KickMore set, KickDelayed as replied and N less.
	OpKick
	// OpKickJob kicks the buried or delayed job ID. StatusNotFound.
	OpKickJob
	// OpPeek: ID. OpPeekReady, OpPeekDelayed, OpPeekBuried: Tube.
	// StatusFound, StatusNotFound.
	OpPeek
	OpPeekReady
	OpPeekDelayed
	OpPeekBuried
	// OpPause keeps reserve from the tube Name for Delay. StatusNotFound.
	OpPause
	// OpStatsJob: ID. OpStatsTube: Name. OpStats: nothing. They fill the
	// matching pointer of Op. StatusNotFound.
	OpStatsJob
	OpStatsTube
	OpStats

	// Those of Gearman sessions are in gearop.go.
	gearFirst
)

// Op is one operation on one core. Slices are only read during Apply, except
// Large: the core keeps it, and the caller must not write to it again.
type Op struct {
	Kind        OpKind
	Wait        bool
	Multi       bool // it concerns other shards too: ask the Waiter's Guard
	Mirror      bool
	KickMore    bool
	KickDelayed bool
	Client      ClientID
	Tube        TubeID
	ID          JobID
	Pri         uint32
	N           uint32
	Admitted    uint32 // bytes; see StatusUnadmitted
	Delay, TTR  uint32 // seconds
	Name        []byte
	Body        []byte // at most slab.MaxSize bytes
	Large       Large  // a body longer than that, instead of Body
	Bound       Key
	Until       Time // when a waiting reserve gives up, in time awake (moment.go); Never for plain reserve
	Seq         uint64
	Waiter      *Waiter
	JobStats    *JobStats
	TubeStats   *TubeStats
	Counts      *Counts
	Gear        *Gear // of the operations from gearFirst on
}

// Status is the outcome of an Op.
type Status uint8

// Outcomes; op kinds say which of them they give.
const (
	StatusOK Status = iota
	StatusReserved
	StatusFound
	StatusNotFound
	StatusTimedOut
	StatusDeadlineSoon
	StatusWaiting     // registered; the Waiter will be woken
	StatusElsewhere   // the best job here is above Bound, or another shard may have a better one
	StatusMore        // bounded work: ask again
	StatusOutOfMemory // nothing was changed
	StatusFull        // the function has as many jobs as it may; nothing was changed
	StatusInUse       // the function has workers or jobs; nothing was changed
	// A large body that was not recorded so far would be, of Reply.N bytes; nothing was
	// changed. Ask again, with Op.Admitted, once the journal has let so many in.
	StatusUnadmitted
)

// Reply answers an Op. Body aliases the core's memory: it is good until the
// shard is released; a Large body is instead of it, and never changes.
type Reply struct {
	Status      Status
	KickDelayed bool
	Client      ClientID
	Held        uint32 // jobs that Client holds here now
	Tube        TubeID
	N           uint32
	ID          JobID
	Face        *Face // of a tube that is used or watched now
	Body        []byte
	Large       Large
	Mirror      *Mirror

	// Commit is the number of the journal's commit on which the reply depends:
	// that of its own record, and of the job it shows. Zero: on none.
	Commit uint64
}

// Key orders ready jobs: the smaller priority first, then the older job.
type Key struct {
	Pri uint32
	ID  JobID
}

// MaxKey is not before any job's key.
var MaxKey = Key{1<<32 - 1, 1<<64 - 1}

// Less reports whether a job with key k is to be reserved before one with l.
func (k Key) Less(l Key) bool {
	return k.Pri < l.Pri || k.Pri == l.Pri && k.ID < l.ID
}

// Directory hears which tubes come and go, in the order in which they do; it
// serves list-tubes. Both are called while the shard is owned: they must not
// block on anything that waits for a shard.
type Directory interface {
	TubeAdded(name string)
	TubeRemoved(name string)
}

// A Directory that is a BodyHearer hears of large bodies that no job has any more,
// under the same terms.
type BodyHearer interface {
	BodyFreed(Large)
}

// JobStats is what stats-job tells.
type JobStats struct {
	ID                                          JobID
	Tube                                        string
	State                                       State
	Pri, Delay, TTR                             uint32 // seconds
	Age, TimeLeft                               Time
	Reserves, Timeouts, Releases, Buries, Kicks uint32
	Commit                                      uint64 // of the journal's, with all of it; see Reply.Commit
}

// TubeStats is what stats-tube tells.
type TubeStats struct {
	Name                                     string
	Urgent, Ready, Reserved, Delayed, Buried uint64
	Using, Watching, Waiting                 uint64
	Total, Deletes, Pauses                   uint64
	Pause, PauseLeft                         Time
}

// Counts sums up one core, for the server's stats.
type Counts struct {
	Urgent, Ready, Reserved, Delayed, Buried uint64
	Total, Timeouts                          uint64
	Tubes, Clients                           uint64
	MappedBytes                              uint64 // memory outside the collector's heap
}

// Add adds d to c, for sums over shards.
func (c *Counts) Add(d *Counts) {
	c.Urgent += d.Urgent
	c.Ready += d.Ready
	c.Reserved += d.Reserved
	c.Delayed += d.Delayed
	c.Buried += d.Buried
	c.Total += d.Total
	c.Timeouts += d.Timeouts
	c.Tubes += d.Tubes
	c.Clients += d.Clients
	c.MappedBytes += d.MappedBytes
}
