package gearmantest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// How long either server of a pair may take over an answer: shrinking a history
// that hangs waits for it many times.
const (
	answerMax = 8 * time.Second
	shrinkMax = 500 * time.Millisecond
)

// A difference is where two servers stopped saying the same.
type difference struct {
	why string
	log []string // what was said until then, as a case would write it
}

func (d *difference) Error() string {
	return fmt.Sprintf("%s\n--- said until then\n%s", d.why, strings.Join(d.log, "\n"))
}

// A side is one server of a pair, 0 gearmand and 1 ours.
type side struct {
	address string
	control *peer
	conns   []*peer
}

// A peer is a connection and what has come on it that was not yet compared.
type peer struct {
	*conn
	got []message
}

// receive takes what is there, up to the last whole message.
func (p *peer) receive() {
	b, _ := p.pending()
	for {
		m, n := cutMessage(b)
		if n == 0 {
			return
		}
		if m.kind == 0 && strings.HasPrefix(m.body, "OK ") {
			m.body = "OK and a value\n" // version, verbose, getpid
		}
		p.got = append(p.got, m)
		p.take(n)
		b = b[n:]
	}
}

// A play is one history under way: two servers with the same past, in lock-step.
// After each step both have answered all there is to answer before the next is
// taken, so that one order of requests is the only one possible on either.
type play struct {
	c     *Campaign
	h     History
	k     *known
	sides [2]side
	log   []string
	marks int
	max   time.Duration // how long an answer may take
}

// playOn plays h on two servers that nobody has talked to yet. The error is a
// *difference if they differ.
func (c *Campaign) playOn(h History, addresses [2]string, longest time.Duration) error {
	g := &play{c: c, h: h, k: newKnown(h.Conns), max: longest}
	g.k.few = slices.Contains(h.Opts, "--worker-wakeup")
	defer g.stop()
	for n, address := range addresses {
		g.sides[n] = side{address: address, conns: make([]*peer, h.Conns)}
		k, err := dial(address)
		if err != nil {
			return err
		}
		g.sides[n].control = &peer{conn: k}
	}
	for _, e := range h.Events {
		if err := g.event(e); err != nil {
			return &difference{err.Error(), g.log}
		}
	}
	for i := range g.k.conns {
		err := g.finish(i)
		if err == nil {
			err = g.compareStep(order{actor: -1, unordered: true})
		}
		if err != nil {
			return &difference{err.Error(), g.log}
		}
	}
	return nil
}

func (g *play) stop() {
	for _, s := range g.sides {
		for _, c := range append(s.conns, s.control) {
			if c != nil {
				c.Close()
			}
		}
	}
}

func (g *play) note(i int, what string) {
	g.log = append(g.log, fmt.Sprintf("  %c%s", 'A'+i, what))
}

func (g *play) event(e Event) error {
	c := &g.k.conns[e.Conn]
	if (e.Kind == EventClose || e.Kind == EventReset) && !c.open || e.Kind != EventSend && e.Kind != EventPart && !g.k.mayClose(e.Conn) {
		return nil
	}
	if e.Kind == EventClose || e.Kind == EventReset {
		return g.close(e.Conn, e.Kind == EventReset)
	}
	if err := g.open(e.Conn); err != nil {
		return err
	}
	if err := g.finish(e.Conn); err != nil {
		return err
	}
	switch e.Kind {
	case EventPart:
		// Nothing that is sent meanwhile changes the answer.
		p := of([]string{packet(16, "in parts"), packet(26, "bogus"), packet(15, "nobody"), packet(28, "nobody", "data"), "version\n"}, e.Cuts[0])
		n := 1 + int(e.Cuts[0]>>8)%(len(p)-1)
		c.rest = p[n:]
		return g.say(e.Conn, p[:n])
	case EventDie:
		p := packet(of([]uint32{7, 18}, e.Actions[0].Pick), "f", "u", strings.Repeat("half", 50))
		if err := g.say(e.Conn, p[:1+int(e.Actions[0].Pick>>8)%(len(p)-1)]); err != nil {
			return err
		}
		return g.close(e.Conn, false)
	}
	return g.send(e)
}

func (g *play) open(i int) error {
	if g.k.conns[i].open {
		return nil
	}
	for n := range g.sides {
		c, err := dial(g.sides[n].address)
		if err != nil {
			return err
		}
		g.sides[n].conns[i] = &peer{conn: c}
	}
	g.k.conns[i] = knownConn{open: true}
	return g.compareStep(order{actor: -1, unordered: true})
}

// finish sends the rest of a request that was sent in part.
func (g *play) finish(i int) error {
	c := &g.k.conns[i]
	if c.rest == "" {
		return nil
	}
	rest := c.rest
	c.rest = ""
	return g.exchange(i, []request{{bytes: rest}}, nil)
}

// say sends the same bytes on both sides.
func (g *play) say(i int, b string) error {
	g.note(i, "> "+describe([]byte(b)))
	return g.write(i, b)
}

func (g *play) write(i int, b string) error {
	for n := range g.sides {
		if err := g.sides[n].conns[i].write([]byte(b), false); err != nil {
			return fmt.Errorf("%s: %w", sideName(n), err)
		}
	}
	return nil
}

func sideName(n int) string { return [...]string{"gearmand", "ours"}[n] }

// send sends what can be compared of an event's actions.
func (g *play) send(e Event) error {
	var all []request
	for _, a := range e.Actions {
		r, ok := g.k.request(e.Conn, a, &g.h, len(all) > 0)
		if !ok {
			g.c.PassedOver[a.Op]++
			continue
		}
		g.c.Compared[a.Op]++
		if r.ends {
			return g.cutOff(e.Conn, r)
		}
		if all = append(all, r); r.alone {
			break
		}
	}
	if len(all) == 0 {
		return nil
	}
	return g.exchange(e.Conn, all, e.Cuts)
}

// mark is what the next mark's request and answer say.
func (g *play) mark() string {
	g.marks++
	return fmt.Sprint(markPrefix, g.marks)
}

// exchange sends requests, each followed by a mark, cut into pieces, and takes in
// all that either server says to anyone.
func (g *play) exchange(i int, all []request, cuts []uint32) error {
	var b strings.Builder
	var last string
	for _, r := range all {
		g.note(i, "> "+describe([]byte(r.bytes)))
		last = g.mark()
		b.WriteString(r.bytes + packet(16, last))
	}
	rest := b.String()
	for _, cut := range cuts {
		n := int(cut) % len(rest)
		g.note(i, fmt.Sprintf(">> %d bytes of that, then more", n))
		if err := g.write(i, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
		if err := g.look(); err != nil { // so that the pieces are read one by one
			return err
		}
	}
	if err := g.write(i, rest); err != nil {
		return err
	}
	for n := range g.sides {
		if err := g.sides[n].conns[i].reach(last, g.max); err != nil {
			return fmt.Errorf("%s, on %c: %w", sideName(n), 'A'+i, err)
		}
	}
	if list := all[0].list; list != "" {
		for n := range g.sides {
			c := g.sides[n].conns[i]
			c.got = g.wholeList(list, c.got, n == 0)
		}
	}
	g.learn(i, all)
	cancelled := all[0].cancel
	if cancelled != nil {
		cancelled.cancelled = true
	}
	how := order{actor: -1, unordered: all[0].loses}
	if len(all) == 1 && all[0].job != nil {
		how.actor = i
	}
	if err := g.compareStep(how); err != nil {
		return err
	}
	if cancelled != nil {
		cancelled.silent = true
	}
	return nil
}

// look waits for an echo on each control connection.
func (g *play) look() error {
	mark := g.mark()
	for n := range g.sides {
		c := g.sides[n].control
		if err := c.write([]byte(packet(16, mark)), false); err != nil {
			return err
		}
	}
	for n := range g.sides {
		c := g.sides[n].control
		if err := c.reach(mark, g.max); err != nil {
			return fmt.Errorf("%s: %w", sideName(n), err)
		}
		c.got = nil
	}
	return nil
}

// reach waits for the echo of a mark.
func (p *peer) reach(mark string, longest time.Duration) error {
	want := message{packetTypes["ECHO_RES"], mark}
	for end := time.Now().Add(longest); ; {
		p.receive()
		if slices.Contains(p.got, want) {
			return nil
		}
		_, ended := p.pending()
		if ended || time.Now().After(end) {
			if p.receive(); slices.Contains(p.got, want) {
				return nil
			}
			return fmt.Errorf("no answer behind %s (closed: %t)", show(p.got), ended)
		}
		p.await(50*time.Millisecond, func(b []byte, _ bool) bool { _, n := cutMessage(b); return n > 0 })
	}
}

// learn takes in gearmand's answers.
func (g *play) learn(i int, all []request) {
	got := g.sides[0].conns[i].got
	for _, r := range all {
		for len(got) > 0 && !isMark(got[0]) {
			m := got[0]
			got = got[1:]
			switch m.kind {
			case packetTypes["JOB_CREATED"]:
				job := *r.job
				job.handle = m.body
				g.k.created(i, job, !job.background)
			case packetTypes["JOB_ASSIGN"], packetTypes["JOB_ASSIGN_UNIQ"], packetTypes["JOB_ASSIGN_ALL"]:
				g.k.assigned(i, m.arg())
			}
			if !m.unasked() {
				g.note(i, "< "+m.String())
			}
		}
		got = got[min(1, len(got)):]
	}
}

// cutOff sends what ends a connection, and takes in that both servers end it.
func (g *play) cutOff(i int, r request) error {
	if err := g.say(i, r.bytes); err != nil {
		return err
	}
	for n := range g.sides {
		c := g.sides[n].conns[i]
		if !c.await(g.max, func(_ []byte, ended bool) bool { return ended }) {
			return fmt.Errorf("%s does not close %c", sideName(n), 'A'+i)
		}
		if b, _ := c.pending(); len(b) > 0 {
			return fmt.Errorf("%s says %s on %c before it closes it", sideName(n), describe(b), 'A'+i)
		}
	}
	return g.close(i, false)
}

func (g *play) close(i int, reset bool) error {
	how := map[bool]string{false: "close", true: "rst"}[reset]
	g.note(i, " "+how)
	for n := range g.sides {
		if err := g.sides[n].conns[i].act(how); err != nil {
			return err
		}
		g.sides[n].conns[i] = nil
	}
	g.k.close(i)
	return g.compareStep(order{actor: -1, unordered: true})
}
