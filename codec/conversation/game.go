package conversation

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// A game plays one history on two servers in lock-step. The next event is sent only after both
// have sent all replies to the last one, so the commands have the same order on both.
type game struct {
	c     *Campaign
	h     history
	sides [2]side // the reference and ours
	log   []string
	max   time.Duration // timeout for a reply
}

// A side is one server of a game.
type side struct {
	address string
	control *stream
	conns   []*stream  // nil: not open
	got     [][]string // messages on each connection that were not compared yet
}

// A referee knows one protocol. It plays the events of a history that can be compared, and
// compares what both servers send.
type referee interface {
	event(e event) error
	end() error
}

func sideName(n int) string { return [...]string{"reference", "ours"}[n] }

// join connects to a server. A server counts a connection when it accepts it, which the reply
// shows: both protocols answer the question with a line.
func (g *game) join(n int, address string) (err error) {
	g.sides[n] = side{address: address, conns: make([]*stream, g.h.Conns), got: make([][]string, g.h.Conns)}
	if g.sides[n].control, err = dialStream("tcp", address); err != nil {
		return err
	}
	_, err = g.ask(n, "version\r\n", func(b []byte) int { return bytes.IndexByte(b, '\n') + 1 })
	return err
}

// hangUp closes all connections.
func (g *game) hangUp() {
	for _, s := range g.sides {
		for _, c := range append(s.conns, s.control) {
			if c != nil {
				c.Close()
			}
		}
	}
}

func (g *game) play() error {
	var r referee
	if g.c.Protocol == Gearman {
		r = newGearmanReferee(g)
	} else {
		r = newBeanstalkReferee(g)
	}
	for _, e := range g.h.Events {
		if err := r.event(e); err != nil {
			return err
		}
	}
	return r.end()
}

func (g *game) note(i int, what string) { g.log = append(g.log, string(rune('a'+i))+what) }

// open connects on both sides.
func (g *game) open(i int) (err error) {
	for n := range g.sides {
		if g.sides[n].conns[i], err = dialStream("tcp", g.sides[n].address); err != nil {
			return err
		}
	}
	return nil
}

// send writes the same on both sides.
func (g *game) send(i int, b string) error {
	for n := range g.sides {
		if err := g.sides[n].conns[i].send([]byte(b)); err != nil {
			return fmt.Errorf("%s: %w", sideName(n), err)
		}
	}
	return nil
}

// say notes and sends the same on both sides.
func (g *game) say(i int, b string) error {
	g.note(i, ">> "+clip(escape([]byte(b))))
	return g.send(i, b)
}

// act does halfclose, close or rst on both sides.
func (g *game) act(i int, action string) error {
	g.note(i, "! "+action)
	for n := range g.sides {
		s := &g.sides[n]
		if err := s.conns[i].act(action); err != nil {
			return err
		}
		if action != "halfclose" {
			s.conns[i], s.got[i] = nil, nil
		}
	}
	return nil
}

// receive takes the whole messages that have arrived on a connection, on both sides.
func (g *game) receive(i int) {
	for n := range g.sides {
		s := &g.sides[n]
		s.got[i] = append(s.got[i], s.conns[i].messages(g.c.Protocol)...)
	}
}

// messages takes the whole messages that have arrived.
func (s *stream) messages(p *Protocol) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		n := p.cut(s.buf)
		if n == 0 {
			return all
		}
		all = append(all, string(s.buf[:n]))
		s.buf = s.buf[n:]
	}
}

// ends checks that both servers close a connection, and receives what they sent before.
func (g *game) ends(i int) error {
	for n := range g.sides {
		c := g.sides[n].conns[i]
		if !c.await(g.max, func(_ []byte, ended bool) bool { return ended }) {
			return fmt.Errorf("%s does not close %c", sideName(n), 'a'+i)
		}
	}
	g.receive(i)
	return nil
}

// ask sends a question on the control connection of a side, and returns the reply; whole
// returns its length.
func (g *game) ask(n int, question string, whole func(b []byte) int) (string, error) {
	c := g.sides[n].control
	if err := c.send([]byte(question)); err != nil {
		return "", err
	}
	size := 0
	if !c.await(g.max, func(b []byte, _ bool) bool { size = whole(b); return size > 0 }) {
		b, ended := c.take(-1)
		return "", fmt.Errorf("%s does not answer %.60q: %.200q (closed: %t)", sideName(n), question, b, ended)
	}
	b, _ := c.take(size)
	return string(b), nil
}

// until calls try until it returns no reason to continue, or the time is up: a server may still be
// working on an earlier command. final says that more time changes nothing.
func (g *game) until(try func() (why string, final bool, err error)) error {
	for end := time.Now().Add(g.max); ; time.Sleep(200 * time.Microsecond) {
		why, final, err := try()
		if err != nil || why == "" {
			return err
		}
		if final || time.Now().After(end) {
			return errors.New(why)
		}
	}
}
