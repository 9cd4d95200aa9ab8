package gearmantest

import (
	"math/rand/v2"
	"strings"
)

// An Op is a request of a random history.
type Op int

// The requests. Some stand for several packets or lines, of which Action.Pick
// chooses one.
const (
	OpCanDo Op = iota
	OpCanDoTimeout
	OpCantDo
	OpReset
	OpPreSleep
	OpGrab
	OpSubmit
	OpReduce
	OpEpoch
	OpStatus
	OpComplete
	OpFail
	OpException
	OpData
	OpWarning
	OpGetStatus
	OpGetStatusUnique
	OpOption
	OpSetID
	OpEcho
	OpList
	OpText
	OpMaxQueue
	OpCancel
	OpCreate
	OpDrop
	OpRefused // answered by an ERROR
	OpBad     // ends the connection
	NumOps    // how many Ops there are
)

// weights says how often each Op is drawn.
var weights = [NumOps]int{
	OpCanDo: 9, OpCanDoTimeout: 3, OpCantDo: 2, OpReset: 1, OpPreSleep: 9, OpGrab: 20,
	OpSubmit: 24, OpReduce: 4, OpEpoch: 3,
	OpStatus: 4, OpComplete: 9, OpFail: 4, OpException: 3, OpData: 4, OpWarning: 2,
	OpGetStatus: 4, OpGetStatusUnique: 4, OpOption: 1, OpSetID: 1, OpEcho: 2,
	OpList: 3, OpText: 3, OpMaxQueue: 2, OpCancel: 3, OpCreate: 1, OpDrop: 2, OpRefused: 3, OpBad: 1,
}

// An Action is one request. What it is about is still symbolic: Function is an
// index of History.Functions, and Pick is resolved against what is known when the
// request is sent, so that most find a job to be about and a shrunk history stays
// meaningful.
type Action struct {
	Op       Op
	Function int
	Pick     uint32
	Size     int // of a workload that is not one of the short ones; zero: a short one
}

// A Kind says what an event is.
type Kind int

// The events.
const (
	EventSend  Kind = iota // Actions, pipelined, in as many writes as there are Cuts and one
	EventPart              // the beginning of a request, whose rest follows with the next event
	EventDie               // the beginning of a submission, then close
	EventClose             // close
	EventReset             // close the hard way
)

// An Event is what one connection does in one step.
type Event struct {
	Conn    int
	Kind    Kind
	Actions []Action
	Cuts    []uint32
}

// A History is a random conversation of several connections, each of which may be
// client, worker and administrator. Its events may ask for what cannot be
// compared; the player passes over those, so that any subset of a history's events
// is a history.
type History struct {
	Seed      uint64
	Conns     int
	Functions []string
	Opts      []string // of the servers, in gearmand's words
	Events    []Event
}

// functionNames are what histories choose from. Two that differ in letter case
// only are left out: which of them drop function takes is gearmand's hash table's.
var functionNames = [...]string{
	"f", "reverse", "default", "", "mail.out/1", "two words", "\xff\xc3\xbc", strings.Repeat("long", 75), "-", "\"quoted\"",
}

// NewHistory draws a history of at least n requests. The same seed gives the same
// history.
func NewHistory(seed uint64, n int) History {
	r := rand.New(rand.NewPCG(seed, 0x6765617266756e63))
	h := History{Seed: seed, Conns: 2 + r.IntN(5)}
	for _, i := range r.Perm(len(functionNames))[:1+r.IntN(4)] {
		h.Functions = append(h.Functions, functionNames[i])
	}
	if k := r.IntN(6); k < 3 {
		h.Opts = append(h.Opts, "--job-retries", string(rune('1'+k)))
	}
	if r.IntN(6) == 0 {
		h.Opts = append(h.Opts, "--exceptions")
	}
	if k := r.IntN(8); k < 2 {
		h.Opts = append(h.Opts, "--worker-wakeup", string(rune('1'+k)))
	}
	weights := weights
	switch r.IntN(3) {
	case 0: // few jobs, for which workers mostly wait
		for _, op := range []Op{OpSubmit, OpReduce, OpEpoch} {
			weights[op] = (weights[op] + 3) / 4
		}
		weights[OpCanDo] *= 2
		weights[OpPreSleep] *= 3
	case 1: // many workers that are lost
		weights[OpCanDo] *= 2
		weights[OpCantDo] *= 3
		weights[OpGrab] *= 2
	}
	for n > 0 {
		e := Event{Conn: r.IntN(h.Conns)}
		length := 1
		switch k := r.IntN(100); {
		case k < 4:
			e.Kind, length = EventClose, 0
		case k < 5:
			e.Kind, length = EventReset, 0
		case k < 6:
			e.Kind = EventDie
		case k < 10:
			e.Kind = EventPart
		case k < 30:
			length = 2 + r.IntN(6)
		}
		for range length {
			e.Actions = append(e.Actions, newAction(r, len(h.Functions), &weights))
		}
		for r.IntN(4) == 0 || e.Kind == EventPart && len(e.Cuts) == 0 {
			e.Cuts = append(e.Cuts, r.Uint32())
		}
		n -= max(1, length)
		h.Events = append(h.Events, e)
	}
	return h
}

func newAction(r *rand.Rand, functions int, weights *[NumOps]int) Action {
	a := Action{Function: r.IntN(functions), Pick: r.Uint32()}
	if r.IntN(20) == 0 {
		a.Size = 1 + r.IntN(20000)
	}
	if r.IntN(200) == 0 {
		a.Size = 1 + r.IntN(400000)
	}
	sum := 0
	for _, w := range weights {
		sum += w
	}
	for k := r.IntN(sum); ; a.Op++ {
		if k -= weights[a.Op]; k < 0 {
			return a
		}
	}
}

// shrink looks for a smaller history for which fails still holds, by leaving out
// ever smaller runs of events and then single requests. It calls fails at most
// budget times.
func shrink(h History, budget int, fails func(History) bool) History {
	try := func(events []Event) bool {
		if budget == 0 {
			return false
		}
		budget--
		smaller := h
		smaller.Events = events
		if !fails(smaller) {
			return false
		}
		h = smaller
		return true
	}
	without := func(from, to int) []Event {
		return append(append([]Event(nil), h.Events[:from]...), h.Events[to:]...)
	}
	for run := max(1, len(h.Events)/2); run > 0; run /= 2 {
		for i := 0; i < len(h.Events); {
			if !try(without(i, min(i+run, len(h.Events)))) {
				i += run
			}
		}
	}
	for i := 0; i < len(h.Events); i++ {
		for j := 0; j < len(h.Events[i].Actions) && len(h.Events[i].Actions) > 1; {
			e := h.Events[i]
			e.Actions = append(append([]Action(nil), e.Actions[:j]...), e.Actions[j+1:]...)
			if !try(append(append(without(i, len(h.Events)), e), h.Events[i+1:]...)) {
				j++
			}
		}
	}
	return h
}
