package router_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"polystalk/router"
	"polystalk/router/ops"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// A lineFront is a third protocol, as small as one can be that does some work: a line
// "echo TEXT" is answered with TEXT, and "put TUBE TEXT" makes a job of TEXT and is
// answered with its id. It shows what a protocol has to write itself, and that the
// sessions, loops and limits of the others serve it.
type lineFront struct {
	host *session.Host
	base int // of its kinds of commands
}

func newLineFront(h *session.Host) *lineFront {
	f := &lineFront{host: h}
	f.base = h.Base(len(f.Kinds()))
	return f
}

func (*lineFront) Name() string     { return "lines" }
func (*lineFront) Kinds() []string  { return []string{"lines-echo", "lines-put"} }
func (*lineFront) Errors() []string { return nil }

func (f *lineFront) Open(l *session.Loop, nc session.Conn) *session.Session {
	c := &lineConn{front: f}
	c.Init(l, nc, c)
	return &c.Session
}

// lineMost bytes are the longest line.
const lineMost = 1000

type lineConn struct {
	session.Session
	front *lineFront
	tube  ops.Tube                     // of the put under way
	id    core.JobID                   // of its job
	text  []byte                       // of its job
	then  func(*lineConn, *core.Reply) // takes the reply
}

func (c *lineConn) Input(b []byte) (n int) {
	for c.MayParse() {
		end := bytes.IndexByte(b[n:], '\n')
		if end < 0 {
			if len(b)-n > lineMost {
				c.Say("-too long\n")
				c.Refuse()
			}
			return n
		}
		c.Spend(1)
		c.line(b[n : n+end])
		n += end + 1
		c.FlushFull()
	}
	return n
}

func (c *lineConn) line(line []byte) {
	word, rest, _ := bytes.Cut(line, []byte(" "))
	switch string(word) {
	case "echo":
		c.Count(c.front.base)
		c.Say(string(rest) + "\n")
	case "put":
		c.Count(c.front.base + 1)
		if c.front.host.Draining.Load() {
			c.Say("-draining\n")
			return
		}
		name, text, _ := bytes.Cut(rest, []byte(" "))
		c.AddRole(session.Producer)
		c.text = append(c.text[:0], text...)
		c.Op().Use(name, 0)
		c.visit(c.front.host.Map.OfTube(name), (*lineConn).opened)
		c.Run()
	default:
		c.Say("-unknown\n")
	}
}

func (c *lineConn) visit(shard int, then func(*lineConn, *core.Reply)) {
	c.then = then
	c.Visit(shard)
}

func (c *lineConn) opened(r *core.Reply) {
	m := c.front.host.Map
	c.tube, c.id = m.TubeOf(r.Face), m.IDs().Take(1)
	m.IDs().Note(c.id, c.tube.Shard)
	c.Op().Put(c.tube.ID, c.id, 0, 0, 60, c.text, nil)
	c.visit(c.tube.Shard, (*lineConn).inserted)
}

func (c *lineConn) inserted(r *core.Reply) {
	if r.Status == core.StatusOK {
		c.Say(fmt.Sprintf("+%d\n", c.id))
	} else {
		c.Loop().Ended.Finish(c.id)
		c.Say("-no memory\n")
	}
	c.Op().Unuse(c.tube.ID)
	c.visit(c.tube.Shard, func(*lineConn, *core.Reply) {})
}

func (c *lineConn) Replied(r *core.Reply) { c.then(c, r) }
func (c *lineConn) Next()                 {}
func (c *lineConn) Woken(*core.Message)   {}
func (c *lineConn) GiveUp()               {}
func (c *lineConn) Close()                { c.Gone() }

// TestThirdProtocol is served by the same sessions, loops and limits as the others.
func TestThirdProtocol(t *testing.T) {
	s, err := router.New(router.Config{Loops: 2, Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	f := newLineFront(s.Host())
	s.AddFront(f)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(t.Context())
	dial := func(serve func(net.Listener) error) net.Conn {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go serve(l)
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(20 * time.Second))
		return c
	}
	lines := func(l net.Listener) error { return s.Reactor().Serve(l, f) }
	worker, c, flood, rude := dial(s.Serve), dial(lines), dial(lines), dial(lines)

	// A job of its own reaches a worker of another protocol, which was waiting.
	io.WriteString(worker, "watch mail\r\nreserve\r\n")
	in := bufio.NewReader(worker)
	hear := func(in *bufio.Reader, want string) {
		t.Helper()
		if got, err := in.ReadString('\n'); strings.TrimSpace(got) != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	hear(in, "WATCHING 2")
	own := bufio.NewReader(c)
	io.WriteString(c, "echo a b\nput mail hello\nnonsense\necho c\n")
	for _, want := range []string{"a b", "+1", "-unknown", "c"} {
		hear(own, want)
	}
	hear(in, "RESERVED 1 5")
	hear(in, "hello")

	// A client that does not read is paused, as with any protocol, and served when it reads.
	const n = 200_000
	text := "echo " + strings.Repeat("x", 100) + "\n"
	go io.WriteString(flood, strings.Repeat(text, n))
	eventually(t, func() bool { return counted(s, "pauses") > 0 })
	io.WriteString(c, "echo still here\n")
	hear(own, "still here")
	if got, err := io.CopyN(io.Discard, flood, n*101); err != nil {
		t.Fatalf("%d bytes: %v", got, err)
	}

	// A client that is refused in the middle of its input can read the reason.
	io.WriteString(rude, strings.Repeat("y", 300_000))
	if got, err := io.ReadAll(rude); err != nil || string(got) != "-too long\n" {
		t.Errorf("got %q, %v", got, err)
	}
	s.Drain()
	io.WriteString(c, "put mail late\n")
	hear(own, "-draining")
	if e, p := counted(s, "lines-echo"), counted(s, "lines-put"); e != n+3 || p != 2 {
		t.Errorf("%d echoes and %d puts are counted, want %d and 2", e, p, n+3)
	}
}
