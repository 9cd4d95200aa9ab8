package conversation

import (
	"slices"
	"strings"
)

// rewrite plays the conversation and returns its lines with the expectations that the
// server fulfilled, wherever expectations or a ? stood before. A line that still matches
// stays as it was written, so that placeholders survive.
func (c *Conversation) rewrite(d driver, o Options) (string, error) {
	p := newPlayer(c, d, o)
	var out []string
	for i := 0; i < len(c.Steps); {
		n := i
		for n < len(c.Steps) && c.Steps[n].expects() {
			if conn := c.Steps[n].Conn; conn != "" {
				p.opened(conn)
			}
			n++
		}
		lines := []step{c.Steps[i]}
		var err error
		if n > i {
			lines, err = p.gather(c.Steps[i:n])
		} else {
			n = i + 1
			_, err = p.step(lines)
		}
		if err != nil {
			return "", p.errorf(c.Steps[i], err)
		}
		for _, s := range lines {
			out = append(out, s.String())
		}
		i = n
	}
	return strings.Join(out, "\n") + "\n", nil
}

// gather reads what arrives on all connections until they are silent, in the order in
// which the old expectations name them.
func (p *player) gather(old []step) (fresh []step, err error) {
	var order []string
	for _, s := range old {
		if s.Conn != "" && !slices.Contains(order, s.Conn) {
			order = append(order, s.Conn)
		}
	}
	for conn := range p.bufs {
		if !slices.Contains(order, conn) {
			order = append(order, conn)
		}
	}
	for _, conn := range order {
		mine := slices.DeleteFunc(slices.Clone(old), func(s step) bool { return s.Conn != conn })
		steps, err := p.arrivals(conn)
		if err != nil {
			return nil, err
		}
		if len(steps) == 0 && slices.ContainsFunc(mine, func(s step) bool { return s.Kind == kindNothing }) {
			steps = []step{{Kind: kindNothing, Conn: conn}}
		}
		for i, s := range steps {
			if i < len(mine) && mine[i].Kind == s.Kind && p.still(mine[i], s) {
				s = mine[i]
			}
			fresh = append(fresh, s)
		}
	}
	return fresh, nil
}

// still reports whether an old expectation matches what a fresh one was made of.
func (p *player) still(old, fresh step) bool {
	if old.Text == fresh.Text {
		return true
	}
	tokens, err := p.c.Protocol.pattern(fresh)
	if err != nil {
		return false
	}
	b, err := p.v.expand(tokens)
	if err != nil {
		return false
	}
	if tokens, err = p.c.Protocol.pattern(old); err != nil {
		return false
	}
	n, _, err := p.v.match(tokens, b)
	return err == nil && n == len(b)
}

// arrivals returns all that arrives on a connection as expectations.
func (p *player) arrivals(conn string) (all []step, err error) {
	closed := p.ended[conn]
	for more := true; more; {
		if more, err = p.more(conn, false); err != nil {
			return nil, err
		}
	}
	for len(p.bufs[conn]) > 0 {
		steps, n := p.c.Protocol.show(p.bufs[conn])
		if n == 0 {
			steps, n = []step{{Kind: kindExpectRaw, Text: escape(p.bufs[conn])}}, len(p.bufs[conn])
		}
		p.take(conn, n)
		for _, s := range steps {
			s.Conn = conn
			all = append(all, s)
		}
	}
	if p.ended[conn] && !closed {
		all = append(all, step{Kind: kindEOF, Conn: conn})
	}
	return all, nil
}
