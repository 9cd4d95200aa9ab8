package conversation

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
)

// Rewrite plays the conversation and returns the file with the expectations a
// server gave, wherever expectations or a ? stood before. A line that still
// matches stays as it was written, so placeholders survive.
func Rewrite(t *Transcript, d Driver, o Options) (string, error) {
	p := newPlayer(t, d, o)
	var out []string
	for i := 0; i < len(t.Steps); {
		s := t.Steps[i]
		if !s.expects() {
			if err := p.act(s); err != nil {
				return "", p.errorf(s, err)
			}
			out = append(out, s.String())
			i++
			continue
		}
		n := i
		for n < len(t.Steps) && t.Steps[n].expects() {
			if t.Steps[n].Conn != "" {
				p.know(t.Steps[n].Conn)
			}
			n++
		}
		lines, err := p.gather(t.Steps[i:n])
		if err != nil {
			return "", p.errorf(s, err)
		}
		out = append(out, lines...)
		i = n
	}
	return strings.Join(out, "\n") + "\n", nil
}

// gather reads what arrives on all connections until they are silent, in the
// order in which the old expectations name them.
func (p *player) gather(old []Step) ([]string, error) {
	var order []string
	add := func(conn string) {
		if slices.Contains(order, conn) {
			return
		}
		order = append(order, conn)
	}
	silent := map[string]bool{}
	for _, s := range old {
		if s.Conn != "" {
			add(s.Conn)
			silent[s.Conn] = silent[s.Conn] || s.Kind == KindNothing
		}
	}
	for _, c := range p.conns {
		add(c)
	}
	var out []string
	for _, conn := range order {
		var mine []Step
		for _, s := range old {
			if s.Conn == conn && (s.Kind == KindExpect || s.Kind == KindBody) {
				mine = append(mine, s)
			}
		}
		fresh, err := p.arrivals(conn)
		if err != nil {
			return nil, err
		}
		if len(fresh) == 0 && silent[conn] {
			fresh = []Step{{Kind: KindNothing, Conn: conn}}
		}
		for i, s := range fresh {
			if i < len(mine) && mine[i].Kind == s.Kind && p.still(mine[i].Text, s.raw()) {
				s.Text = mine[i].Text
			}
			out = append(out, s.String())
		}
	}
	return out, nil
}

// raw gives the bytes a freshly rendered expectation stands for, as far as
// they are literal.
func (s Step) raw() []byte {
	b, err := binding{}.expand(s.Text)
	if err != nil {
		return nil
	}
	return b
}

func (p *player) still(pattern string, line []byte) bool {
	if line == nil {
		return false
	}
	_, err := p.names.match(pattern, line)
	return err == nil
}

// arrivals renders all that arrives on a connection.
func (p *player) arrivals(conn string) ([]Step, error) {
	if p.ended[conn] {
		return nil, nil
	}
	for !p.ended[conn] {
		b, err := p.d.Recv(conn, false)
		p.bufs[conn] = append(p.bufs[conn], b...)
		if errors.Is(err, io.EOF) {
			p.ended[conn] = true
		} else if err != nil {
			return nil, err
		} else if len(b) == 0 {
			break
		}
	}
	var steps []Step
	for len(p.bufs[conn]) > 0 {
		line, err := p.line(conn)
		if err != nil {
			return nil, err
		}
		if size, ok := bytes.CutPrefix(line, []byte("OK ")); ok {
			n := 0
			for _, c := range size {
				n = n*10 + int(c-'0')
			}
			lines, err := p.yaml(conn, n)
			if err != nil {
				return nil, err
			}
			steps = append(steps, Step{Kind: KindExpect, Conn: conn, Text: "OK {size}"})
			stats := isStats(bytes.Join(lines, []byte("\n")))
			for _, l := range lines {
				steps = append(steps, Step{Kind: KindBody, Conn: conn, Text: template(l, stats)})
			}
			continue
		}
		steps = append(steps, Step{Kind: KindExpect, Conn: conn, Text: escape(line)})
	}
	if p.ended[conn] {
		steps = append(steps, Step{Kind: KindEOF, Conn: conn})
	}
	return steps, nil
}
