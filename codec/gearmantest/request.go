package gearmantest

import (
	"fmt"
	"slices"
	"strings"
)

// A request is an action as it is sent.
type request struct {
	bytes  string
	alone  bool      // nothing may be pipelined with it
	ends   bool      // the server closes
	list   string    // of which list the answer is
	job    *knownJob // what JOB_CREATED will be for
	cancel *knownJob
	loses  bool // jobs lose their worker
}

var (
	uniques  = [...]string{"", "", "-", "-", "u", "u", "v", "w", strings.Repeat("x", 63)}
	bodies   = [...]string{"", "a", "b", "a\x00b", "line\r\n.\r\n"}
	reducers = [...]string{"", "r", "reduce", strings.Repeat("y", 63)}
	numbers  = [...]string{"0", "1", "50", "100", "1.5", "abc", "-1", "4294967296", "", " 7", "+3"}
	timeouts = [...]string{"1000000", "0", "-1", "soon", "4000000", "99999999"}
	epochs   = [...]string{"4000000000", "4000000000", "4100000000", "0", "1", "-5", "soon", ""}
	options  = [...]string{"exceptions", "EXCEPTIONS", "exceptions\x00", "bogus", "", strings.Repeat("x", 70)}
	clients  = [...]string{"me", "worker-1", strings.Repeat("i", 200), "\xff"}
	lines    = [...]string{
		"version", "getpid", "verbose", "VERSION now", "bogus", "", "show", "show foo", "show unique foo", "cancel", "cancel job", "cancel foo bar",
		"maxqueue", "create", "create function", "create foo bar", "drop", "drop function", "drop foo bar", "GET / now", "  status", "gladiator",
		"bogus\x00word", "create function a b", "maxqueue nobody 1", "cancel job x", "show jobs now",
	}
	// What GC-013, GC-014 and GC-007 refuse.
	refused = [...]string{
		packet(5), packet(24), packet(6), packet(8, "h"), packet(10), packet(11, "h", "f", "d"), packet(17, "x"), packet(19, "c", "t"),
		packet(20, "h", "1", "1", "1", "1"), packet(27, "exceptions"), packet(31, "h", "f", "u", "d"), packet(40, "h", "f", "u", "r", "d"),
		packet(42, "u", "1", "1", "1", "1", "1"), "\x00RES" + packet(16, "hi")[4:], "\x00RES" + packet(18, "f", "u", "d")[4:], "\x00RES" + packet(9)[4:],
		packet(18, "f", strings.Repeat("u", 65), "x"), packet(21, "f", strings.Repeat("u", 300), "x"), packet(37, "f", "u", strings.Repeat("r", 65), "", "x"),
		packet(14, strings.Repeat("h", 64)),
	}
	// What ends the connection. Types from 0x80000000 end gearmand (tag I).
	bad = [...]string{
		"\x00REX" + packet(16, "hi")[4:], "\x00\x00\x00\x00" + packet(16, "hi")[4:], packet(0), packet(43), packet(0x7fffffff, "x"),
		"one two three four five six\n", "maxqueue f 1 2 3 4\r\n", strings.Repeat("x", 9000) + "\n",
	}
)

func of[T any](all []T, pick uint32) T { return all[int(pick)%len(all)] }

// workload is a short text, or one of a.Size bytes.
func (a Action) workload() string {
	if a.Size == 0 {
		return of(bodies[:], a.Pick>>8)
	}
	b := make([]byte, a.Size)
	for i := range b {
		b[i] = byte(i*7 + int(a.Pick>>8))
	}
	return string(b)
}

// handle picks a job: mostly one that i runs if held is asked for, else mostly one
// that there is.
func (k *known) handle(i int, pick uint32, held bool) string {
	var mine, all []string
	for _, j := range k.jobs {
		if j.gone {
			continue
		}
		all = append(all, j.handle)
		if j.holder == i {
			mine = append(mine, j.handle)
		}
	}
	switch die := pick >> 28; {
	case held && len(mine) > 0 && die < 14:
		return of(mine, pick)
	case len(all) > 0 && die < 15:
		return of(all, pick)
	}
	return of([]string{defaultPrefix + ":9999", defaultPrefix + ":0", defaultPrefix, "", "H:other:1", defaultPrefix + ":1x", strings.Repeat("h", 63)}, pick)
}

// request renders an action of connection i, and takes in what it does where that
// needs no answer. Not ok: it cannot be compared. behind says that others are
// pipelined before it.
//
// Never sent, all of tag I, are: too few arguments, for which gearmand waits;
// handles and uniques of 64 bytes where it answers nothing or garbage; "create
// function" with a bare line feed or no name; a second CAN_DO of one function, which
// it counts twice; client ids with blanks; WORK_FAIL behind WORK_EXCEPTION; a report
// pipelined behind a grab, which no worker can send: gearmand frees the workload that
// it is to send.
func (k *known) request(i int, a Action, h *History, behind bool) (r request, ok bool) {
	c := &k.conns[i]
	f := h.Functions[a.Function%len(h.Functions)]
	end := of([]string{"\n", "\r\n"}, a.Pick>>30)
	c.grabbed = c.grabbed && behind
	switch a.Op {
	case OpCanDo, OpCanDoTimeout:
		if slices.Contains(c.abilities, f) {
			return r, false
		}
		c.abilities = append(slices.Clone(c.abilities), f)
		r.bytes = packet(1, f)
		if a.Op == OpCanDoTimeout {
			r.bytes = packet(23, f, of(timeouts[:], a.Pick))
		}
	case OpCantDo:
		if behind || !k.mayUnregister(i, f) {
			return r, false
		}
		k.unregister(i, f)
		r.bytes, r.alone, r.loses = packet(2, f), true, true
	case OpReset:
		for _, f := range c.abilities {
			if behind || !k.mayUnregister(i, f) {
				return r, false
			}
		}
		for _, f := range c.abilities {
			k.unregister(i, f)
		}
		r.bytes, r.alone, r.loses = packet(3), true, true
	case OpPreSleep, OpGrab:
		many := len(c.abilities) > 1
		if many && behind || !k.mayPick(i) {
			return r, false
		}
		r.alone = many
		if c.drowsy = a.Op == OpPreSleep; c.drowsy {
			r.bytes = packet(4)
			break
		}
		c.grabbed = true
		r.bytes = packet(of([]uint32{9, 30, 39}, a.Pick))
		if a.Pick>>28 == 0 {
			r.bytes = packet(9, "junk")
		}
	case OpSubmit, OpReduce, OpEpoch:
		return k.submission(a, f, behind)
	case OpStatus, OpComplete, OpFail, OpException, OpData, OpWarning:
		if c.grabbed && behind {
			return r, false
		}
		return k.report(i, a)
	case OpGetStatus:
		handle := k.handle(i, a.Pick, false)
		r.bytes = packet(15, handle)
		return r, k.mayAsk(handle)
	case OpGetStatusUnique:
		unique := of(uniques[:], a.Pick)
		r.bytes = packet(41, unique)
		return r, k.mayAskUnique(unique)
	case OpOption:
		if behind {
			return r, false // what was relayed before may meet it on the way
		}
		r.bytes = packet(26, of(options[:], a.Pick))
	case OpSetID:
		r.bytes = packet(22, of(clients[:], a.Pick))
	case OpEcho:
		r.bytes = packet(16, a.workload())
	case OpList:
		if behind {
			return r, false
		}
		r.list = of(lists[:], a.Pick)
		r.bytes, r.alone = r.list+end, true
	case OpText:
		r.bytes = of(lines[:], a.Pick)
		if strings.HasPrefix(r.bytes, "create") {
			end = "\r\n"
		}
		r.bytes += end
	default:
		return k.rare(i, a, f, end, behind)
	}
	return r, true
}

// rare is request for what is not pipelined.
func (k *known) rare(i int, a Action, f, end string, behind bool) (r request, ok bool) {
	if behind {
		return r, false
	}
	r.alone = true
	named := f != "" && !strings.Contains(f, " ") // so that it is one word
	switch a.Op {
	case OpMaxQueue:
		sizes := of([]string{"", " 1", " 2", " 3 0 2", " 1 1 1", " 2 1", " -1", " x", " 0 5"}, a.Pick)
		if !named {
			return r, false
		}
		k.limited[f] = k.limited[f] || sizes != ""
		r.bytes = "maxqueue " + f + sizes + end
	case OpCancel:
		handle := k.handle(i, a.Pick, false)
		if !k.mayCancel(handle) || handle == "" {
			return r, false
		}
		if j := k.job(handle); j != nil {
			r.cancel = j
		}
		r.bytes = "cancel job " + handle + end
	case OpCreate:
		r.bytes = "create function " + f + "\r\n"
		return r, named
	case OpDrop:
		if a.Pick&1 != 0 {
			f = strings.ToUpper(f)
		}
		r.bytes = "drop function " + f + end
		if !named || !k.mayDrop(f) {
			return r, false
		}
	case OpRefused:
		r.bytes = of(refused[:], a.Pick)
	case OpBad:
		if !k.mayClose(i) {
			return r, false
		}
		r.bytes, r.ends = of(bad[:], a.Pick), true
	default:
		panic(fmt.Sprintf("no bytes for op %d", a.Op))
	}
	return r, true
}

// submission is request for SUBMIT_JOB and the like.
func (k *known) submission(a Action, f string, behind bool) (r request, ok bool) {
	unique, body := of(uniques[:], a.Pick), a.workload()
	job := &knownJob{function: f, unique: unique, body: body, holder: -1, class: 1}
	switch a.Op {
	case OpSubmit:
		kind := of([]uint32{7, 18, 7, 18, 21, 32, 33, 34}, a.Pick>>16)
		job.background = kind == 18 || kind == 32 || kind == 34
		switch kind {
		case 21, 32:
			job.class = 0
		case 33, 34:
			job.class = 2
		}
		r.bytes = packet(kind, f, unique, body)
	case OpReduce:
		job.background = a.Pick>>16&1 != 0
		kind := uint32(37)
		if job.background {
			kind = 38
		}
		r.bytes = packet(kind, f, unique, of(reducers[:], a.Pick>>4), "", body)
	case OpEpoch:
		if behind {
			return r, false
		}
		r.alone = true
		epoch := of(epochs[:], a.Pick>>4)
		job.background, job.delayed = true, len(epoch) == 10
		r.bytes = packet(36, f, unique, epoch, body)
	}
	r.job = job
	ok = k.maySubmit(f, unique, body, job.class, job.delayed)
	return r, ok
}

// report is request for what a worker says about a job.
func (k *known) report(i int, a Action) (r request, ok bool) {
	c := &k.conns[i]
	handle := k.handle(i, a.Pick, true)
	j := k.job(handle)
	if j != nil && j.holder != i {
		j = nil
	}
	switch a.Op {
	case OpStatus:
		r.bytes = packet(12, handle, of(numbers[:], a.Pick>>4), of(numbers[:], a.Pick>>12))
	case OpComplete:
		r.bytes = packet(13, handle, a.workload())
	case OpFail:
		if slices.Contains(c.excepted, handle) {
			return r, false
		}
		r.bytes = packet(14, handle)
		if a.Pick>>27&1 != 0 {
			r.bytes = packet(14, handle, "")
		}
	case OpException:
		r.bytes = packet(25, handle, a.workload())
		c.excepted = append(slices.Clone(c.excepted), handle)
	case OpData:
		r.bytes = packet(28, handle, a.workload())
	case OpWarning:
		r.bytes = packet(29, handle, a.workload())
	}
	if j != nil && (a.Op == OpComplete || a.Op == OpFail || a.Op == OpException) {
		j.holder, j.gone = -1, true
	}
	return r, true
}
