package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"polystalk/codec/admin"
	protocol "polystalk/codec/beanstalk"
)

// A Beanstalk is a server that is asked by beanstalkd's protocol.
type Beanstalk struct {
	target  Target
	conn    *beanstalk.Conn
	net     *patientConn
	replies *replyReader
	stop    func() bool // separates the connection from the context of Dial
}

// dialBeanstalk connects to a server and checks that it speaks the protocol, within timeout.
// Each reply has that time as well. The connection ends when ctx ends.
func dialBeanstalk(ctx context.Context, t Target, timeout time.Duration) (*Beanstalk, error) {
	d := net.Dialer{Deadline: time.Now().Add(timeout)}
	conn, err := d.DialContext(ctx, t.Network, t.Address)
	if err != nil {
		return nil, Errorf(System, "%s cannot be asked: %v: is the server running?", t.Name, err)
	}
	p := &patientConn{conn, timeout}
	c := &Beanstalk{target: t, net: p, replies: &replyReader{r: p, more: p.restart}, stop: context.AfterFunc(ctx, func() { conn.Close() })}
	err = conn.SetDeadline(d.Deadline)
	if err == nil {
		err = c.greet(conn)
	}
	if err != nil {
		c.stop()
		conn.Close()
		return nil, c.failure(ctx, "", err)
	}
	c.conn = beanstalk.NewConn(struct {
		io.Reader
		io.WriteCloser
	}{c.replies, p})
	return c, nil
}

// Detach keeps the connection open when the context of Dial ends, so that the result of the
// current command is known. The caller checks the context between commands.
func (c *Beanstalk) Detach() { c.stop() }

// HasAPI implements Server.
func (c *Beanstalk) HasAPI() bool { return false }

// Close implements Server.
func (c *Beanstalk) Close() {
	c.stop()
	c.net.Close()
}

// greet sends a command that every server answers alike. Only another answer shows that the server
// does not speak the protocol.
func (c *Beanstalk) greet(conn io.ReadWriter) error {
	if _, err := io.WriteString(conn, "list-tube-used\r\n"); err != nil {
		return err
	}
	const want = "USING default\r\n"
	got := make([]byte, 0, len(want))
	for len(got) < len(want) {
		n, err := conn.Read(got[len(got):len(want)])
		if got = got[:len(got)+n]; string(got) != want[:len(got)] {
			return Errorf(System, "%s does not speak beanstalkd's protocol: it answers %q: polystalkd's --http is given as http://HOST:PORT", c.target.Name, got)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A patientConn waits a bounded time for a reply. The time restarts when a command was sent, when a
// reply is complete, and with the progress of bodies. A server that sends a byte now and then gets
// no more time.
type patientConn struct {
	net.Conn
	wait time.Duration
}

func (p *patientConn) restart() error { return p.SetReadDeadline(time.Now().Add(p.wait)) }

func (p *patientConn) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		if err = p.SetWriteDeadline(time.Now().Add(p.wait)); err == nil {
			var more int
			more, err = p.Conn.Write(b[n:min(len(b), n+progress)])
			n += more
		}
	}
	if err == nil {
		err = p.restart()
	}
	return n, err
}

// CheckName checks the name of a tube: the server would read other names as more commands.
func CheckName(tube string) error {
	if protocol.ValidTubeName([]byte(tube)) {
		return nil
	}
	return Errorf(Usage, "beanstalkd's protocol has no tube \"%s\": a name has 1 to 200 letters, digits and -+/;.$_(), and does not begin with a hyphen", admin.ShownName(tube))
}

// tubeNamed begins the description of a tube, for failure.
const tubeNamed = "tube "

// failure returns the error of a command about something, such as "job 7".
func (c *Beanstalk) failure(ctx context.Context, about string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var timeout net.Error
	var known *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.Is(err, beanstalk.ErrNotFound):
		if strings.HasPrefix(about, tubeNamed) {
			return Errorf(Nothing, "there is no %s: polystalk tubes lists those there are", about)
		}
		return Errorf(Nothing, "there is no %s: look it up again", about)
	case errors.Is(err, beanstalk.ErrDraining):
		return Errorf(NotDone, "the server drains and takes no new jobs: put them on another one")
	case errors.Is(err, beanstalk.ErrJobTooBig):
		return Errorf(Usage, "the body is too large for the server: send less, or raise its -z")
	case errors.Is(err, beanstalk.ErrOOM):
		return Errorf(NotDone, "the server has no memory, or no space on its disk: delete jobs, or give it more")
	case errors.Is(err, beanstalk.ErrUnknown):
		return Errorf(Usage, "the server at %s is older, and has no such command: upgrade it", c.target.Name)
	case errors.As(err, &timeout) && timeout.Timeout():
		return Errorf(System, "%s does not answer in time: try again, or give it longer by --timeout", c.target.Name)
	case strings.Contains(err.Error(), "EOF"), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Errorf(System, "%s has closed the connection: try again", c.target.Name)
	}
	return Errorf(System, "%s: %v: try again", c.target.Name, err)
}

// A command carries out a request. It returns a value that json.Marshal makes the document of.
type command func(c *Beanstalk, ctx context.Context, r *Request) (any, error)

// commands are the requests that the protocol can express.
var commands = map[string]command{
	"GET /server":                (*Beanstalk).server,
	"GET /tubes/{tube}":          (*Beanstalk).tube,
	"PUT /tubes/{tube}/pause":    (*Beanstalk).pause,
	"DELETE /tubes/{tube}/pause": (*Beanstalk).pause,
	"POST /tubes/{tube}/kick":    (*Beanstalk).kickTube,
	"POST /tubes/{tube}/jobs":    (*Beanstalk).put,
	"GET /jobs/{id}":             (*Beanstalk).job,
	"POST /jobs/{id}/kick":       (*Beanstalk).kick,
	"POST /jobs/{id}/bury":       (*Beanstalk).bury,
	"DELETE /jobs/{id}":          (*Beanstalk).delete,
}

// Ask implements Server.
func (c *Beanstalk) Ask(ctx context.Context, r Request) (Answer, error) {
	if r.Query.Get("force") != "" {
		return Answer{}, Unsupported("take a job from its worker")
	}
	run := commands[r.Method+" "+r.Path]
	if run == nil {
		return Answer{}, Unsupported(strings.ToLower(r.Method) + " " + r.Path)
	}
	if strings.Contains(r.Path, "{tube}") {
		if err := CheckName(r.Tube); err != nil {
			return Answer{}, err
		}
	}
	v, err := run(c, ctx, &r)
	if err != nil || v == nil {
		return Answer{}, err
	}
	document, err := json.Marshal(v)
	return Answer{Document: document}, err
}

// List implements Server. The list of tubes is whole; the list of jobs has the first of each state.
func (c *Beanstalk) List(ctx context.Context, r Request, page func(document []byte) error) error {
	list := c.tubes
	switch r.Path {
	case "/tubes":
	case "/tubes/{tube}/jobs":
		list = c.jobs
	default:
		return Unsupported("list " + r.rows() + " of all tubes")
	}
	v, err := list(ctx, &r)
	if err != nil {
		return err
	}
	document, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return page(document)
}
