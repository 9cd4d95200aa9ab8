package gearmantest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Waits. Patience is generous because test machines are shared. A silence that
// is too short can hide a stray packet, never invent one; and so for the pause
// that keeps what is sent on different connections in order.
const (
	patience   = 15 * time.Second
	quiet      = 150 * time.Millisecond
	pace       = 30 * time.Millisecond
	afterClose = 120 * time.Millisecond
)

const defaultPrefix = "H:lap"

// Options say how the server at hand differs from what the cases were written
// for.
type Options struct {
	// Prefix is what its handles begin with, if not H:lap. GC-001 needs H:lap.
	Prefix string
	// Vars are put in place of {name} in strings: version, level.
	Vars map[string]string
}

// A Server is a started server.
type Server struct {
	Address string // host:port
	// Signal sends the process a signal by name, SIGTERM or SIGKILL.
	Signal func(name string) error
	// Exited is closed when the process has ended; Err tells how.
	Exited <-chan struct{}
	Err    func() error
	// Stop ends the process if it runs, and waits for its end.
	Stop func()
}

// A Start starts a server for one case, with its Opts and Store. What the server
// keeps is below dir, which a case that restarts it uses again.
type Start func(c *Case, dir string) (*Server, error)

// Play plays the cases of all files, those that filter accepts, each as a subtest
// with a server of its own, a few at a time.
func Play(t *testing.T, start Start, o Options, filter func(*Case) bool) {
	t.Helper()
	all, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if filter != nil && !filter(c) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := Run(c, start, o, t.TempDir()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Tags is a filter that accepts the cases with one of the tags.
func Tags(tags ...Tag) func(*Case) bool {
	return func(c *Case) bool { return slices.Contains(tags, c.Tag) }
}

// Run plays one case. The error names the case, the step, what came and what
// should have.
func Run(c *Case, start Start, o Options, dir string) error {
	p := &player{c: c, o: &o, start: start, dir: dir}
	defer p.stop()
	err := p.launch()
	for _, s := range c.Steps {
		if err != nil {
			break
		}
		if err = p.play(s); err != nil {
			err = fmt.Errorf("%s: %s\n\t%w", s.where, s.text, err)
		}
	}
	if err == nil {
		if err = p.finish(); err != nil {
			err = fmt.Errorf("after the last step: %w", err)
		}
	}
	if err != nil {
		return fmt.Errorf("%s [%s] %s\n\t%w", c.Name, c.Tag, c.Title, err)
	}
	return nil
}

type player struct {
	c      *Case
	o      *Options
	start  Start
	dir    string
	server *Server // nil: killed
	begun  time.Time
	conns  map[string]*conn
	last   string // the connection that was last sent on
	gone   bool   // the server was to exit, and did
}

func (p *player) launch() (err error) {
	if p.server != nil {
		return errors.New("the server runs already")
	}
	p.server, err = p.start(p.c, p.dir)
	p.begun = time.Now()
	return err
}

func (p *player) stop() {
	p.hangUp()
	if p.server != nil {
		p.server.Stop()
	}
}

func (p *player) hangUp() {
	for _, c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// conn is the connection of that name, opened if need be.
func (p *player) conn(name string) (*conn, error) {
	if c, ok := p.conns[name]; ok {
		return c, nil
	}
	if p.server == nil {
		return nil, errors.New("there is no server")
	}
	c, err := dial(p.server.Address)
	if err != nil {
		return nil, err
	}
	if p.conns == nil {
		p.conns = map[string]*conn{}
	}
	p.conns[name] = c
	return c, nil
}

// order lets the server take what was sent before another connection, or
// none, comes into play.
func (p *player) order(name string) {
	if p.last != "" && p.last != name {
		time.Sleep(pace)
	}
	p.last = name
}

func (p *player) play(s step) error {
	switch s.kind {
	case sleep:
		time.Sleep(s.wait)
		return nil
	case signal:
		p.order("")
		return p.server.Signal(s.arg)
	case server:
		p.order("")
		return p.serve(s.arg)
	}
	c, err := p.conn(s.conn)
	if err != nil {
		return err
	}
	switch s.kind {
	case send, sendBytewise, sendLast:
		p.order(s.conn)
		err = c.write(s.bytes.expand(p.o), s.kind == sendBytewise)
		if err == nil && s.kind == sendLast {
			err = c.CloseWrite()
		}
	case connection:
		p.order("")
		err = c.act(s.arg)
		if s.arg == "close" || s.arg == "rst" {
			delete(p.conns, s.conn)
		}
		time.Sleep(afterClose)
	case expect:
		var at time.Time
		at, err = c.expect(s.want.expand(p.o), patience)
		if err == nil && at.Sub(p.begun) < s.wait {
			err = fmt.Errorf("got it after %v\n\twant it after %v at the earliest", at.Sub(p.begun), s.wait)
		}
	case expectSet:
		err = c.expectSet(s.want.expand(p.o))
	case expectMatch:
		err = c.expectMatch(p.o.expand(s.pattern))
	case ask:
		p.order(s.conn)
		err = c.ask(s.bytes.expand(p.o), s.want.expand(p.o))
	case silence:
		time.Sleep(quiet)
		if got, ended := c.pending(); len(got) > 0 || ended {
			err = mismatch(got, ended, "silence")
		}
	case closed:
		c.await(patience, func(b []byte, ended bool) bool { return len(b) > 0 || ended })
		if got, ended := c.pending(); len(got) > 0 || !ended {
			err = mismatch(got, ended, "the server to close")
		}
	}
	return err
}

// serve does what a case says to the server.
func (p *player) serve(what string) error {
	switch what {
	case "alive":
		return alive(p.server.Address)
	case "start":
		return p.launch()
	case "kill":
		if err := p.server.Signal("SIGKILL"); err != nil {
			return err
		}
		p.hangUp()
		err := p.exited()
		p.server = nil
		return err
	}
	if err := p.exited(); err != nil {
		return err
	}
	p.gone = true
	return p.server.Err()
}

func (p *player) exited() error {
	select {
	case <-p.server.Exited:
		return nil
	case <-time.After(patience):
		return errors.New("the server did not exit")
	}
}

// finish looks whether the server lives, and for bytes nobody asked for.
func (p *player) finish() error {
	if p.gone || p.server == nil {
		return nil
	}
	p.order("")
	if err := alive(p.server.Address); err != nil {
		return fmt.Errorf("the server is not alive: %w", err)
	}
	time.Sleep(pace)
	for _, name := range slices.Sorted(maps.Keys(p.conns)) {
		if got, ended := p.conns[name].pending(); len(got) > 0 {
			return fmt.Errorf("on %s, %w", name, mismatch(got, ended, "nothing more"))
		}
	}
	return nil
}

// listEnd ends a list.
const listEnd = ".\n"

// expectSet takes a list whose lines may come in any order.
func (c *conn) expectSet(want []byte) error {
	n := 0
	ok := c.await(patience, func(b []byte, _ bool) bool {
		n = len(listEnd)
		if i := bytes.Index(b, []byte("\n"+listEnd)); i >= 0 && !bytes.HasPrefix(b, []byte(listEnd)) {
			n = i + 1 + len(listEnd)
		}
		return bytes.HasPrefix(b, []byte(listEnd)) || n > len(listEnd)
	})
	got, ended := c.pending()
	if !ok {
		return mismatch(got, ended, "the lines of "+describe(want))
	}
	sorted := func(b []byte) []string {
		lines := strings.Split(string(b), "\n")
		slices.Sort(lines)
		return lines
	}
	if !slices.Equal(sorted(got[:n]), sorted(want)) {
		return mismatch(got, ended, "the lines of "+describe(want))
	}
	c.take(n)
	return nil
}

// expectMatch takes all that comes, which must match pattern as a whole.
func (c *conn) expectMatch(pattern string) error {
	whole, err := regexp.Compile(`^(?s:` + pattern + `)$`)
	if err != nil {
		return err
	}
	ok := c.await(patience, func(b []byte, _ bool) bool { return whole.Match(b) })
	got, ended := c.pending()
	if !ok {
		return mismatch(got, ended, "a match of "+pattern)
	}
	c.take(len(got))
	return nil
}

// ask sends question again and again until answer is what comes.
func (c *conn) ask(question, answer []byte) error {
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if err := c.write(question, false); err != nil {
			return err
		}
		// Lists end with a dot, everything else is a line.
		var got []byte
		ok := c.await(patience, func(b []byte, _ bool) bool {
			got = bytes.Clone(b)
			return bytes.Equal(b, answer) || bytes.Equal(b, []byte(listEnd)) || bytes.HasSuffix(b, []byte("\n"+listEnd))
		})
		if !ok {
			return mismatch(got, false, describe(answer))
		}
		c.take(len(got))
		if bytes.Equal(got, answer) {
			return nil
		}
		if time.Now().After(end) {
			return mismatch(got, false, describe(answer))
		}
	}
}
