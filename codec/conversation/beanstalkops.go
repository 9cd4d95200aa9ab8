package conversation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// A beanstalkConn is what a history knows about one of its connections.
type beanstalkConn struct {
	open     bool
	use      string
	watch    []string
	reserved []uint64
	owed     []string // commands without a reply yet; the first may wait
}

// beanstalkState is what a history knows about the servers, from the reference's replies.
type beanstalkState struct {
	conns    []beanstalkConn
	live     []uint64          // jobs that were inserted and not deleted
	tube     map[uint64]string // where each job was put
	last     uint64            // the highest id
	tubes    []string
	unquoted bool // the reference is older than 1.13
	soon     bool // jobs have a second to run
}

// waiting counts the connections that wait in a reserve.
func (k *beanstalkState) waiting() (n int) {
	for _, c := range k.conns {
		if len(c.owed) > 0 {
			n++
		}
	}
	return n
}

// tailed reports whether a connection waits that has sent commands behind its reserve: two
// such connections could run at once, in either order.
func (k *beanstalkState) tailed() bool {
	return slices.ContainsFunc(k.conns, func(c beanstalkConn) bool { return len(c.owed) > 1 })
}

// crowded reports whether another connection waits on a tube that i watches: the reference
// chooses between the two by its own rule.
func (k *beanstalkState) crowded(i int) bool {
	for j, c := range k.conns {
		if j != i && len(c.owed) > 0 && slices.ContainsFunc(c.watch, func(t string) bool { return slices.Contains(k.conns[i].watch, t) }) {
			return true
		}
	}
	return false
}

// contested reports whether closing i would offer several tubes at once to one connection
// that waits, or several jobs to one that has sent commands behind its reserve: they might
// run between the first and the last.
func (k *beanstalkState) contested(i int) bool {
	for j, c := range k.conns {
		if j == i || len(c.owed) == 0 {
			continue
		}
		offered, jobs := map[string]bool{}, 0
		for _, id := range k.conns[i].reserved {
			if t := k.tube[id]; slices.Contains(c.watch, t) {
				offered[t] = true
				jobs++
			}
		}
		if len(offered) > 1 || jobs > 1 && len(c.owed) > 1 {
			return true
		}
	}
	return false
}

// learn updates the state from the reply to a command of connection i.
func (k *beanstalkState) learn(i int, sent, reply string) {
	c := &k.conns[i]
	first := func(text string) (word, second string) {
		line, _, _ := strings.Cut(text, "\r\n")
		f := append(strings.Fields(line), "", "")
		return f[0], f[1]
	}
	verb, arg := first(sent)
	word, value := first(reply)
	id, _ := strconv.ParseUint(value, 10, 64) // where the reply names a job
	sentID, _ := strconv.ParseUint(arg, 10, 64)
	drop := func(list []uint64) []uint64 {
		return slices.DeleteFunc(list, func(x uint64) bool { return x == sentID })
	}
	switch word {
	case "INSERTED":
		k.live, k.tube[id], k.last = append(k.live, id), c.use, max(k.last, id)
	case "RESERVED":
		c.reserved = append(c.reserved, id)
	case "DELETED":
		k.live, c.reserved = drop(k.live), drop(c.reserved)
	case "RELEASED", "BURIED":
		c.reserved = drop(c.reserved)
	case "USING":
		if verb == "use" {
			c.use = arg
		}
	case "WATCHING":
		c.watch = slices.DeleteFunc(c.watch, func(t string) bool { return t == arg })
		if verb == "watch" {
			c.watch = append(c.watch, arg)
		}
	}
}

// A draw renders one command of connection i.
type draw struct {
	*rand.Rand
	k     *beanstalkState
	i     int
	small bool // bodies must be short
}

// id picks a job: mostly one that the connection has reserved if reserved is set, else
// mostly one that exists.
func (d draw) id(reserved bool) string {
	id, mine := d.Uint64N(d.k.last+3), d.k.conns[d.i].reserved
	switch die := d.IntN(16); {
	case reserved && len(mine) > 0 && die < 14:
		id = mine[d.IntN(len(mine))]
	case len(d.k.live) > 0 && die < 15:
		id = d.k.live[d.IntN(len(d.k.live))]
	}
	return strconv.FormatUint(id, 10)
}

func (d draw) tube() string { return d.k.tubes[d.IntN(len(d.k.tubes))] }

func (d draw) pri() uint32 {
	if d.IntN(8) == 0 {
		return []uint32{0, 1023, 1024, 1<<31 - 1, 1 << 31, 1<<32 - 1}[d.IntN(6)]
	}
	return uint32(d.IntN(6))
}

func (d draw) delay() uint32 {
	if d.IntN(4) == 0 {
		return []uint32{1000, 2000, 3000, 1<<32 - 1}[d.IntN(4)]
	}
	return 0
}

// put renders a put with a body of more bytes than usual, and what follows the body.
func (d draw) put(more int, end string) string {
	ttr, size := 100+d.IntN(1000), d.IntN(200)
	if d.k.soon && d.IntN(2) == 0 {
		ttr = d.IntN(2) // 0 becomes 1
	}
	switch d.IntN(12) {
	case 0:
		size = 0
	case 1:
		size = d.IntN(65536)
	}
	if size += more; d.small {
		size = min(size, 1000)
	}
	body := slices.Repeat([]byte{'a' + byte(d.IntN(26))}, size)
	if more == 0 && size > 8 && d.IntN(2) == 0 {
		copy(body[size/4:], "\r\n")
		body[size/2], body[size-1] = 0, 0xff
	}
	return fmt.Sprintf("put %d %d %d %d\r\n%s%s", d.pri(), d.delay(), ttr, size, body, end)
}

// A beanstalkOp is a command of random histories.
type beanstalkOp struct {
	weight int
	render func(d draw) string
	blocks bool // it may wait
	wakes  bool // it may serve a connection that waits
}

func line(format string, args ...any) string { return fmt.Sprintf(format+"\r\n", args...) }

// reserveNow replaces a reserve that must not wait.
const reserveNow = "reserve-with-timeout 0\r\n"

var beanstalkOps = []beanstalkOp{
	{weight: 22, wakes: true, render: func(d draw) string { return d.put(0, "\r\n") }},
	{weight: 1, render: func(d draw) string { return d.put(0, "xx") }},
	{weight: 1, render: func(d draw) string {
		if d.small {
			return d.put(0, "xx")
		}
		return d.put(65536, "\r\n")
	}},
	{weight: 8, blocks: true, render: func(draw) string { return "reserve\r\n" }},
	{weight: 3, blocks: true, render: func(draw) string { return "reserve-with-timeout 100000\r\n" }},
	{weight: 10, render: func(draw) string { return reserveNow }},
	{weight: 4, render: func(d draw) string { return line("reserve-job %s", d.id(false)) }},
	{weight: 10, render: func(d draw) string { return line("delete %s", d.id(d.IntN(2) == 0)) }},
	{weight: 7, wakes: true, render: func(d draw) string { return line("release %s %d %d", d.id(true), d.pri(), d.delay()) }},
	{weight: 6, render: func(d draw) string { return line("bury %s %d", d.id(true), d.pri()) }},
	{weight: 3, render: func(d draw) string { return line("touch %s", d.id(true)) }},
	{weight: 5, wakes: true, render: func(d draw) string { return line("kick %d", []int{0, 1, 1, 2, 3, 100}[d.IntN(6)]) }},
	{weight: 3, wakes: true, render: func(d draw) string { return line("kick-job %s", d.id(false)) }},
	{weight: 2, render: func(d draw) string { return line("peek %s", d.id(false)) }},
	{weight: 6, render: func(d draw) string { return line("peek-%s", []string{"ready", "delayed", "buried"}[d.IntN(3)]) }},
	{weight: 8, render: func(d draw) string { return line("use %s", d.tube()) }},
	{weight: 7, render: func(d draw) string { return line("watch %s", d.tube()) }},
	{weight: 5, render: func(d draw) string { return line("ignore %s", d.tube()) }},
	{weight: 2, render: func(draw) string { return "stats\r\n" }},
	{weight: 4, render: func(d draw) string { return line("stats-job %s", d.id(false)) }},
	{weight: 4, render: func(d draw) string { return line("stats-tube %s", d.tube()) }},
	{weight: 6, render: func(d draw) string {
		return line("list-%s", []string{"tubes", "tubes", "tubes", "tube-used", "tubes-watched", "tubes-watched"}[d.IntN(6)])
	}},
	{weight: 2, render: func(d draw) string { return line("pause-tube %s 5000", d.tube()) }},
	{weight: 4, wakes: true, render: func(d draw) string { return line("pause-tube %s 0", d.tube()) }},
	{weight: 5, render: func(d draw) string {
		if !d.k.unquoted && d.IntN(8) == 0 {
			return oneReply113[d.IntN(len(oneReply113))] + "\r\n"
		}
		return oneReply[d.IntN(len(oneReply))] + "\r\n"
	}},
}

var beanstalkStyle = style{
	weights: weightsOf(beanstalkOps, func(o beanstalkOp) int { return o.weight }),
	often:   []often{{eventClose, 20}, {eventHalfClose, 10}, {eventQuit, 5}, {eventDie, 5}},
	burst:   180,
	draw: func(h *history, r *rand.Rand, _ []int) {
		h.Conns, h.Soon = 1+r.IntN(5), r.IntN(8) == 0
		h.Names = tubeNames[:1+r.IntN(len(tubeNames))]
	},
}

var tubeNames = []string{"default", "a", "mail.out", "x-1/2;3+(4)$_", "0", strings.Repeat("long", 50)}

// oneReply are lines with a reply of exactly one line, which change at most a counter. None has
// 223 bytes: the reference does not find a line end across the edge of its window.
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

// oneReply113 are lines to which references before 1.13 reply differently.
var oneReply113 = []string{
	"reserve-with-timeout", "reserve-with-timeout ", "reserve-with-timeout x", "reserve-with-timeout -1", "reserve-with-timeout 2147483648", "reserve-with-timeout 4294967296",
	"reserve-with-timeout +0", "reserve-with-timeout \t0",
}
