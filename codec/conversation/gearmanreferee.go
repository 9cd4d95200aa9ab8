package conversation

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// A message is a packet of a server, or a line of text.
type message struct {
	kind uint32 // zero: text
	body string // of text, with its end
}

func parseMessage(b string) message {
	if b[0] != 0 {
		if strings.HasPrefix(b, "OK ") {
			b = "OK and a value\n" // version, verbose, getpid
		}
		return message{body: b}
	}
	return message{binary.BigEndian.Uint32([]byte(b[4:])), b[headerSize:]}
}

// relayed reports whether a worker caused the message.
func (m message) relayed() bool {
	switch m.kind {
	case 12, 13, 14, 25, 28, 29:
		return true
	}
	return false
}

// unasked reports whether the message answers no request.
func (m message) unasked() bool { return m.relayed() || m.kind == 6 }

// arg returns the first argument.
func (m message) arg() string {
	first, _, _ := strings.Cut(m.body, "\x00")
	return first
}

func (m message) String() string {
	if m.kind == 0 {
		return Gearman.describe([]byte(m.body))
	}
	return Gearman.describe([]byte(response(m.kind, m.body)))
}

// split sorts messages by kind. Other messages may come anywhere between replies, and a NOOP and a
// report may come in either order.
func split(all []message) (answers, noops, relays []message) {
	for _, m := range all {
		switch {
		case m.relayed():
			relays = append(relays, m)
		case m.unasked():
			noops = append(noops, m)
		default:
			answers = append(answers, m)
		}
	}
	return answers, noops, relays
}

func sortMessages(all []message) []message {
	return slices.SortedFunc(slices.Values(all), func(a, b message) int {
		return strings.Compare(fmt.Sprint(a.kind, a.body), fmt.Sprint(b.kind, b.body))
	})
}

// Marks are echoes that the referee sends behind each request: they show which messages are the
// reply to it, and when the reply is complete.
const markPrefix = "mark "

func isMark(m message) bool { return m.kind == 17 && strings.HasPrefix(m.body, markPrefix) }

func unmarked(all []message) []message { return slices.DeleteFunc(slices.Clone(all), isMark) }

// order says how far the order of a step's messages is fixed.
type order struct {
	// actor, if not -1, has submitted one job and nothing else: then a NOOP comes before
	// the answer. Elsewhere what is not asked for has no place among the answers.
	actor int
	// unordered says that jobs may have lost their worker: they are queued again in any order.
	unordered bool
}

var anyOrder = order{actor: -1, unordered: true}

// differ returns how two series of messages differ, or "". final says that later messages cannot
// remove the difference.
func differ(a, b []message, ordered, unordered bool) (why string, final bool) {
	answersA, noopsA, relaysA := split(a)
	answersB, noopsB, relaysB := split(b)
	if unordered {
		relaysA, relaysB = sortMessages(relaysA), sortMessages(relaysB)
	}
	common := min(len(relaysA), len(relaysB))
	switch {
	case !slices.Equal(answersA, answersB): // a mark is the last of them
		final = true
	case !slices.Equal(relaysA[:common], relaysB[:common]):
		final = !unordered
	case len(noopsA) == len(noopsB) && len(relaysA) == len(relaysB):
		if !ordered || slices.Equal(unmarked(a), unmarked(b)) {
			return "", false
		}
		final = true
	}
	return fmt.Sprintf("gearmand %s\n\tours     %s", unmarked(a), unmarked(b)), final
}

// A gearmanReferee plays histories of Gearman.
type gearmanReferee struct {
	*game
	k     gearmanState
	marks int
}

func newGearmanReferee(g *game) referee {
	return &gearmanReferee{game: g, k: gearmanState{
		conns: make([]gearmanConn, g.h.Conns), limited: map[string]bool{}, few: slices.Contains(g.h.Flags, "--worker-wakeup"),
	}}
}

func (r *gearmanReferee) event(e event) error {
	c, leaves := &r.k.conns[e.Conn], e.Kind == eventClose || e.Kind == eventReset
	if leaves && !c.open || (leaves || e.Kind == eventDie) && !r.k.mayClose(e.Conn) {
		return nil
	}
	switch e.Kind {
	case eventClose:
		return r.depart(e.Conn, "close")
	case eventReset:
		return r.depart(e.Conn, "rst")
	}
	if !c.open {
		if err := r.open(e.Conn); err != nil {
			return err
		}
		*c = gearmanConn{open: true}
		if err := r.compareStep(anyOrder); err != nil {
			return err
		}
	}
	if err := r.finish(e.Conn); err != nil {
		return err
	}
	if e.Kind == eventSend {
		return r.sendAll(e)
	}
	cut := int(e.Cuts[0] >> 8)
	text := parted[int(e.Cuts[0])%len(parted)]
	if e.Kind == eventDie {
		text = packet([]uint32{7, 18}[e.Cuts[0]%2], "f", "u", strings.Repeat("half", 50))
	}
	n := 1 + cut%(len(text)-1)
	if err := r.say(e.Conn, text[:n]); err != nil {
		return err
	}
	if e.Kind == eventDie {
		return r.depart(e.Conn, "close")
	}
	c.rest = text[n:]
	return nil
}

// end finishes and compares what is left.
func (r *gearmanReferee) end() error {
	for i := range r.k.conns {
		if err := r.finish(i); err != nil {
			return err
		}
		if err := r.compareStep(anyOrder); err != nil {
			return err
		}
	}
	return nil
}

// finish sends the rest of a request that was sent in part.
func (r *gearmanReferee) finish(i int) error {
	c := &r.k.conns[i]
	rest := c.rest
	if c.rest = ""; rest == "" {
		return nil
	}
	return r.exchange(i, []request{{bytes: rest}}, nil)
}

// sendAll sends those actions of an event that can be compared.
func (r *gearmanReferee) sendAll(e event) error {
	var all []request
	c := &r.k.conns[e.Conn]
	c.grabbed = false
	for _, a := range e.Actions {
		d := gearmanDraw{Rand: a.rand(), k: &r.k, i: e.Conn, c: c, behind: len(all) > 0}
		d.function, d.end = of(d, r.h.Names), of(d, []string{"\n", "\r\n"})
		q, ok := gearmanOps[a.Op].render(d)
		if !ok {
			r.c.PassedOver++
			continue
		}
		r.c.Compared++
		if q.ends {
			return r.cutOff(e.Conn, q)
		}
		if all = append(all, q); q.alone {
			break
		}
	}
	if len(all) == 0 {
		return nil
	}
	return r.exchange(e.Conn, all, e.Cuts)
}

// cutOff sends what ends a connection.
func (r *gearmanReferee) cutOff(i int, q request) error {
	if err := r.say(i, q.bytes); err != nil {
		return err
	}
	if err := r.ends(i); err != nil {
		return err
	}
	for n := range r.sides {
		if got := r.sides[n].got[i]; len(got) > 0 {
			return fmt.Errorf("%s sends %q on %c before it closes it", sideName(n), got, 'a'+i)
		}
	}
	return r.depart(i, "close")
}

func (r *gearmanReferee) depart(i int, action string) error {
	if err := r.act(i, action); err != nil {
		return err
	}
	r.k.close(i)
	return r.compareStep(anyOrder)
}

// mark returns the request and the answer of the next mark.
func (r *gearmanReferee) mark() (request, answer string) {
	r.marks++
	text := fmt.Sprint(markPrefix, r.marks)
	return packet(16, text), response(17, text)
}

// exchange sends requests, each followed by a mark, cut into pieces, and receives all messages of
// both servers on all connections.
func (r *gearmanReferee) exchange(i int, all []request, cuts []uint32) error {
	var rest, last string
	for _, q := range all {
		r.note(i, "> "+Gearman.describe([]byte(q.bytes)))
		request, answer := r.mark()
		rest, last = rest+q.bytes+request, answer
	}
	for _, cut := range cuts {
		n := int(cut) % len(rest)
		r.note(i, fmt.Sprintf(">> %d bytes of that, then more", n))
		if err := r.send(i, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
		for n := range r.sides { // so that the pieces are read one by one
			if _, err := r.ask(n, packet(16, "look"), cutPacket); err != nil {
				return err
			}
		}
	}
	if err := r.send(i, rest); err != nil {
		return err
	}
	if err := r.reach(i, last); err != nil {
		return err
	}
	r.learn(i, all)
	cancelled := all[0].cancel
	if cancelled != nil {
		cancelled.cancelled = true
	}
	how := order{actor: -1, unordered: all[0].loses}
	if len(all) == 1 && all[0].job != nil {
		how.actor = i
	}
	if err := r.compareStep(how); err != nil {
		return err
	}
	if cancelled != nil {
		cancelled.silent = true
	}
	return nil
}

// reach waits for the answer of a mark on both sides.
func (r *gearmanReferee) reach(i int, answer string) error {
	for n := range r.sides {
		s := &r.sides[n]
		if slices.Contains(s.got[i], answer) {
			continue
		}
		s.conns[i].await(r.max, func(b []byte, _ bool) bool { return strings.Contains(string(b), answer) })
		if r.receive(i); !slices.Contains(s.got[i], answer) {
			return fmt.Errorf("%s, on %c: no answer behind %s", sideName(n), 'a'+i, Gearman.describe([]byte(strings.Join(s.got[i], ""))))
		}
	}
	return nil
}

// normalList makes the lines of a list comparable: their order is free. Of workers the
// descriptor is, and the order of functions, which gearmand's --round-robin changes.
func (r *gearmanReferee) normalList(n int, list string, lines []string) []string {
	lines = slices.Clone(lines)
	if n == 0 {
		lines = r.k.exorcise(list, lines)
	}
	if list == "workers" {
		for i, line := range lines {
			_, rest, _ := strings.Cut(line, " ")
			id, functions, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), " :")
			words := strings.Split(functions, " ")
			slices.Sort(words)
			lines[i] = id + " :" + strings.Join(words, " ")
		}
	}
	slices.Sort(lines)
	return lines
}

// learn updates the state from gearmand's replies.
func (r *gearmanReferee) learn(i int, all []request) {
	got := r.sides[0].got[i]
	for _, q := range all {
		for ; len(got) > 0; got = got[1:] {
			m := parseMessage(got[0])
			if isMark(m) {
				got = got[1:]
				break
			}
			switch m.kind {
			case 8:
				job := *q.job
				job.handle = m.body
				r.k.created(i, job)
			case 11, 31, 40:
				r.k.assigned(i, m.arg())
			}
			if !m.unasked() {
				r.note(i, "< "+m.String())
			}
		}
	}
}

// compareStep compares what both servers have sent on all connections in the step that is
// over, and the lists that an administrator can see.
func (r *gearmanReferee) compareStep(how order) error {
	if err := r.until(r.agree); err != nil {
		return err
	}
	request, answer := r.mark()
	for _, do := range []func(i int) error{
		func(i int) error { return r.send(i, request) },
		func(i int) error { return r.reach(i, answer) },
	} {
		for i, c := range r.k.conns {
			if c.open && c.rest == "" {
				if err := do(i); err != nil {
					return err
				}
			}
		}
	}
	for i, c := range r.k.conns {
		if !c.open {
			continue
		}
		if err := r.until(func() (string, bool, error) { return r.compare(i, how) }); err != nil {
			return fmt.Errorf("on %c: %w", 'a'+i, err)
		}
	}
	return nil
}

// compare compares what was sent on connection i. What is not asked for may still come.
func (r *gearmanReferee) compare(i int, how order) (why string, final bool, err error) {
	var got [2][]message
	r.receive(i)
	for n := range got {
		for _, b := range r.sides[n].got[i] {
			got[n] = append(got[n], parseMessage(b))
		}
	}
	got[0] = r.normal(got[0])
	if why, final = differ(got[0], got[1], how.actor == i, how.unordered); why != "" {
		return why, final, nil
	}
	for _, m := range got[0] {
		if m.unasked() {
			r.note(i, "< "+m.String())
		}
	}
	r.sides[0].got[i], r.sides[1].got[i] = nil, nil
	return "", false, nil
}

// normal returns what gearmand should have sent (tag I): WORK_FAIL has only the handle, and nothing
// follows about a job that was cancelled.
func (r *gearmanReferee) normal(all []message) (out []message) {
	for _, m := range all {
		if m.kind == 14 {
			m.body = m.arg()
		}
		if m.unasked() && slices.ContainsFunc(r.k.jobs, func(j *gearmanJob) bool { return j.silent && j.handle == m.arg() }) {
			continue
		}
		out = append(out, m)
	}
	return out
}

// agree asks both for all lists, and returns how they differ. Our server has several threads, and
// may still work for another connection when it replies.
func (r *gearmanReferee) agree() (why string, final bool, err error) {
	var got [2][][]string
	for n := range got {
		for _, list := range lists {
			reply, err := r.ask(n, list+"\n", cutList)
			if err != nil {
				return "", false, err
			}
			got[n] = append(got[n], slices.Collect(strings.Lines(strings.TrimSuffix(reply, ".\n"))))
		}
	}
	open := 1
	for _, c := range r.k.conns {
		if c.open {
			open++
		}
	}
	if n := len(got[0][0]); n != open {
		return fmt.Sprintf("gearmand counts %d connections, want %d", n, open), false, nil
	}
	r.k.listed(got[0][3])
	for i, list := range lists {
		if a, b := r.normalList(0, list, got[0][i]), r.normalList(1, list, got[1][i]); !slices.Equal(a, b) {
			return fmt.Sprintf("%s\n\tgearmand %q\n\tours     %q", list, a, b), false, nil
		}
	}
	return "", false, nil
}
