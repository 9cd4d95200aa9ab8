package conversation

import (
	"math/rand/v2"
	"slices"
)

// An action is one command of a history. The player draws everything but Op from Seed when it sends
// the command. Then it knows which jobs exist, so most commands find a job, also in a shrunk
// history.
type action struct {
	Op   int // an index of the protocol's operations
	Seed uint64
}

func (a action) rand() *rand.Rand { return rand.New(rand.NewPCG(a.Seed, 1)) }

// An eventKind is what a connection does in an event.
type eventKind int

// The kinds of events.
const (
	eventSend      eventKind = iota // send Actions in one write and as many more as there are Cuts
	eventClose                      // close
	eventReset                      // close, and discard unread bytes
	eventHalfClose                  // shut down the sending side, and read on to the end
	eventQuit                       // send what ends the connection
	eventDie                        // send the beginning of a command, and close
	eventPart                       // send the beginning of a command; the rest follows with the next event
)

// An event is what one connection does in one step.
type event struct {
	Conn    int
	Kind    eventKind
	Actions []action
	Cuts    []uint32
}

// A history is a random conversation of several connections. The player leaves out commands that
// cannot be compared, so any subset of a history's events is a history.
type history struct {
	Seed   uint64
	Conns  int
	Names  []string // tubes or functions
	Flags  []string // for both servers
	Soon   bool     // jobs have a second to run
	Events []event
}

// A style has the parameters of random histories of a protocol.
type style struct {
	weights []int // how often each operation is drawn
	often   []often
	burst   int                                           // permille of the events that send several commands
	cuts    bool                                          // commands are sent in pieces
	draw    func(h *history, r *rand.Rand, weights []int) // draws all but the events, and may change the weights
}

// often is the number of events of a kind in a thousand events. All other events send.
type often struct {
	kind     eventKind
	permille int
}

func (p *Protocol) style() *style {
	if p == Gearman {
		return &gearmanStyle
	}
	return &beanstalkStyle
}

func weightsOf[T any](ops []T, weight func(T) int) (all []int) {
	for _, o := range ops {
		all = append(all, weight(o))
	}
	return all
}

// newHistory draws a history of at least n commands. The same seed gives the same history.
func newHistory(p *Protocol, seed uint64, n int) history {
	r := rand.New(rand.NewPCG(seed, 0x706c6179))
	h := history{Seed: seed}
	weights := slices.Clone(p.style().weights)
	p.style().draw(&h, r, weights)
	sum := 0
	for _, w := range weights {
		sum += w
	}
	for n > 0 {
		e, length := event{Conn: r.IntN(h.Conns)}, 1
		k := r.IntN(1000)
		for _, o := range p.style().often {
			if k -= o.permille; k < 0 {
				e.Kind = o.kind
				break
			}
		}
		switch {
		case e.Kind != eventSend:
			length = 0
		case e.Kind == eventSend && r.IntN(1000) < p.style().burst:
			length = 2 + r.IntN(7)
		}
		for range length {
			a := action{Seed: r.Uint64()}
			for k := r.IntN(sum) - weights[0]; k >= 0; k -= weights[a.Op] {
				a.Op++
			}
			e.Actions = append(e.Actions, a)
		}
		for p.style().cuts && (r.IntN(4) == 0 || (e.Kind == eventPart || e.Kind == eventDie) && len(e.Cuts) == 0) {
			e.Cuts = append(e.Cuts, r.Uint32())
		}
		n -= max(1, length)
		h.Events = append(h.Events, e)
	}
	return h
}

// shrink looks for a smaller history for which fails still holds, by leaving out ever
// smaller runs of events and then single commands. It calls fails at most budget times.
func shrink(h history, budget int, fails func(history) bool) history {
	try := func(events []event) bool {
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
	for run := max(1, len(h.Events)/2); run > 0; run /= 2 {
		for i := 0; i < len(h.Events); {
			if !try(slices.Delete(slices.Clone(h.Events), i, min(i+run, len(h.Events)))) {
				i += run
			}
		}
	}
	for i := 0; i < len(h.Events); i++ {
		for j := 0; j < len(h.Events[i].Actions) && len(h.Events[i].Actions) > 1; {
			events := slices.Clone(h.Events)
			events[i].Actions = slices.Delete(slices.Clone(events[i].Actions), j, j+1)
			if !try(events) {
				j++
			}
		}
	}
	return h
}
