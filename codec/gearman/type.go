package gearman

// A Type is the type of a packet, or Text.
type Type uint32

// The packets, with the arguments as in PROTOCOL. Each argument before "data" ends with a NUL; in
// a packet without data, all arguments but the last.
//
// A new packet needs a Type and its shape here, a case in check if an argument has a limit
// (parse.go), its reply (reply.go), its implementation (package router/gearmand), and a case in
// codec/conversation/testdata. A new line of text needs a Verb instead (admin.go).
const (
	Text              Type = 0  // no packet: a line of text
	CanDo             Type = 1  // function
	CantDo            Type = 2  // function
	ResetAbilities    Type = 3  //
	PreSleep          Type = 4  //
	Unused            Type = 5  // never defined
	Noop              Type = 6  //
	SubmitJob         Type = 7  // function, unique, data
	JobCreated        Type = 8  // handle
	GrabJob           Type = 9  //
	NoJob             Type = 10 //
	JobAssign         Type = 11 // handle, function, data
	WorkStatus        Type = 12 // handle, numerator, denominator
	WorkComplete      Type = 13 // handle, data
	WorkFail          Type = 14 // handle
	GetStatus         Type = 15 // handle
	EchoReq           Type = 16 // data
	EchoRes           Type = 17 // data
	SubmitJobBG       Type = 18 // as SubmitJob
	Error             Type = 19 // code, text
	StatusRes         Type = 20 // handle, known, running, numerator, denominator
	SubmitJobHigh     Type = 21 // as SubmitJob
	SetClientID       Type = 22 // id
	CanDoTimeout      Type = 23 // function, timeout
	AllYours          Type = 24 //
	WorkException     Type = 25 // handle, data
	OptionReq         Type = 26 // option
	OptionRes         Type = 27 // option
	WorkData          Type = 28 // handle, data
	WorkWarning       Type = 29 // handle, data
	GrabJobUniq       Type = 30 //
	JobAssignUniq     Type = 31 // handle, function, unique, data
	SubmitJobHighBG   Type = 32 // as SubmitJob
	SubmitJobLow      Type = 33 // as SubmitJob
	SubmitJobLowBG    Type = 34 // as SubmitJob
	SubmitJobSched    Type = 35 // function, unique, minute, hour, day, month, weekday, data
	SubmitJobEpoch    Type = 36 // function, unique, epoch, data
	SubmitReduceJob   Type = 37 // function, unique, reducer, ignored, data
	SubmitReduceJobBG Type = 38 // as SubmitReduceJob
	GrabJobAll        Type = 39 //
	JobAssignAll      Type = 40 // handle, function, unique, reducer, data
	GetStatusUnique   Type = 41 // unique
	StatusResUnique   Type = 42 // unique, known, running, numerator, denominator, clients
	NumTypes          Type = 43 // how many Types there are, for arrays indexed by Type
	maxArgs                = 7  // arguments of any packet, without its data
	reducerArg             = 2  // of a reduce job
)

// A direction is a set of receivers of a packet.
type direction uint8

const (
	toServer direction = 1 << iota
	toPeer
	toBoth = toServer | toPeer
)

// A shape is how a packet is built.
type shape struct {
	name string
	to   direction
	args uint8 // without the data
	data bool  // opaque data follows, and every argument ends with a NUL
}

// shapes is indexed by Type. Reduce jobs have four arguments, as observed and unlike PROTOCOL. No
// server has ever accepted ALL_YOURS.
var shapes = [NumTypes]shape{
	Text:              {"TEXT", 0, 0, false},
	CanDo:             {"CAN_DO", toServer, 1, false},
	CantDo:            {"CANT_DO", toServer, 1, false},
	ResetAbilities:    {"RESET_ABILITIES", toServer, 0, false},
	PreSleep:          {"PRE_SLEEP", toServer, 0, false},
	Unused:            {"UNUSED", 0, 0, false},
	Noop:              {"NOOP", toPeer, 0, false},
	SubmitJob:         {"SUBMIT_JOB", toServer, 2, true},
	JobCreated:        {"JOB_CREATED", toPeer, 1, false},
	GrabJob:           {"GRAB_JOB", toServer, 0, false},
	NoJob:             {"NO_JOB", toPeer, 0, false},
	JobAssign:         {"JOB_ASSIGN", toPeer, 2, true},
	WorkStatus:        {"WORK_STATUS", toBoth, 3, false},
	WorkComplete:      {"WORK_COMPLETE", toBoth, 1, true},
	WorkFail:          {"WORK_FAIL", toBoth, 1, false},
	GetStatus:         {"GET_STATUS", toServer, 1, false},
	EchoReq:           {"ECHO_REQ", toServer, 0, true},
	EchoRes:           {"ECHO_RES", toPeer, 0, true},
	SubmitJobBG:       {"SUBMIT_JOB_BG", toServer, 2, true},
	Error:             {"ERROR", toPeer, 2, false},
	StatusRes:         {"STATUS_RES", toPeer, 5, false},
	SubmitJobHigh:     {"SUBMIT_JOB_HIGH", toServer, 2, true},
	SetClientID:       {"SET_CLIENT_ID", toServer, 1, false},
	CanDoTimeout:      {"CAN_DO_TIMEOUT", toServer, 2, false},
	AllYours:          {"ALL_YOURS", 0, 0, false},
	WorkException:     {"WORK_EXCEPTION", toBoth, 1, true},
	OptionReq:         {"OPTION_REQ", toServer, 1, false},
	OptionRes:         {"OPTION_RES", toPeer, 1, false},
	WorkData:          {"WORK_DATA", toBoth, 1, true},
	WorkWarning:       {"WORK_WARNING", toBoth, 1, true},
	GrabJobUniq:       {"GRAB_JOB_UNIQ", toServer, 0, false},
	JobAssignUniq:     {"JOB_ASSIGN_UNIQ", toPeer, 3, true},
	SubmitJobHighBG:   {"SUBMIT_JOB_HIGH_BG", toServer, 2, true},
	SubmitJobLow:      {"SUBMIT_JOB_LOW", toServer, 2, true},
	SubmitJobLowBG:    {"SUBMIT_JOB_LOW_BG", toServer, 2, true},
	SubmitJobSched:    {"SUBMIT_JOB_SCHED", toServer, 7, true},
	SubmitJobEpoch:    {"SUBMIT_JOB_EPOCH", toServer, 3, true},
	SubmitReduceJob:   {"SUBMIT_REDUCE_JOB", toServer, 4, true},
	SubmitReduceJobBG: {"SUBMIT_REDUCE_JOB_BACKGROUND", toServer, 4, true},
	GrabJobAll:        {"GRAB_JOB_ALL", toServer, 0, false},
	JobAssignAll:      {"JOB_ASSIGN_ALL", toPeer, 4, true},
	GetStatusUnique:   {"GET_STATUS_UNIQUE", toServer, 1, false},
	StatusResUnique:   {"STATUS_RES_UNIQUE", toPeer, 6, false},
}

// String returns the packet's name in PROTOCOL, or "unknown".
func (t Type) String() string {
	if t >= NumTypes {
		return "unknown"
	}
	return shapes[t].name
}

// ToServer reports whether clients or workers send the packet.
func (t Type) ToServer() bool { return t < NumTypes && shapes[t].to&toServer != 0 }

// HasData reports whether the packet ends with opaque data. In any other packet, the bytes after
// the arguments must be discarded.
func (t Type) HasData() bool { return t < NumTypes && shapes[t].data }

// Submits reports whether the packet submits a job: priority and background
// are valid then. Scheduled jobs are normal background jobs.
func (t Type) Submits() (priority Priority, background, ok bool) {
	switch t {
	case SubmitJob, SubmitReduceJob:
		return Normal, false, true
	case SubmitJobHigh:
		return High, false, true
	case SubmitJobLow:
		return Low, false, true
	case SubmitJobBG, SubmitReduceJobBG, SubmitJobEpoch, SubmitJobSched:
		return Normal, true, true
	case SubmitJobHighBG:
		return High, true, true
	case SubmitJobLowBG:
		return Low, true, true
	}
	return 0, false, false
}
