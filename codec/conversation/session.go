package conversation

import (
	"math/rand/v2"
	"strings"
)

// An Op is a command of a random session.
type Op int

const (
	OpPut Op = iota
	OpPutBadEnd
	OpPutTooBig
	OpReserve // blocks
	OpReserveNow
	OpReserveLong // reserve-with-timeout, long enough to block
	OpReserveJob
	OpDelete
	OpRelease
	OpBury
	OpTouch
	OpKick
	OpKickJob
	OpPeek
	OpPeekReady
	OpPeekDelayed
	OpPeekBuried
	OpUse
	OpWatch
	OpIgnore
	OpStats
	OpStatsJob
	OpStatsTube
	OpListTubes
	OpListUsed
	OpListWatched
	OpPause
	OpUnpause
	OpMalformed
)

// weights says how often each Op is drawn.
var weights = [...]int{
	OpPut: 22, OpPutBadEnd: 1, OpPutTooBig: 1, OpReserve: 8, OpReserveNow: 10, OpReserveLong: 3, OpReserveJob: 4,
	OpDelete: 10, OpRelease: 7, OpBury: 6, OpTouch: 3, OpKick: 5, OpKickJob: 3,
	OpPeek: 2, OpPeekReady: 2, OpPeekDelayed: 2, OpPeekBuried: 2, OpUse: 8, OpWatch: 7, OpIgnore: 5,
	OpStats: 2, OpStatsJob: 4, OpStatsTube: 4, OpListTubes: 3, OpListUsed: 1, OpListWatched: 2, OpPause: 2, OpUnpause: 4, OpMalformed: 5,
}

// blocks tells the ops that may wait.
func (op Op) blocks() bool { return op == OpReserve || op == OpReserveLong }

// wakes tells the ops that may serve somebody who waits.
func (op Op) wakes() bool {
	switch op {
	case OpPut, OpRelease, OpKick, OpKickJob, OpUnpause:
		return true
	}
	return false
}

// An Action is one command, with its job still symbolic: Pick is resolved
// against what is known when the command is sent, so that most commands find a
// job to work on and a shrunk session stays meaningful.
type Action struct {
	Op                    Op
	Tube                  int
	Pick                  uint32
	Pri, Delay, TTR, Size uint32
	sent                  string // the bytes it became
}

// A Kind of event in a session.
type EventKind int

const (
	EventSend      EventKind = iota // Actions in one write
	EventClose                      // close
	EventHalfClose                  // shut down the sending side, read on to the end
	EventQuit                       // quit
	EventDieInBody                  // a put that is never finished, then close
)

// An Event is what one connection does in one step of a session.
type Event struct {
	Conn    int
	Kind    EventKind
	Actions []Action
}

// A Session is a random conversation of several connections. Its events may
// ask for what cannot be compared (a command on a connection that waits, two
// connections waiting on one tube); Pair.Play passes over those, so any subset
// of a session's events is a session.
type Session struct {
	Seed   uint64
	Conns  int
	Tubes  int
	Soon   bool // jobs have one second to run: holding one means DEADLINE_SOON
	Events []Event
}

var tubeNames = [...]string{"default", "a", "mail.out", "x-1/2;3+(4)$_", "0", strings.Repeat("long", 50)}

// NewSession draws a session of at least n commands. The same seed gives the
// same session.
func NewSession(seed uint64, n int) Session {
	r := rand.New(rand.NewPCG(seed, 0x7075742072657365))
	s := Session{Seed: seed, Conns: 1 + r.IntN(5), Tubes: 1 + r.IntN(len(tubeNames)), Soon: r.IntN(8) == 0}
	for n > 0 {
		e := Event{Conn: r.IntN(s.Conns)}
		switch k := r.IntN(100); {
		case k < 2:
			e.Kind = EventClose
		case k < 3:
			e.Kind = EventHalfClose
		case k == 3 && r.IntN(2) == 0:
			e.Kind = EventQuit
		case k == 4 && r.IntN(2) == 0:
			e.Kind = EventDieInBody
		case k < 16: // a burst
			for range 2 + r.IntN(8) {
				e.Actions = append(e.Actions, drawAction(r, s, false))
			}
		default:
			a := drawAction(r, s, true)
			e.Actions = []Action{a}
			if a.Op.blocks() && r.IntN(3) == 0 { // commands behind it
				for range 1 + r.IntN(4) {
					e.Actions = append(e.Actions, drawAction(r, s, false))
				}
			}
		}
		n -= max(1, len(e.Actions))
		s.Events = append(s.Events, e)
	}
	return s
}

func drawAction(r *rand.Rand, s Session, mayBlock bool) Action {
	total := 0
	for _, w := range weights {
		total += w
	}
	var op Op
	for {
		k := r.IntN(total)
		for op = 0; k >= weights[op]; op++ {
			k -= weights[op]
		}
		if mayBlock || !op.blocks() {
			break
		}
	}
	a := Action{Op: op, Tube: r.IntN(s.Tubes), Pick: r.Uint32(), TTR: 100 + uint32(r.IntN(1000))}
	if s.Soon && r.IntN(2) == 0 {
		a.TTR = uint32(r.IntN(2)) // 0 becomes 1
	}
	switch r.IntN(8) {
	case 0:
		a.Pri = []uint32{0, 1023, 1024, 1<<31 - 1, 1 << 31, 1<<32 - 1}[r.IntN(6)]
	default:
		a.Pri = uint32(r.IntN(6))
	}
	if r.IntN(4) == 0 {
		a.Delay = []uint32{1000, 2000, 3000, 1<<32 - 1}[r.IntN(4)]
	}
	switch r.IntN(12) {
	case 0:
		a.Size = 0
	case 1:
		a.Size = uint32(r.IntN(65536))
	default:
		a.Size = uint32(r.IntN(200))
	}
	return a
}

// oneReply are lines that are answered with exactly one line and change
// nothing but, at most, a counter. None has 223 bytes: a line end across the
// edge of the reference's window is not seen.
var oneReply = []string{
	"nonsense", "", " ", "put", "put ", "put 1 2 3", "put -1 0 0 0", "put 0 0 0 0 x", "put 4294967296 0 0 0", "put 0 0 0 x",
	"reserve ", "reservex", "reserve-job ", "reserve-job x", "reserve-job 0", "reserve-job 18446744073709551615", "delete", "delete ", "delete x", "delete 0",
	"delete 18446744073709551616", "release 1", "release 1 2", "release x 0 0", "release 0 0 0", "bury 1", "bury x 1", "bury 0 0", "touch", "touch ", "touch x", "touch 0",
	"use", "use ", "use -a", "use a b", "use a!", "watch", "watch -", "watch a\tb", "ignore ", "ignore \x00", "ignore nosuchtube", "peek ", "peek x", "peek 0",
	"peek-ready ", "peek-delayedx", "peek-buried 1", "peek-", "kick x", "kick ", "kick 18446744073709551616", "kick-job x", "kick-job 0", "stats ", "statsx", "stats-job ", "stats-job x",
	"stats-job 0", "stats-tube ", "stats-tube nosuchtube", "stats-tube -", "list-tubes ", "list-tubes-watched x", "list-tube-usedx", "list-tube", "pause-tube", "pause-tube default",
	"pause-tube default x", "pause-tube nosuchtube 5", "pause-tubenosuchtube 5", "pause-tube -x 5", "Stats", "STATS", "qui", "\n", "stats\n", "list-tubes\x00", "\x00",
	strings.Repeat("x", 222), strings.Repeat("x", 224), strings.Repeat("x", 300), "use " + strings.Repeat("x", 201), "use " + strings.Repeat("x", 300),
}

// oneReply113 are lines on which references before 1.13 disagree.
var oneReply113 = []string{
	"reserve-with-timeout", "reserve-with-timeout ", "reserve-with-timeout x", "reserve-with-timeout -1", "reserve-with-timeout 2147483648", "reserve-with-timeout 4294967296",
	"reserve-with-timeout +0", "reserve-with-timeout \t0",
}
