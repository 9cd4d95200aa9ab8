package conversation

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// A request is an action as it is sent.
type request struct {
	bytes  string
	alone  bool        // no other request may be pipelined with it
	ends   bool        // the server closes
	loses  bool        // jobs lose their worker
	job    *gearmanJob // the job of the JOB_CREATED that answers it
	cancel *gearmanJob
}

var (
	uniques  = []string{"", "", "-", "-", "u", "u", "v", "w", strings.Repeat("x", 63)}
	bodies   = []string{"", "a", "b", "a\x00b", "line\r\n.\r\n"}
	reducers = []string{"", "r", "reduce", strings.Repeat("y", 63)}
	numbers  = []string{"0", "1", "50", "100", "1.5", "abc", "-1", "4294967296", "", " 7", "+3"}
	timeouts = []string{"1000000", "0", "-1", "soon", "4000000", "99999999"}
	epochs   = []string{"4000000000", "4000000000", "4100000000", "0", "1", "-5", "soon", ""}
	options  = []string{"exceptions", "EXCEPTIONS", "exceptions\x00", "bogus", "", strings.Repeat("x", 70)}
	clients  = []string{"me", "worker-1", strings.Repeat("i", 200), "\xff"}
	handles  = []string{HandlePrefix + ":9999", HandlePrefix + ":0", HandlePrefix, "", "H:other:1", HandlePrefix + ":1x", strings.Repeat("h", 63)}
	lines    = []string{
		"version", "getpid", "verbose", "VERSION now", "bogus", "", "show", "show foo", "show unique foo", "cancel", "cancel job", "cancel foo bar",
		"maxqueue", "create", "create function", "create foo bar", "drop", "drop function", "drop foo bar", "GET / now", "  status", "gladiator",
		"bogus\x00word", "create function a b", "maxqueue nobody 1", "cancel job x", "show jobs now",
	}
	// Requests that are refused as in GC-013, GC-014 and GC-007.
	refused = []string{
		packet(5), packet(24), packet(6), packet(8, "h"), packet(10), packet(11, "h", "f", "d"), packet(17, "x"), packet(19, "c", "t"),
		packet(20, "h", "1", "1", "1", "1"), packet(27, "exceptions"), packet(31, "h", "f", "u", "d"), packet(40, "h", "f", "u", "r", "d"),
		packet(42, "u", "1", "1", "1", "1", "1"), response(16, "hi"), response(18, "f", "u", "d"), response(9),
		packet(18, "f", strings.Repeat("u", 65), "x"), packet(21, "f", strings.Repeat("u", 300), "x"), packet(37, "f", "u", strings.Repeat("r", 65), "", "x"),
		packet(14, strings.Repeat("h", 64)),
	}
	// Requests that end the connection. Types from 0x80000000 crash gearmand (tag I).
	bad = []string{
		"\x00REX" + packet(16, "hi")[4:], "\x00\x00\x00\x00" + packet(16, "hi")[4:], packet(0), packet(43), packet(0x7fffffff, "x"),
		"one two three four five six\n", "maxqueue f 1 2 3 4\r\n", strings.Repeat("x", 9000) + "\n",
	}
	// Requests that are sent in parts: no other request changes their replies.
	parted = []string{packet(16, "in parts"), packet(26, "bogus"), packet(15, "nobody"), packet(28, "nobody", "data"), "version\n"}
)

// The lists that an administrator may ask for.
var lists = []string{"workers", "status", "prioritystatus", "show jobs", "show unique jobs"}

// A gearmanDraw renders one request of connection i.
type gearmanDraw struct {
	*rand.Rand
	k        *gearmanState
	i        int
	c        *gearmanConn
	function string
	end      string // of a line
	behind   bool   // others are pipelined before it
}

func of[T any](d gearmanDraw, all []T) T { return all[d.IntN(len(all))] }

// body is a short text, or at times a long one.
func (d gearmanDraw) body() string {
	size := 0
	switch d.IntN(200) {
	case 0:
		size = 1 + d.IntN(400_000)
	case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
		size = 1 + d.IntN(20_000)
	default:
		return of(d, bodies)
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return string(b)
}

// handle picks a job: mostly one that the connection runs if held is set, else mostly one
// that exists.
func (d gearmanDraw) handle(held bool) string {
	var mine, all []string
	for _, j := range d.k.jobs {
		if j.gone {
			continue
		}
		all = append(all, j.handle)
		if j.holder == d.i {
			mine = append(mine, j.handle)
		}
	}
	switch die := d.IntN(16); {
	case held && len(mine) > 0 && die < 14:
		return of(d, mine)
	case len(all) > 0 && die < 15:
		return of(d, all)
	}
	return of(d, handles)
}

// one is a request that nothing may be pipelined with.
func (d gearmanDraw) one(bytes string) (r request, ok bool) {
	return request{bytes: bytes, alone: true}, !d.behind
}

// isWord reports whether the function can be named in a line.
func (d gearmanDraw) isWord() bool { return d.function != "" && !strings.Contains(d.function, " ") }

// A gearmanOp is a request of random histories. render also updates the state if that needs no
// reply; it is not ok if the servers cannot be compared.
//
// Never sent, all of tag I, are: too few arguments, for which gearmand waits; handles and
// uniques of 64 bytes where it answers nothing or garbage; "create function" with a bare
// line feed or no name; a second CAN_DO of one function, which it counts twice; client ids
// with blanks; WORK_FAIL behind WORK_EXCEPTION; a report pipelined behind a grab, which no
// worker can send: gearmand frees the workload that it is to send.
type gearmanOp struct {
	name   string
	weight int
	render func(d gearmanDraw) (r request, ok bool)
}

var gearmanOps = []gearmanOp{
	{"can do", 12, gearmanDraw.canDo},
	{"cant do", 2, func(d gearmanDraw) (request, bool) { return d.unregister(packet(2, d.function), d.function) }},
	{"reset", 1, func(d gearmanDraw) (request, bool) { return d.unregister(packet(3), d.c.abilities...) }},
	{"sleep", 9, func(d gearmanDraw) (request, bool) { return d.pick(packet(4), true) }},
	{"grab", 20, func(d gearmanDraw) (r request, ok bool) {
		if d.IntN(16) == 0 {
			return d.pick(packet(9, "junk"), false)
		}
		return d.pick(packet(of(d, []uint32{9, 30, 39})), false)
	}},
	{"submit", 24, func(d gearmanDraw) (r request, ok bool) {
		kind := of(d, []uint32{7, 18, 7, 18, 21, 32, 33, 34})
		class := map[uint32]int{7: 1, 18: 1, 33: 2, 34: 2}[kind]
		return d.submit(kind, gearmanJob{class: class, background: kind == 18 || kind == 32 || kind == 34})
	}},
	{"reduce", 4, func(d gearmanDraw) (r request, ok bool) {
		kind := of(d, []uint32{37, 38})
		return d.submit(kind, gearmanJob{class: 1, background: kind == 38}, of(d, reducers), "")
	}},
	{"epoch", 3, func(d gearmanDraw) (r request, ok bool) {
		epoch := of(d, epochs)
		r, ok = d.submit(36, gearmanJob{class: 1, background: true, delayed: len(epoch) == 10}, epoch)
		r.alone = true
		return r, ok && !d.behind
	}},
	{"status", 4, func(d gearmanDraw) (request, bool) { return d.report(12, of(d, numbers), of(d, numbers)) }},
	{"complete", 9, func(d gearmanDraw) (request, bool) { return d.report(13, d.body()) }},
	{"fail", 4, func(d gearmanDraw) (request, bool) { return d.report(14, of(d, [][]string{nil, {""}})...) }},
	{"exception", 3, func(d gearmanDraw) (request, bool) { return d.report(25, d.body()) }},
	{"data", 4, func(d gearmanDraw) (request, bool) { return d.report(28, d.body()) }},
	{"warning", 2, func(d gearmanDraw) (request, bool) { return d.report(29, d.body()) }},
	{"get status", 4, func(d gearmanDraw) (r request, ok bool) {
		handle := d.handle(false)
		return request{bytes: packet(15, handle)}, d.k.mayAsk(handle)
	}},
	{"get status unique", 4, func(d gearmanDraw) (r request, ok bool) {
		unique := of(d, uniques)
		return request{bytes: packet(41, unique)}, d.k.mayAskUnique(unique)
	}},
	{"option", 1, func(d gearmanDraw) (r request, ok bool) { // what was relayed before may meet it on the way
		return request{bytes: packet(26, of(d, options))}, !d.behind
	}},
	{"client id", 1, func(d gearmanDraw) (request, bool) { return request{bytes: packet(22, of(d, clients))}, true }},
	{"echo", 2, func(d gearmanDraw) (request, bool) { return request{bytes: packet(16, d.body())}, true }},
	{"line", 3, func(d gearmanDraw) (r request, ok bool) {
		text := of(d, lines)
		if strings.HasPrefix(text, "create") {
			d.end = "\r\n"
		}
		return request{bytes: text + d.end}, true
	}},
	{"maxqueue", 2, func(d gearmanDraw) (r request, ok bool) {
		sizes := of(d, []string{"", " 1", " 2", " 3 0 2", " 1 1 1", " 2 1", " -1", " x", " 0 5"})
		if r, ok = d.one("maxqueue " + d.function + sizes + d.end); ok && d.isWord() && sizes != "" {
			d.k.limited[d.function] = true
		}
		return r, ok && d.isWord()
	}},
	{"cancel", 3, func(d gearmanDraw) (r request, ok bool) {
		handle := d.handle(false)
		r, ok = d.one("cancel job " + handle + d.end)
		r.cancel = d.k.job(handle)
		return r, ok && handle != "" && d.k.mayCancel(handle)
	}},
	{"create", 1, func(d gearmanDraw) (r request, ok bool) {
		r, ok = d.one("create function " + d.function + "\r\n")
		return r, ok && d.isWord()
	}},
	{"drop", 2, func(d gearmanDraw) (r request, ok bool) {
		name := of(d, []string{d.function, strings.ToUpper(d.function)})
		r, ok = d.one("drop function " + name + d.end)
		return r, ok && d.isWord() && d.k.mayDrop(name)
	}},
	{"refused", 3, func(d gearmanDraw) (request, bool) { return d.one(of(d, refused)) }},
	{"bad", 1, func(d gearmanDraw) (r request, ok bool) {
		r, ok = d.one(of(d, bad))
		r.ends = true
		return r, ok && d.k.mayClose(d.i)
	}},
}

func (d gearmanDraw) canDo() (r request, ok bool) {
	if slices.Contains(d.c.abilities, d.function) {
		return r, false
	}
	d.c.abilities = append(slices.Clone(d.c.abilities), d.function)
	if d.IntN(4) == 0 {
		return request{bytes: packet(23, d.function, of(d, timeouts))}, true
	}
	return request{bytes: packet(1, d.function)}, true
}

func (d gearmanDraw) unregister(bytes string, functions ...string) (r request, ok bool) {
	r, ok = d.one(bytes)
	r.loses = true
	for _, f := range functions {
		ok = ok && d.k.mayUnregister(d.i, f)
	}
	for _, f := range functions {
		if ok {
			d.k.unregister(d.i, f)
		}
	}
	return r, ok
}

// pick asks for a job, or sleeps until there is one.
func (d gearmanDraw) pick(bytes string, sleeps bool) (r request, ok bool) {
	many := len(d.c.abilities) > 1
	if many && d.behind || !d.k.mayPick(d.i) {
		return r, false
	}
	d.c.drowsy, d.c.grabbed = sleeps, d.c.grabbed || !sleeps
	return request{bytes: bytes, alone: many}, true
}

func (d gearmanDraw) submit(kind uint32, j gearmanJob, between ...string) (r request, ok bool) {
	j.function, j.unique, j.body, j.holder = d.function, of(d, uniques), d.body(), -1
	args := append(append([]string{j.function, j.unique}, between...), j.body)
	return request{bytes: packet(kind, args...), job: &j}, d.k.maySubmit(&j)
}

// report renders what a worker sends about a job.
func (d gearmanDraw) report(kind uint32, args ...string) (r request, ok bool) {
	handle := d.handle(true)
	if d.c.grabbed && d.behind || kind == 14 && slices.Contains(d.c.excepted, handle) {
		return r, false
	}
	if kind == 25 {
		d.c.excepted = append(slices.Clone(d.c.excepted), handle)
	}
	if j := d.k.job(handle); j != nil && j.holder == d.i && (kind == 13 || kind == 14 || kind == 25) {
		j.holder, j.gone = -1, true
	}
	return request{bytes: packet(kind, append([]string{handle}, args...)...)}, true
}

// functionNames are what histories choose from. No two differ in letter case only: which of
// them drop function means depends on gearmand's hash table.
var functionNames = []string{
	"f", "reverse", "default", "", "mail.out/1", "two words", "\xff\xc3\xbc", strings.Repeat("long", 75), "-", "\"quoted\"",
}

var gearmanStyle = style{
	weights: weightsOf(gearmanOps, func(o gearmanOp) int { return o.weight }),
	often:   []often{{eventClose, 40}, {eventReset, 10}, {eventDie, 10}, {eventPart, 40}},
	burst:   220,
	cuts:    true,
	draw: func(h *history, r *rand.Rand, weights []int) {
		h.Conns = 2 + r.IntN(5)
		for _, i := range r.Perm(len(functionNames))[:1+r.IntN(4)] {
			h.Names = append(h.Names, functionNames[i])
		}
		if k := r.IntN(6); k < 3 {
			h.Flags = append(h.Flags, "--job-retries", string(rune('1'+k)))
		}
		if r.IntN(6) == 0 {
			h.Flags = append(h.Flags, "--exceptions")
		}
		if k := r.IntN(8); k < 2 {
			h.Flags = append(h.Flags, "--worker-wakeup", string(rune('1'+k)))
		}
		kind := r.IntN(3)
		for i, o := range gearmanOps {
			switch {
			case kind == 0 && (o.name == "submit" || o.name == "reduce" || o.name == "epoch"): // few jobs, for which workers mostly wait
				weights[i] = (o.weight + 3) / 4
			case kind == 0 && o.name == "sleep", kind == 1 && o.name == "cant do":
				weights[i] *= 3
			case kind < 2 && o.name == "can do", kind == 1 && o.name == "grab": // 1: many workers that are lost
				weights[i] *= 2
			}
		}
	},
}
