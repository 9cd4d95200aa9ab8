package conversation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A beanstalkReferee plays histories of beanstalkd's protocol.
type beanstalkReferee struct {
	*game
	k beanstalkState
}

func newBeanstalkReferee(g *game) referee {
	return &beanstalkReferee{
		game: g,
		k:    beanstalkState{conns: make([]beanstalkConn, g.h.Conns), tube: map[uint64]string{}, tubes: g.h.Names, unquoted: isUnquoted(g.c.Version), soon: g.h.Soon},
	}
}

func (r *beanstalkReferee) event(e event) error {
	c := &r.k.conns[e.Conn]
	waits := len(c.owed) > 0
	switch {
	case e.Kind == eventSend:
		if waits || len(e.Actions) == 0 {
			return nil
		}
		if !c.open {
			*c = beanstalkConn{open: true, use: "default", watch: []string{"default"}}
			if err := r.open(e.Conn); err != nil {
				return err
			}
		}
		return r.sendAll(e.Conn, e.Actions)
	case !c.open || r.k.contested(e.Conn), waits && e.Kind != eventClose && e.Kind != eventHalfClose:
		return nil
	case e.Kind == eventHalfClose:
		return r.halfClose(e.Conn)
	case e.Kind == eventDie:
		if err := r.say(e.Conn, "put 1 0 100 1000\r\nhalf a body"); err != nil {
			return err
		}
	case e.Kind == eventQuit:
		if err := r.say(e.Conn, "quit\r\n"); err != nil {
			return err
		}
		return r.ended(e.Conn)
	}
	return r.depart(e.Conn)
}

// sendAll sends actions in one write, and receives their replies. Only the first action may be a
// reserve that blocks.
func (r *beanstalkReferee) sendAll(i int, actions []action) error {
	blocks := beanstalkOps[actions[0].Op].blocks && !r.k.crowded(i)
	if blocks && r.k.tailed() {
		actions = actions[:1]
	}
	if r.k.waiting() > 0 {
		// A connection that is served runs on at the same time as the commands after the
		// one that served it: they are not sent.
		if n := slices.IndexFunc(actions, func(a action) bool { return beanstalkOps[a.Op].wakes }); n >= 0 {
			actions = actions[:n+1]
		}
	}
	var text strings.Builder
	for n, a := range actions {
		// The reference does not read on while a reserve waits: what does not fit its
		// socket would keep a half-close from arriving.
		op := beanstalkOps[a.Op]
		sent := op.render(draw{a.rand(), &r.k, i, blocks})
		if op.blocks && !(blocks && n == 0) {
			sent = reserveNow
		}
		text.WriteString(sent)
		r.k.conns[i].owed = append(r.k.conns[i].owed, sent)
		r.c.Compared++
	}
	r.note(i, ">> "+escape([]byte(text.String())))
	if err := r.send(i, text.String()); err != nil {
		return err
	}
	return r.settle(i)
}

// settle receives all messages that the last event, of connection i, causes on both servers: until
// their stats are equal and show which commands still wait.
func (r *beanstalkReferee) settle(i int) error {
	err := r.until(func() (string, bool, error) {
		stats, why, err := r.survey()
		if err != nil {
			return "", false, err
		}
		open, outstanding := uint64(1), uint64(0)
		for n := range r.k.conns {
			j := (i + n) % len(r.k.conns) // i's are the first
			c := &r.k.conns[j]
			if !c.open {
				continue
			}
			open++
			r.receive(j)
			if wrong := r.compare(j); wrong != "" {
				return wrong, true, nil
			}
			a, b := len(r.sides[0].got[j]), len(r.sides[1].got[j])
			if a != b && why == "" {
				why = fmt.Sprintf("on %c, of the replies to %q: reference %q, ours %q", 'a'+j, clip(strings.Join(c.owed, "")), r.sides[0].got[j], r.sides[1].got[j])
			}
			if a < len(c.owed) {
				outstanding++
			}
		}
		for key, want := range map[string]uint64{"current-connections": open, "current-waiting": outstanding} {
			if n := number(stats, key); why == "" && n != want {
				why = fmt.Sprintf("both count %d as %s, want %d", n, key, want)
			}
		}
		return why, false, nil
	})
	if err != nil {
		return err
	}
	for n := range r.k.conns {
		r.answers((i + n) % len(r.k.conns))
	}
	return nil
}

// compare returns how the replies on a connection differ, as far as both have sent them.
func (r *beanstalkReferee) compare(i int) string {
	theirs, ours, owed := r.sides[0].got[i], r.sides[1].got[i], r.k.conns[i].owed
	if max(len(theirs), len(ours)) > len(owed) {
		return fmt.Sprintf("replies without a command on %c: reference %q, ours %q", 'a'+i, theirs, ours)
	}
	for n := range min(len(theirs), len(ours)) {
		if why := r.differ(theirs[n], ours[n], false); why != "" {
			return fmt.Sprintf("%q on %c: %s", clip(owed[n]), 'a'+i, why)
		}
	}
	return ""
}

// answers learns from the replies on a connection.
func (r *beanstalkReferee) answers(i int) {
	c, got := &r.k.conns[i], r.sides[0].got[i]
	for n, reply := range got {
		r.note(i, "< "+escape([]byte(strings.TrimSuffix(reply, "\r\n"))))
		r.k.learn(i, c.owed[n], reply)
	}
	c.owed = c.owed[len(got):]
	r.sides[0].got[i], r.sides[1].got[i] = nil, nil
}

// depart closes a connection. A connection that waits and has sent commands behind its reserve
// shuts down its sending side first and receives the replies: otherwise timing decides how many of
// the commands run.
func (r *beanstalkReferee) depart(i int) error {
	if len(r.k.conns[i].owed) > 1 {
		return r.halfClose(i)
	}
	r.k.conns[i] = beanstalkConn{}
	if err := r.act(i, "close"); err != nil {
		return err
	}
	return r.settle(i)
}

// halfClose shuts down the sending side: a connection that waits gets TIMED_OUT, the rest
// of its commands run, and the server closes.
func (r *beanstalkReferee) halfClose(i int) error {
	if err := r.act(i, "halfclose"); err != nil {
		return err
	}
	return r.ended(i)
}

// ended checks that all replies arrive on a connection, and then its end.
func (r *beanstalkReferee) ended(i int) error {
	if err := r.ends(i); err != nil {
		return err
	}
	if why := r.compare(i); why != "" {
		return errors.New(why)
	}
	if theirs, ours := r.sides[0].got[i], r.sides[1].got[i]; len(theirs) != len(ours) {
		return fmt.Errorf("before the end of %c: reference %q, ours %q", 'a'+i, theirs, ours)
	}
	r.answers(i)
	if owed := r.k.conns[i].owed; len(owed) > 0 {
		return fmt.Errorf("both close %c without a reply to %q", 'a'+i, clip(owed[0]))
	}
	return r.depart(i)
}

// end compares all visible state, closes the connections and deletes the jobs: nothing may be left.
func (r *beanstalkReferee) end() error {
	for i := range r.k.conns {
		for j := range r.k.conns { // connections that wait for what i has go first
			if r.k.conns[i].open && r.k.contested(i) && len(r.k.conns[j].owed) > 0 {
				if err := r.depart(j); err != nil {
					return err
				}
			}
		}
		if r.k.conns[i].open {
			if err := r.depart(i); err != nil {
				return err
			}
		}
	}
	asks := []string{"list-tubes", "list-tube-used"}
	for _, t := range r.k.tubes {
		asks = append(asks, "stats-tube "+t)
	}
	for _, id := range r.k.live {
		asks = append(asks, fmt.Sprintf("stats-job %d", id), fmt.Sprintf("peek %d", id))
	}
	for _, id := range r.k.live {
		asks = append(asks, fmt.Sprintf("delete %d", id))
	}
	for _, ask := range append(asks, "list-tubes") {
		if err := r.both(ask + "\r\n"); err != nil {
			return err
		}
	}
	if err := r.settle(0); err != nil {
		return err
	}
	stats, _, err := r.survey()
	for key, want := range map[string]uint64{"current-jobs-ready": 0, "current-jobs-reserved": 0, "current-jobs-delayed": 0, "current-jobs-buried": 0, "current-tubes": 1} {
		if n := number(stats, key); err == nil && n != want {
			err = fmt.Errorf("%d are left of %s, want %d", n, key, want)
		}
	}
	return err
}

// both compares the replies on the control connections.
func (r *beanstalkReferee) both(question string) error {
	theirs, ours, err := r.askBoth(question)
	if err != nil {
		return err
	}
	if why := r.differ(theirs, ours, false); why != "" {
		return fmt.Errorf("%q: %s", question, why)
	}
	return nil
}

func (r *beanstalkReferee) askBoth(question string) (theirs, ours string, err error) {
	if theirs, err = r.ask(0, question, cutReply); err == nil {
		ours, err = r.ask(1, question, cutReply)
	}
	return theirs, ours, err
}

// survey asks both sides for stats, equally often, and returns how they differ.
func (r *beanstalkReferee) survey() (stats, why string, err error) {
	theirs, ours, err := r.askBoth("stats\r\n")
	return theirs, r.differ(theirs, ours, true), err
}

// number returns the value of a key of a YAML body.
func number(body, key string) uint64 {
	_, rest, _ := strings.Cut(body, "\n"+key+": ")
	n, _ := strconv.ParseUint(rest[:countDigits([]byte(rest))], 10, 64)
	return n
}

// differ returns how two replies differ, or "". In YAML some values are not compared; surveys
// compare more of them, because they know how often stats was asked for.
func (r *beanstalkReferee) differ(theirs, ours string, survey bool) string {
	if theirs == ours {
		return ""
	}
	a, b := strings.Split(theirs, "\n"), strings.Split(ours, "\n")
	why := fmt.Sprintf("reference %q\n\tours      %q", clip(theirs), clip(ours))
	if !strings.HasPrefix(theirs, "OK ") || !strings.HasPrefix(ours, "OK ") || len(a) != len(b) {
		return why
	}
	stats := isStats([]byte(theirs))
	for i := 1; i < len(a); i++ { // the head follows from the lines
		if r.k.unquoted {
			b[i] = unquote(b[i])
		}
		key, x, _ := strings.Cut(a[i], ": ")
		key2, y, _ := strings.Cut(b[i], ": ")
		if a[i] == b[i] || key == key2 && (isVolatile(key, stats) || r.c.Journaled && onDisk(key) ||
			stats && !survey && key == "cmd-stats") {
			continue
		}
		n, errN := strconv.ParseInt(x, 10, 64)
		m, errM := strconv.ParseInt(y, 10, 64)
		if key != key2 || !timely[key] || errN != nil || errM != nil || n-m > 1 || m-n > 1 {
			return fmt.Sprintf("%q and %q\n\t%s", a[i], b[i], why)
		}
	}
	return ""
}
