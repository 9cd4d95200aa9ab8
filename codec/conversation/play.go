package conversation

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// lineMax bounds how long Play waits for the end of one line: a body of the
// default max-job-size fits many times over.
const lineMax = 32 << 20

// A player holds what arrived but was not yet asked for.
type player struct {
	t     *Transcript
	d     Driver
	o     Options
	names binding
	bufs  map[string][]byte
	ended map[string]bool // the server closed, and the buffer is all there is
	conns []string        // in the order they were first named, closed ones removed
}

func newPlayer(t *Transcript, d Driver, o Options) *player {
	return &player{t: t, d: d, o: o, names: binding{}, bufs: map[string][]byte{}, ended: map[string]bool{}}
}

// Play runs the whole conversation. The error names file and line, what
// arrived and what should have. Bytes that arrive and are expected nowhere are
// an error too.
func Play(t *Transcript, d Driver, o Options) error {
	p := newPlayer(t, d, o)
	for i := 0; i < len(t.Steps); i++ {
		s := t.Steps[i]
		if s.expects() && s.Kind != KindFill {
			n, err := p.expect(t.Steps[i:])
			if err != nil {
				return p.errorf(s, err)
			}
			i += n - 1
			continue
		}
		if err := p.act(s); err != nil {
			return p.errorf(s, err)
		}
	}
	for _, conn := range p.conns {
		if err := p.nothing(conn); err != nil {
			return fmt.Errorf("%s.txt: after the end, on %s: %w", t.Name, conn, err)
		}
	}
	return nil
}

func (p *player) errorf(s Step, err error) error {
	return fmt.Errorf("%s.txt:%d: %s:\n\t%w", p.t.Name, s.Line, abbreviate(s.String()), err)
}

// act runs a step that expects nothing.
func (p *player) act(s Step) error {
	switch s.Kind {
	case KindComment:
		return nil
	case KindFill:
		return errors.New("fill in the replies with -rewrite")
	case KindSend, KindSendRaw:
		b, err := p.names.expand(s.Text)
		if err != nil {
			return err
		}
		if s.Kind == KindSend {
			b = append(b, "\r\n"...)
		}
		p.know(s.Conn)
		return p.d.Send(s.Conn, b)
	case KindHalfClose:
		p.know(s.Conn)
		return p.d.HalfClose(s.Conn)
	case KindClose:
		if err := p.nothing(s.Conn); err != nil {
			return err
		}
		p.forget(s.Conn)
		return p.d.Close(s.Conn)
	case KindAdvance:
		return p.d.Advance(s.Wait)
	case KindAwait:
		return p.d.Await(s.Key, s.Value)
	case KindDrain:
		return p.d.Drain()
	}
	return fmt.Errorf("step cannot be run here")
}

// know remembers that conn is open.
func (p *player) know(conn string) {
	if slices.Contains(p.conns, conn) {
		return
	}
	p.conns = append(p.conns, conn)
}

func (p *player) forget(conn string) {
	kept := p.conns[:0]
	for _, c := range p.conns {
		if c != conn {
			kept = append(kept, c)
		}
	}
	p.conns = kept
	delete(p.bufs, conn)
	delete(p.ended, conn)
}

// expect checks the step at the front and returns how many it used: a YAML
// head takes its lines with it.
func (p *player) expect(steps []Step) (int, error) {
	s := steps[0]
	p.know(s.Conn)
	switch s.Kind {
	case KindNothing:
		return 1, p.nothing(s.Conn)
	case KindEOF:
		return 1, p.eof(s.Conn)
	case KindBody:
		return 1, errors.New("YAML line without an OK {size} before it")
	}
	line, err := p.line(s.Conn)
	if err != nil {
		return 1, fmt.Errorf("%w\n\twant %s", err, abbreviate(s.Text))
	}
	size, err := p.names.match(s.Text, line)
	if err != nil || size < 0 {
		return 1, err
	}
	lines, err := p.yaml(s.Conn, size)
	if err != nil {
		return 1, err
	}
	n := 1
	for ; n < len(steps) && steps[n].Kind == KindBody && steps[n].Conn == s.Conn; n++ {
		want := steps[n].Text
		if p.o.Unquoted {
			want = unquote(want)
		}
		if n > len(lines) {
			return n, fmt.Errorf("YAML ends before %s", want)
		}
		if _, err := p.names.match(want, lines[n-1]); err != nil {
			return n, fmt.Errorf("in line %d of it: %w", n, err)
		}
	}
	if len(lines) > n-1 {
		return n, fmt.Errorf("YAML goes on: %s", escape(lines[n-1]))
	}
	return n, nil
}

// line takes one line off the connection, without its CRLF.
func (p *player) line(conn string) ([]byte, error) {
	for {
		if i := bytes.Index(p.bufs[conn], []byte("\r\n")); i >= 0 {
			return p.take(conn, i, 2), nil
		}
		if len(p.bufs[conn]) > lineMax {
			return nil, fmt.Errorf("no line end in %d bytes", len(p.bufs[conn]))
		}
		if err := p.more(conn); err != nil {
			return nil, err
		}
	}
}

// yaml takes a body of size bytes and its CRLF, and returns its lines.
func (p *player) yaml(conn string, size int) ([][]byte, error) {
	if size > lineMax {
		return nil, fmt.Errorf("body of %d bytes", size)
	}
	for len(p.bufs[conn]) < size+2 {
		if err := p.more(conn); err != nil {
			return nil, fmt.Errorf("%w, wanting a body of %d bytes", err, size)
		}
	}
	if end := p.bufs[conn][size : size+2]; string(end) != "\r\n" {
		return nil, fmt.Errorf("body of %d bytes ends with %s", size, escape(end))
	}
	body := p.take(conn, size, 2)
	if size == 0 || body[size-1] != '\n' {
		return nil, fmt.Errorf("YAML does not end with a line: %s", escape(body))
	}
	return bytes.Split(body[:size-1], []byte("\n")), nil
}

func (p *player) take(conn string, n, drop int) []byte {
	b := p.bufs[conn]
	p.bufs[conn] = b[n+drop:]
	return b[:n:n]
}

// more waits for at least one more byte.
func (p *player) more(conn string) error {
	if p.ended[conn] {
		return fmt.Errorf("got  EOF after %q", p.bufs[conn])
	}
	b, err := p.d.Recv(conn, true)
	p.bufs[conn] = append(p.bufs[conn], b...)
	switch {
	case errors.Is(err, io.EOF):
		p.ended[conn] = true
		if len(b) == 0 {
			return fmt.Errorf("got  EOF after %q", p.bufs[conn])
		}
		return nil
	case err != nil:
		return err
	case len(b) == 0:
		return fmt.Errorf("got  nothing after %q", p.bufs[conn])
	}
	return nil
}

func (p *player) nothing(conn string) error {
	if len(p.bufs[conn]) == 0 && !p.ended[conn] {
		b, err := p.d.Recv(conn, false)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		p.bufs[conn] = append(p.bufs[conn], b...)
		p.ended[conn] = err != nil
	}
	if b := p.bufs[conn]; len(b) > 0 {
		return fmt.Errorf("got  %s\n\twant nothing", abbreviate(escape(b)))
	}
	return nil
}

func (p *player) eof(conn string) error {
	for !p.ended[conn] && len(p.bufs[conn]) == 0 {
		b, err := p.d.Recv(conn, true)
		p.bufs[conn] = append(p.bufs[conn], b...)
		if errors.Is(err, io.EOF) {
			p.ended[conn] = true
		} else if err != nil {
			return err
		} else if len(b) == 0 {
			return errors.New("the connection stays open")
		}
	}
	if b := p.bufs[conn]; len(b) > 0 {
		return fmt.Errorf("got  %s\n\twant EOF", abbreviate(escape(b)))
	}
	return nil
}
