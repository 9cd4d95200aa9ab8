package conversation

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A knownConn is what a session knows about one of its connections.
type knownConn struct {
	open     bool
	use      string
	watch    []string
	reserved []uint64
	waiting  []Action // not yet answered: a reserve and what was sent behind it
}

// known is what a session knows about the servers, from their replies alone.
type known struct {
	conns []knownConn
	live  []uint64          // jobs that were inserted and not deleted
	tube  map[uint64]string // where each was put
	last  uint64            // highest id seen
}

func newKnown(conns int) *known {
	return &known{conns: make([]knownConn, conns), tube: map[uint64]string{}}
}

func (k *known) open(i int) {
	k.conns[i] = knownConn{open: true, use: "default", watch: []string{"default"}}
}

func (k *known) closed(i int) { k.conns[i] = knownConn{} }

// waiting counts connections that wait for a reserve.
func (k *known) waiting() int {
	n := 0
	for _, c := range k.conns {
		if len(c.waiting) > 0 {
			n++
		}
	}
	return n
}

// tailed reports whether a connection waits that has sent commands behind its
// reserve: two such could run at once, in either order.
func (k *known) tailed() bool {
	return slices.ContainsFunc(k.conns, func(c knownConn) bool { return len(c.waiting) > 1 })
}

// crowded reports whether another connection waits on a tube that i watches:
// which of the two is served is a quirk of the reference.
func (k *known) crowded(i int) bool {
	for j, c := range k.conns {
		if j != i && len(c.waiting) > 0 && slices.ContainsFunc(c.watch, func(t string) bool { return slices.Contains(k.conns[i].watch, t) }) {
			return true
		}
	}
	return false
}

// contested reports whether closing i would offer several tubes at once to one
// that waits, or several jobs to one that has sent commands behind its reserve:
// they might run between the first and the last.
func (k *known) contested(i int) bool {
	for j, c := range k.conns {
		if j == i || len(c.waiting) == 0 {
			continue
		}
		var offered []string
		jobs := 0
		for _, id := range k.conns[i].reserved {
			t := k.tube[id]
			if !slices.Contains(c.watch, t) {
				continue
			}
			jobs++
			if !slices.Contains(offered, t) {
				offered = append(offered, t)
			}
		}
		if len(offered) > 1 || jobs > 1 && len(c.waiting) > 1 {
			return true
		}
	}
	return false
}

// pick resolves a symbolic job: mostly one that the connection has reserved if such a one
// is asked for, else mostly one that exists.
func (k *known) pick(i int, pick uint32, reserved bool) uint64 {
	mine, die := k.conns[i].reserved, pick>>28
	switch {
	case reserved && len(mine) > 0 && die < 14:
		return mine[int(pick&0xffff)%len(mine)]
	case len(k.live) > 0 && die < 15:
		return k.live[int(pick&0xffff)%len(k.live)]
	}
	return uint64(pick&0xffff) % (k.last + 3)
}

// bytes renders an action as connection i sends it.
func (k *known) render(i int, a Action, unquoted bool) string {
	id := func(reserved bool) string { return strconv.FormatUint(k.pick(i, a.Pick, reserved), 10) }
	tube := tubeNames[a.Tube]
	switch a.Op {
	case OpPut:
		return fmt.Sprintf("put %d %d %d %d\r\n%s\r\n", a.Pri, a.Delay, a.TTR, a.Size, body(a))
	case OpPutBadEnd:
		return fmt.Sprintf("put %d %d %d %d\r\n%sxx", a.Pri, a.Delay, a.TTR, a.Size, body(a))
	case OpPutTooBig:
		return fmt.Sprintf("put %d %d %d %d\r\n%s\r\n", a.Pri, a.Delay, a.TTR, 65536+a.Size, strings.Repeat("B", int(65536+a.Size)))
	case OpReserve:
		return "reserve\r\n"
	case OpReserveNow:
		return "reserve-with-timeout 0\r\n"
	case OpReserveLong:
		return "reserve-with-timeout 100000\r\n"
	case OpReserveJob:
		return "reserve-job " + id(false) + "\r\n"
	case OpDelete:
		return "delete " + id(a.Pick&(1<<20) != 0) + "\r\n"
	case OpRelease:
		return fmt.Sprintf("release %s %d %d\r\n", id(true), a.Pri, a.Delay)
	case OpBury:
		return fmt.Sprintf("bury %s %d\r\n", id(true), a.Pri)
	case OpTouch:
		return "touch " + id(true) + "\r\n"
	case OpKick:
		return fmt.Sprintf("kick %d\r\n", []int{0, 1, 1, 2, 3, 100}[a.Pick%6])
	case OpKickJob:
		return "kick-job " + id(false) + "\r\n"
	case OpPeek:
		return "peek " + id(false) + "\r\n"
	case OpPeekReady:
		return "peek-ready\r\n"
	case OpPeekDelayed:
		return "peek-delayed\r\n"
	case OpPeekBuried:
		return "peek-buried\r\n"
	case OpUse:
		return "use " + tube + "\r\n"
	case OpWatch:
		return "watch " + tube + "\r\n"
	case OpIgnore:
		return "ignore " + tube + "\r\n"
	case OpStats:
		return "stats\r\n"
	case OpStatsJob:
		return "stats-job " + id(false) + "\r\n"
	case OpStatsTube:
		return "stats-tube " + tube + "\r\n"
	case OpListTubes:
		return "list-tubes\r\n"
	case OpListUsed:
		return "list-tube-used\r\n"
	case OpListWatched:
		return "list-tubes-watched\r\n"
	case OpPause:
		return "pause-tube " + tube + " 5000\r\n"
	case OpUnpause:
		return "pause-tube " + tube + " 0\r\n"
	case OpMalformed:
		lines := oneReply
		if !unquoted && a.Pick>>28 < 2 {
			lines = oneReply113
		}
		return lines[int(a.Pick&0xffff)%len(lines)] + "\r\n"
	}
	panic(fmt.Sprintf("no bytes for op %d", a.Op))
}

// body makes a job's body: one letter, and in half of them a line end, a NUL
// and a byte that is no ASCII.
func body(a Action) string {
	b := bytes.Repeat([]byte{'a' + byte(a.Pick%26)}, int(a.Size))
	if a.Pick&(1<<21) != 0 && len(b) > 8 {
		copy(b[len(b)/4:], "\r\n")
		b[len(b)/2], b[len(b)-1] = 0, 0xff
	}
	return string(b)
}

// learn takes in the reply to an action of connection i.
func (k *known) learn(i int, sent string, reply []byte) {
	c := &k.conns[i]
	words := strings.Fields(firstLine(reply))
	verb := strings.Fields(firstLine([]byte(sent)))
	if len(words) == 0 || len(verb) == 0 {
		return
	}
	number := func(w []string) uint64 {
		if len(w) < 2 {
			return 0
		}
		n, _ := strconv.ParseUint(w[1], 10, 64)
		return n
	}
	drop := func(list []uint64, id uint64) []uint64 {
		return slices.DeleteFunc(list, func(x uint64) bool { return x == id })
	}
	switch words[0] {
	case "INSERTED":
		id := number(words)
		k.live, k.tube[id], k.last = append(k.live, id), c.use, max(k.last, id)
	case "RESERVED":
		c.reserved = append(c.reserved, number(words))
	case "DELETED":
		k.live, c.reserved = drop(k.live, number(verb)), drop(c.reserved, number(verb))
	case "RELEASED", "BURIED":
		c.reserved = drop(c.reserved, number(verb))
	case "USING":
		if verb[0] == "use" {
			c.use = verb[1]
		}
	case "WATCHING":
		c.watch = slices.DeleteFunc(c.watch, func(t string) bool { return t == verb[1] })
		if verb[0] == "watch" {
			c.watch = append(c.watch, verb[1])
		}
	}
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(string(b), "\r\n")
	return line
}
