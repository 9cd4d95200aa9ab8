package conversation

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A driver carries a conversation to one server: a simulated one, or a real one over a
// socket. It begins without connections. One goroutine uses it.
type driver interface {
	// Send writes b on the named connection, and opens it first if need be. It must not keep b.
	Send(conn string, b []byte) error
	// Recv returns bytes that arrived on the named connection, and opens it first if need be. With
	// wait it gives the server ample time, else only enough to conclude that nothing comes. It
	// returns nil, nil when nothing came, and nil, io.EOF after the server has closed and
	// everything was returned. Simulated servers run until they are idle in both cases.
	Recv(conn string, wait bool) ([]byte, error)
	// Act does open, halfclose, close or rst to the named connection.
	Act(conn, action string) error
	// Advance lets time pass.
	Advance(d time.Duration) error
	// Now returns the server's time of day, Uptime a clock that never jumps.
	Now() time.Time
	Uptime() time.Duration
	// Await returns once the key of stats, or the list, has the value. The driver's own
	// connections are not counted. Simulated servers just run until they are idle.
	Await(key, value string) error
	// Server does drain, alive, kill, start, exits or SIGTERM to the server.
	Server(verb string) error
}

// Options describes the server.
type Options struct {
	Version   string // replaces {version}; a beanstalkd before 1.13 writes no quotes in YAML
	Host      string // replaces {host}: the address that the server sees; default 127.0.0.1
	Journaled bool   // it keeps a journal: its figures in stats are not compared
}

// A player holds the bytes that have arrived and that no step has expected yet.
type player struct {
	c      *Conversation
	d      driver
	o      Options
	v      values
	begun  time.Duration
	bufs   map[string][]byte // of each open connection
	ended  map[string]bool   // the server closed, and the buffer is all there is
	exited bool              // the server was killed, or ended as it should
}

func newPlayer(c *Conversation, d driver, o Options) *player {
	vars := map[string]string{"version": o.Version, "host": cmp.Or(o.Host, "127.0.0.1")}
	return &player{
		c: c, d: d, o: o, v: values{vars: vars, names: map[string]string{}, now: d.Now}, begun: d.Uptime(),
		bufs: map[string][]byte{}, ended: map[string]bool{},
	}
}

// Play runs the conversation. The error names file and line, what arrived and what was
// expected. Bytes that no step expects are an error too, and so is a dead server.
func (c *Conversation) Play(d driver, o Options) error {
	p := newPlayer(c, d, o)
	for i := 0; i < len(c.Steps); {
		n, err := p.step(c.Steps[i:])
		if err != nil {
			return p.errorf(c.Steps[i], err)
		}
		i += n
	}
	err := p.finish()
	if err != nil {
		err = fmt.Errorf("%s %s: after the last step: %w", c.file, c.Name, err)
	}
	return err
}

func (p *player) errorf(s step, err error) error {
	return fmt.Errorf("%s:%d: %s [%s] %s: %s\n\t%w", p.c.file, s.Line, p.c.Name, p.c.Tag, p.c.Title, clip(s.Src), err)
}

// finish checks that the server is alive and that no byte is unread.
func (p *player) finish() error {
	if !p.exited {
		if err := p.d.Server("alive"); err != nil {
			return fmt.Errorf("the server is not alive: %w", err)
		}
	}
	for _, conn := range slices.Sorted(maps.Keys(p.bufs)) {
		if err := p.nothing(conn); err != nil {
			return fmt.Errorf("on %s: %w", conn, err)
		}
	}
	return nil
}

// opened adds conn to the connections of the conversation.
func (p *player) opened(conn string) {
	if _, known := p.bufs[conn]; !known {
		p.bufs[conn] = nil
	}
}

// step runs the first of steps, and returns how many steps it used: the head of a YAML
// body takes the body's lines with it.
func (p *player) step(steps []step) (n int, err error) {
	s := steps[0]
	if s.Conn != "" {
		p.opened(s.Conn)
	}
	if !s.expects() {
		return 1, p.act(s)
	}
	switch s.Kind {
	case kindBody:
		return 1, errors.New("YAML line without an OK {size} before it")
	case kindNothing:
		if err := p.nothing(s.Conn); err != nil || !p.ended[s.Conn] {
			return 1, err
		}
		return 1, p.mismatch(s.Conn, "nothing", nil)
	case kindEOF:
		return 1, p.eof(s.Conn)
	case kindExpectSet:
		return 1, p.set(s)
	}
	size, err := p.next(s)
	if err != nil || size < 0 {
		return 1, err
	}
	return p.body(steps, size)
}

// act runs a step that expects nothing.
func (p *player) act(s step) error {
	switch s.Kind {
	case kindSend, kindSendRaw, kindSendSlowly:
		tokens, err := p.c.Protocol.pattern(s)
		if err != nil {
			return err
		}
		b, err := p.v.expand(tokens)
		if err != nil || s.Kind != kindSendSlowly {
			return errors.Join(err, p.d.Send(s.Conn, b))
		}
		for i := range b {
			if err := errors.Join(p.d.Send(s.Conn, b[i:i+1]), p.d.Advance(time.Millisecond)); err != nil {
				return err
			}
		}
	case kindAct:
		if s.Text == "close" || s.Text == "rst" {
			if err := p.nothing(s.Conn); err != nil {
				return err
			}
			delete(p.bufs, s.Conn)
			delete(p.ended, s.Conn)
		}
		return p.d.Act(s.Conn, s.Text)
	case kindAdvance:
		return p.d.Advance(s.Wait)
	case kindAwait:
		tokens, err := compile(s.Text)
		if err != nil {
			return err
		}
		value, err := p.v.expand(tokens)
		if err != nil {
			return err
		}
		return p.d.Await(s.Key, string(value))
	case kindServer:
		switch s.Text {
		case "kill":
			clear(p.bufs)
			clear(p.ended)
			p.exited = true
		case "start":
			p.exited = false
			p.begun = p.d.Uptime()
		case "exits":
			p.exited = true
		}
		return p.d.Server(s.Text)
	}
	return nil
}

// next takes the bytes that s expects, which must come next.
func (p *player) next(s step) (size int, err error) {
	tokens, err := p.c.Protocol.pattern(s)
	if err != nil {
		return -1, err
	}
	for {
		n, size, err := p.v.match(tokens, p.bufs[s.Conn])
		if err == nil {
			if at := p.d.Uptime() - p.begun; at < s.Wait {
				return -1, fmt.Errorf("got it after %v\n\twant it after %v at the earliest", at, s.Wait)
			}
			p.take(s.Conn, n)
			return size, nil
		}
		if !errors.Is(err, errMore) {
			return -1, p.mismatch(s.Conn, s.Text, err)
		}
		if more, err := p.more(s.Conn, true); !more || err != nil {
			return -1, errors.Join(p.mismatch(s.Conn, s.Text, nil), err)
		}
	}
}

// mismatch describes what arrived on a connection instead of want.
func (p *player) mismatch(conn, want string, err error) error {
	end := ""
	if p.ended[conn] {
		end = ", and the server closed"
	}
	if err != nil && err != errMismatch {
		end += fmt.Sprintf(" (%v)", err)
	}
	return fmt.Errorf("got  %s%s\n\twant %s", p.c.Protocol.describe(p.bufs[conn]), end, clip(want))
}

// body compares the YAML body of size bytes below a head with the lines that follow it.
func (p *player) body(steps []step, size int) (n int, err error) {
	conn := steps[0].Conn
	if size > repeatMax {
		return 1, fmt.Errorf("body of %d bytes", size)
	}
	for len(p.bufs[conn]) < size+2 {
		if more, err := p.more(conn, true); !more || err != nil {
			return 1, errors.Join(p.mismatch(conn, fmt.Sprintf("a body of %d bytes", size), nil), err)
		}
	}
	text, end := p.take(conn, size), p.take(conn, 2)
	if string(end) != "\r\n" || !bytes.HasSuffix(text, []byte("\n")) {
		return 1, fmt.Errorf("body of %d bytes ends with %s", size, escape(append(text[max(0, size-10):], end...)))
	}
	lines := bytes.SplitAfter(text[:len(text)-1], []byte("\n"))
	for n = 1; n < len(steps) && steps[n].Kind == kindBody && steps[n].Conn == conn; n++ {
		s := steps[n]
		if n > len(lines) {
			return n, fmt.Errorf("YAML ends before %s", s.Text)
		}
		line := bytes.TrimSuffix(lines[n-1], []byte("\n"))
		if key, _, ok := strings.Cut(s.Text, ": "); ok && p.o.Journaled && onDisk(key) {
			s.Text = key + ": {any}"
		}
		if p.o.Version != "" && isUnquoted(p.o.Version) {
			s.Text = unquote(s.Text)
		}
		tokens, err := p.c.Protocol.pattern(s)
		if err != nil {
			return n, err
		}
		if used, _, err := p.v.match(tokens, append(line[:len(line):len(line)], '\n')); err != nil || used != len(line)+1 {
			return n, fmt.Errorf("in line %d of it: got  %s\n\twant %s", n, escape(line), s.Text)
		}
	}
	if len(lines) > n-1 {
		return n, fmt.Errorf("YAML goes on: %s", escape(lines[n-1]))
	}
	return n, nil
}

// textLine is a line of a text with its escaped line feed.
var textLine = regexp.MustCompile(`(?:[^\\]|\\[^n])*\\n`)

// set takes a list. Its lines may come in any order.
func (p *player) set(s step) error {
	for cutList(p.bufs[s.Conn]) == 0 {
		if more, err := p.more(s.Conn, true); !more || err != nil {
			return errors.Join(p.mismatch(s.Conn, "the lines of "+s.Text, nil), err)
		}
	}
	got := strings.SplitAfter(string(p.bufs[s.Conn][:cutList(p.bufs[s.Conn])]), "\n")
	got = got[:len(got)-1] // the empty rest
	for _, want := range textLine.FindAllString(s.Text, -1) {
		tokens, err := compile(want)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(got, func(line string) bool {
			n, _, err := p.v.match(tokens, []byte(line))
			return err == nil && n == len(line)
		})
		if i < 0 {
			return p.mismatch(s.Conn, "the lines of "+s.Text, nil)
		}
		got = slices.Delete(got, i, i+1)
	}
	if len(got) > 0 {
		return p.mismatch(s.Conn, "the lines of "+s.Text, nil)
	}
	p.take(s.Conn, cutList(p.bufs[s.Conn]))
	return nil
}

func (p *player) take(conn string, n int) []byte {
	b := p.bufs[conn]
	p.bufs[conn] = b[n:]
	return b[:n:n]
}

// more reads more bytes, or the end. It returns false if neither came.
func (p *player) more(conn string, wait bool) (bool, error) {
	if p.ended[conn] {
		return false, nil
	}
	b, err := p.d.Recv(conn, wait)
	p.bufs[conn] = append(p.bufs[conn], b...)
	if errors.Is(err, io.EOF) {
		p.ended[conn], err = true, nil
		return true, err
	}
	return len(b) > 0, err
}

func (p *player) nothing(conn string) error {
	if len(p.bufs[conn]) == 0 {
		if _, err := p.more(conn, false); err != nil {
			return err
		}
	}
	if len(p.bufs[conn]) > 0 {
		return p.mismatch(conn, "nothing", nil)
	}
	return nil
}

func (p *player) eof(conn string) error {
	for !p.ended[conn] && len(p.bufs[conn]) == 0 {
		if more, err := p.more(conn, true); err != nil || !more {
			return errors.Join(p.mismatch(conn, "EOF", errors.New("the connection stays open")), err)
		}
	}
	if len(p.bufs[conn]) > 0 {
		return p.mismatch(conn, "EOF", nil)
	}
	return nil
}
