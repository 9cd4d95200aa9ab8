package main

import (
	"fmt"
	"math"
	"slices"
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
	pri, ttr uint32 // of the put; 0 if Gearman's server chooses them
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

// A life has what happened to a job, in addition to its record.
type life struct {
	begun int64
	holds []hold                // reservations without a reported end
	ops   []porcupine.Operation // their inputs are *op; the first is the put
}

// A hold is a reservation that a client got.
type hold struct {
	by    *holder
	until int64 // end of the TTR, after which the server may give the job to another client
}

// never is later than any other time.
const never = math.MaxInt64

// life returns the life of t, and creates it if necessary. at is a time before anything happened to
// the job, except that it was put.
func (h *history) life(t token, at int64) *life {
	l := h.lives[t]
	if l == nil {
		l = &life{begun: at}
		l.observe(op{kind: opPut, pri: h.jobs[t].pri}, call{math.MinInt64, math.MinInt64 + 1})
		h.lives[t] = l
	}
	return l
}

// An op is what a client was told about a job, or what may have happened to it.
type op struct {
	kind  opKind
	by    *holder // the client's connection
	doubt bool    // it has no answer, and perhaps no effect
	pri   uint32  // after a put, a release or a bury
	due   int64   // of a put or a release: end of the delay; of a reserve or a sight: latest time at which it took effect
	// kicked is set for a reserve or a sight if any number of kicks may have made the job ready.
	kicked bool
	state  string // of a sight
	dies   bool   // of a sight: a policy may have buried it
}

type opKind uint8

const (
	opPut opKind = iota
	opReserve
	opEnd // the hold may end from now on: by its TTR, its connection, or another command
	opRelease
	opBury
	opTouch
	opDelete
	opKick
	opNotFound // of a client that had reserved the job
	opSight    // stats-job at the end of the run
)

var opNames = [...]string{"put", "RESERVED", "end", "RELEASED", "BURIED", "TOUCHED", "DELETED", "KICKED", "NOT_FOUND", "stats-job"}

// A state is the state of a job in the model that must explain what clients were told.
type state struct {
	by     *holder // nil: not reserved
	buried bool
	due    int64 // end of the delay; 0: none
	pri    uint32
}

// after returns the state after in, and whether in is possible in s.
func (s state) after(in *op) (state, bool) {
	mine := s.by != nil && s.by == in.by
	ready := in.kicked || !s.buried && s.due <= in.due
	switch in.kind {
	case opPut:
		return state{pri: in.pri, due: in.due}, true
	case opReserve:
		return state{by: in.by, pri: s.pri}, s.by == nil && ready
	case opEnd:
		if mine {
			s.by = nil
		}
		return s, true
	case opRelease, opBury:
		if !mine {
			return s, in.doubt
		}
		return state{buried: in.kind == opBury, due: in.due, pri: in.pri}, true
	case opTouch:
		return s, mine
	case opNotFound:
		return s, !mine
	case opDelete, opKick:
		if s.by != nil && (!mine || in.kind == opKick) {
			return s, in.doubt
		}
		return state{pri: s.pri}, true
	}
	// An unanswered reserve may have taken the job if the server has not noticed yet that the
	// connection has ended.
	fits := map[string]bool{"ready": s.by == nil && ready, "reserved": s.by != nil || ready, "buried": s.buried || in.dies && s.by == nil, "delayed": s.due != 0}
	return s, fits[in.state] && s.pri == in.pri
}

var jobModel = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, _ any) (bool, any) {
		next, ok := s.(state).after(in.(*op))
		return ok, next
	},
}

// observe adds what took effect between the times of c, if at all.
func (l *life) observe(o op, c call) {
	l.ops = append(l.ops, porcupine.Operation{Input: &o, Call: c.invoked, Return: c.answered})
}

// lastKick returns the index of the last kick in doubt.
func (l *life) lastKick() int {
	for i, o := range slices.Backward(l.ops) {
		if in := o.Input.(*op); in.kind == opKick && in.doubt {
			return i
		}
	}
	return -1
}

// judge checks that an order of all operations explains what clients were told. It stops without a
// result after a second.
func (h *history) judge(t token, l *life) {
	for _, o := range l.holds { // their end was not reported
		l.observe(op{kind: opEnd, by: o.by}, call{min(o.by.alive, o.until), never})
	}
	if h.dies(&h.jobs[t]) {
		h.count(t, l)
	}
	if porcupine.CheckOperationsTimeout(jobModel, l.ops, time.Second) == porcupine.Illegal {
		var told strings.Builder
		for _, o := range l.ops {
			in := o.Input.(*op)
			fmt.Fprintf(&told, ", %s %s by %p %d to %d, %+v", opNames[in.kind], in.state, in.by, o.Call, o.Return, *in)
		}
		h.violated(unexplained, t, h.jobs[t].id, call{}, "no order explains what clients were told%s", &told)
	}
	l.ops = nil
}
