package conversation

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// replyMax is how long either server of a pair may take over a reply. It is
// shorter than Patience because shrinking a session that hangs waits for it
// many times.
const replyMax = 8 * time.Second

// A Pair is two servers with the same past, played in lock-step: after each
// event both have answered what can be answered before the next is sent, so
// that one order of commands is the only one possible on either.
type Pair struct {
	Unquoted bool // the reference is older than 1.13
	Kept     bool // ours keeps a journal
	sides    [2]side

	companion Companion // nil: there is none
	renames   *renames  // beside a companion
}

// A side is one server of a pair, 0 the reference and 1 ours.
type side struct {
	address string
	control *Client
	asked   uint64 // stats that the control connection asked for
	conns   []*Client
}

// NewPair connects to two servers that nobody has talked to yet.
func NewPair(reference, subject string, unquoted bool) (*Pair, error) {
	p := &Pair{Unquoted: unquoted}
	for i, address := range []string{reference, subject} {
		control, err := Dial("tcp", address)
		if err != nil {
			p.Close()
			return nil, err
		}
		p.sides[i] = side{address: address, control: control}
	}
	return p, nil
}

// Close ends the connections to both servers.
func (p *Pair) Close() {
	for _, s := range p.sides {
		for _, c := range append(s.conns, s.control) {
			if c != nil {
				c.Close()
			}
		}
	}
}

// A Difference is where two servers stopped saying the same.
type Difference struct {
	Why   string
	Event int           // index in Session.Events, or their number for what was found at the end
	Log   []string      // what was said until then, in the style of a transcript
	Took  time.Duration // since the session's start
}

func (d *Difference) Error() string {
	return fmt.Sprintf("event %d: %s\n--- said until then\n%s", d.Event, d.Why, strings.Join(d.Log, "\n"))
}

// A play is one session under way.
type play struct {
	*Pair
	s     Session
	k     *known
	log   []string
	start time.Time
}

// Play runs a session against both servers. The error is a *Difference if they
// differ; afterwards, or after any other error, the pair is of no further use.
// Otherwise both servers are as they were, but for counters and ids.
func (p *Pair) Play(s Session) error {
	g := &play{Pair: p, s: s, k: newKnown(s.Conns), start: time.Now()}
	for i := range p.sides {
		p.sides[i].conns = make([]*Client, s.Conns)
	}
	for i, e := range s.Events {
		if err := g.event(e); err != nil {
			return g.difference(i, err)
		}
	}
	if err := g.cleanUp(); err != nil {
		return g.difference(len(s.Events), err)
	}
	return nil
}

func (g *play) difference(event int, err error) error {
	return &Difference{Why: err.Error(), Event: event, Log: g.log, Took: time.Since(g.start)}
}

func (g *play) note(conn int, what string) {
	g.log = append(g.log, string(rune('a'+conn))+what)
}

func (g *play) event(e Event) error {
	c := &g.k.conns[e.Conn]
	if e.Kind == EventSend {
		if len(c.waiting) > 0 || len(e.Actions) == 0 {
			return nil
		}
		if err := g.open(e.Conn); err != nil {
			return err
		}
		return g.send(e.Conn, e.Actions)
	}
	if !c.open || g.k.contested(e.Conn) {
		return nil
	}
	switch e.Kind {
	case EventClose:
		return g.depart(e.Conn)
	case EventHalfClose:
		return g.halfClose(e.Conn)
	case EventQuit, EventDieInBody:
		if len(c.waiting) > 0 {
			return nil
		}
		last := "quit\r\n"
		if e.Kind == EventDieInBody {
			last = "put 1 0 100 1000\r\nhalf a body"
		}
		if err := g.say(e.Conn, last); err != nil {
			return err
		}
		if e.Kind == EventQuit {
			if err := g.end(e.Conn); err != nil {
				return err
			}
		}
		g.note(e.Conn, "! close")
		return g.close(e.Conn)
	}
	return fmt.Errorf("no such event: %d", e.Kind)
}

func (g *play) open(i int) error {
	if g.k.conns[i].open {
		return nil
	}
	for n := range g.sides {
		c, err := Dial("tcp", g.sides[n].address)
		if err != nil {
			return err
		}
		g.sides[n].conns[i] = c
	}
	g.k.open(i)
	return nil
}

// say sends b, in which no job is named, on both sides.
func (g *play) say(i int, b string) error { return g.sayEach(i, b, b) }

// sayEach sends b to the reference, and the same with our ids to ours.
func (g *play) sayEach(i int, b, ours string) error {
	g.note(i, ">> "+escape([]byte(b)))
	for n := range g.sides {
		if n == 1 {
			b = ours
		}
		if err := g.sides[n].conns[i].Say([]byte(b)); err != nil {
			return fmt.Errorf("%s: %w", sideName(n), err)
		}
	}
	return nil
}

func sideName(n int) string { return [...]string{"reference", "ours"}[n] }

// send renders and sends actions in one write, and takes in their replies; a
// reserve that blocks is always the first of them.
func (g *play) send(i int, actions []Action) error {
	actions = slices.Clone(actions)
	if actions[0].Op.blocks() {
		if g.k.crowded(i) {
			actions[0].Op = OpReserveNow
		} else if g.k.tailed() {
			actions = actions[:1]
		}
	}
	if actions[0].Op.blocks() {
		// The reference does not read on while a reserve waits: what does not
		// fit its socket would keep a half-close from arriving.
		for n := range actions {
			actions[n].Size = min(actions[n].Size, 1000)
			if actions[n].Op == OpPutTooBig {
				actions[n].Op = OpPutBadEnd
			}
		}
	}
	if g.k.waiting() > 0 {
		// Whoever is served by a command runs on at the same time as the
		// commands after it: the next is sent when that is over.
		if n := slices.IndexFunc(actions, func(a Action) bool { return a.Op.wakes() }); n >= 0 {
			actions = actions[:n+1]
		}
	}
	var all, ours strings.Builder
	for n, a := range actions {
		sent, renamed := g.renames.request(g.k.render(i, a, g.Unquoted), g.k.last)
		all.WriteString(sent)
		ours.WriteString(renamed)
		actions[n].sent = sent
	}
	if !actions[0].Op.blocks() && slices.ContainsFunc(actions, func(a Action) bool { return a.Op == OpStats }) {
		own, goOn := g.still()
		err := g.sayEach(i, all.String(), ours.String())
		if err == nil {
			err = g.answers(i, actions, &own)
		}
		goOn()
		if err != nil {
			return err
		}
		return g.settle()
	}
	if err := g.sayEach(i, all.String(), ours.String()); err != nil {
		return err
	}
	if actions[0].Op.blocks() {
		waits, err := g.waits(i)
		if err != nil {
			return err
		}
		if waits {
			g.log = append(g.log, "= current-waiting "+fmt.Sprint(g.k.waiting()+1))
			g.k.conns[i].waiting = actions
			return nil
		}
	}
	own := new(Own)
	if actions[0].Op.blocks() {
		own = nil
	}
	if err := g.answers(i, actions, own); err != nil {
		return err
	}
	return g.settle()
}

// waits finds out on each side whether the reserve just sent was answered or
// waits, and that they agree.
func (g *play) waits(i int) (bool, error) {
	var waits [2]bool
	for n := range g.sides {
		s := &g.sides[n]
		for end := time.Now().Add(replyMax); ; {
			if s.conns[i].Ready(200 * time.Microsecond) {
				break
			}
			body, err := g.stats(n)
			if err != nil {
				return false, err
			}
			if count, _ := number(body, "current-waiting"); count == uint64(g.k.waiting())+1 {
				waits[n] = true
				break
			}
			if time.Now().After(end) {
				return false, fmt.Errorf("%s neither answers the reserve nor counts it as waiting:\n%s", sideName(n), body)
			}
		}
	}
	if waits[0] != waits[1] {
		return false, fmt.Errorf("the reserve waits: reference %t, ours %t", waits[0], waits[1])
	}
	return waits[0], nil
}

// answers takes in one reply to each action, on both sides. own is what the companion had
// when they ran; nil says that they ran some time ago.
func (g *play) answers(i int, actions []Action, own *Own) error {
	for _, a := range actions {
		var got [2][]byte
		for n := range g.sides {
			reply, err := g.sides[n].conns[i].Reply(replyMax)
			if err != nil {
				return fmt.Errorf("%s, reply to %q on %c: %w (the other said %q)", sideName(n), clip([]byte(a.sent)), 'a'+i, err, clip(got[0]))
			}
			got[n] = reply
		}
		got[1] = g.renames.reply(got[0], got[1])
		if g.companion != nil && isStats(got[0]) && isStats(got[1]) {
			if own == nil {
				got[1] = likeReference(got[0], got[1])
			} else {
				got[1] = own.without(got[1])
			}
		}
		if why := compareReply(got[0], got[1], g.Unquoted, g.asked(own == nil)); why != "" {
			return fmt.Errorf("%q on %c: %s", clip([]byte(a.sent)), 'a'+i, why)
		}
		g.note(i, "< "+escape(bytes.TrimSuffix(got[0], []byte("\r\n"))))
		g.k.learn(i, a.sent, got[0])
	}
	return nil
}

// settle takes in what waiting connections were sent as a consequence of the
// last event, until the servers' stats are equal and account for who waits.
func (g *play) settle() error {
	for g.k.waiting() > 0 {
		body, err := g.agree()
		if err != nil {
			return err
		}
		count, _ := number(body, "current-waiting")
		served := g.k.waiting() - int(count)
		if served == 0 {
			return nil
		}
		if served < 0 {
			return fmt.Errorf("%d connections wait, %d were sent a reserve", count, g.k.waiting())
		}
		for end := time.Now().Add(replyMax); served > 0; {
			for i := range g.k.conns {
				waiting := g.k.conns[i].waiting
				if len(waiting) == 0 || !g.sides[0].conns[i].Ready(time.Millisecond) {
					continue
				}
				g.k.conns[i].waiting = nil
				if err := g.answers(i, waiting, nil); err != nil {
					return err
				}
				served--
			}
			if time.Now().After(end) {
				return errors.New("reference: who waited is not answered")
			}
		}
	}
	return nil
}

// agree asks both for stats until they say the same, and returns the
// reference's. Before a client's reply is out a server may still be at work
// for somebody else.
func (g *play) agree() ([]byte, error) {
	var why string
	for end := time.Now().Add(replyMax); time.Now().Before(end); time.Sleep(200 * time.Microsecond) {
		var got [2][]byte
		for n := range g.sides {
			body, err := g.stats(n)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", sideName(n), err)
			}
			got[n] = body
		}
		if why = compareReply(got[0], got[1], g.Unquoted, g.asked(false)); why == "" {
			return got[0], nil
		}
	}
	return nil, fmt.Errorf("stats stay different: %s", why)
}

func (g *play) asked(late bool) asked {
	return asked{reference: g.sides[0].asked, subject: g.sides[1].asked, unknown: late, kept: g.Kept}
}

// stats are those of a side, without what is a companion's.
func (p *Pair) stats(n int) ([]byte, error) {
	s := &p.sides[n]
	s.asked++
	if n == 0 || p.companion == nil {
		return s.control.Ask("stats\r\n")
	}
	own, goOn := p.still()
	defer goOn()
	reply, err := s.control.Ask("stats\r\n")
	return own.without(reply), err
}
