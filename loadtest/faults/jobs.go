package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"polystalk/loadtest/bench"
)

// A token identifies a put: the body begins with the token as a stamp of package bench. Tokens
// count up from 1.
type token uint64

// minBody is the length of the shortest body, which is only a stamp.
const minBody = bench.StampLen

// A job is the record of one put, kept for the whole run.
type job struct {
	id       uint64 // 0: unknown
	gone     int64  // when DELETED arrived; 0: never
	reserved int64  // when the latest RESERVED was invoked
	hash     uint32
	size     uint32
	pri, ttr uint32
	tube     uint16
	is       marks
}

type marks uint16

const (
	isPut          marks = 1 << iota // the put was reported
	isAcknowledged                   // the put was acknowledged
	isRefused                        // the put was refused
	isForeign                        // of Gearman: the server chooses priority and TTR
	isDoubtful                       // an unanswered delete may have removed it, or may still do so
	isSeen                           // it existed at the end
)

// mustBe reports whether the job must exist.
func (j *job) mustBe() bool { return j.gone == 0 && j.is&(isAcknowledged|isDoubtful) == isAcknowledged }

const pageBits = 12

// A jobTable holds all jobs by token, and tokens by id. Jobs do not move.
type jobTable struct {
	pages []*[1 << pageBits]job
	ids   map[uint64]token
}

func (b *jobTable) at(t token) *job {
	for int(t>>pageBits) >= len(b.pages) {
		b.pages = append(b.pages, new([1 << pageBits]job))
	}
	return &b.pages[t>>pageBits][t&(1<<pageBits-1)]
}

// byID returns the first token with this id. If the id is new, it is t.
func (b *jobTable) byID(id uint64, t token) token {
	if first, ok := b.ids[id]; ok {
		return first
	}
	b.ids[id] = t
	return t
}

// A life holds further facts about a job, in addition to its record.
type life struct {
	holds []hold                // reservations without a reported end
	ops   []porcupine.Operation // all reservations, and the answers that prove or disprove them
	kicks kicks
	// told is the arrival of the latest answer that decides the job's state. A command invoked
	// before that proves nothing.
	told      int64
	buried    call // the answer to the bury; zero: the job may be in any state
	delayed   call // the answer that delayed it until due
	due       int64
	otherPris []uint32 // possible priorities in addition to the record's
}

// A hold is a reservation that a client got.
type hold struct {
	by    *holder
	until int64 // end of the TTR, after which the server may give the job to another client
}

// never is later than any other time.
const never = math.MaxInt64

// life returns the life of t, and creates it if necessary.
func (h *history) life(t token) *life {
	l := h.lives[t]
	if l == nil {
		l = new(life)
		h.lives[t] = l
	}
	return l
}

// certain records an answer that decides the job's state. It reports whether no other answer can be
// later.
func (l *life) certain(c call) bool {
	before := l.told
	l.told = max(before, c.answered)
	l.buried, l.delayed, l.due = call{}, call{}, 0
	return before < c.invoked
}

// Operations of the model of a job as a lock. Its state is the holder; nil: the job is free.
type lockOp uint8

const (
	acquire lockOp = iota // RESERVED: it was free
	expire                // the hold may end from now on: by its TTR, its connection, or another command
	release               // RELEASED or BURIED: it was held
	touch                 // TOUCHED: it was held
	remove                // DELETED: the client held it, or it was free
	kickJob               // KICKED: it was free
)

var lockNames = [...]string{"RESERVED", "end", "RELEASED or BURIED", "TOUCHED", "DELETED", "KICKED"}

type lockInput struct {
	op lockOp
	by *holder
}

var lockModel = porcupine.Model{
	Init: func() any { return (*holder)(nil) },
	Step: func(state, input, _ any) (bool, any) {
		held, in := state.(*holder), input.(lockInput)
		switch in.op {
		case acquire:
			return held == nil, in.by
		case expire:
			if held == in.by {
				held = nil
			}
			return true, held
		case release:
			return held == in.by, (*holder)(nil)
		case touch:
			return held == in.by, held
		case remove:
			return held == nil || held == in.by, (*holder)(nil)
		default:
			return held == nil, held
		}
	},
}

// observe adds an answered operation.
func (l *life) observe(op lockOp, by *holder, c call) {
	l.ops = append(l.ops, porcupine.Operation{Input: lockInput{op, by}, Call: c.invoked, Return: c.answered})
}

// checkHolds checks that an order of all operations explains the reservations. It stops without a
// result after a second.
func (h *history) checkHolds(t token, l *life) {
	for _, o := range l.holds { // their end was not reported
		l.observe(expire, o.by, call{min(o.by.alive, o.until), never})
	}
	if len(l.ops) > 2 && porcupine.CheckOperationsTimeout(lockModel, l.ops, time.Second) == porcupine.Illegal {
		var told strings.Builder
		for _, op := range l.ops {
			in := op.Input.(lockInput)
			fmt.Fprintf(&told, ", %s by %p %d to %d", lockNames[in.op], in.by, op.Call, op.Return)
		}
		h.violated(overlap, t, h.jobs.at(t).id, call{}, "no order explains what clients were told%s", &told)
	}
	l.ops = nil
}
