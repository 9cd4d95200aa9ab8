package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/queue"
	"polystalk/cmd/polystalk/target"
	"polystalk/codec/admin"
	protocol "polystalk/codec/beanstalk"
)

// A Conn is a connection to one server.
type Conn struct {
	target target.Target
	conn   *beanstalk.Conn
	net    *patient
	sizes  *sizes
	stop   func() bool
}

var _ queue.Queue = (*Conn)(nil)

// Dial connects to a server, and sees that it speaks the protocol, within timeout. Each reply has
// that time as well. When ctx ends, so does the connection.
func Dial(ctx context.Context, t target.Target, timeout time.Duration) (*Conn, error) {
	d := net.Dialer{Deadline: time.Now().Add(timeout)}
	conn, err := d.DialContext(ctx, t.Network, t.Address)
	if err != nil {
		return nil, fault.New(fault.System, "%s cannot be asked: %v: is the server running?", t.Name, err)
	}
	p := &patient{conn, timeout}
	c := &Conn{target: t, net: p, sizes: &sizes{r: p, more: p.restart}, stop: context.AfterFunc(ctx, func() { conn.Close() })}
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
	}{c.sizes, p})
	return c, nil
}

// Detach has the connection go on when the context of Dial ends: what is under way then is
// known to be done or not. The caller looks at the context between commands.
func (c *Conn) Detach() { c.stop() }

// Close implements queue.Queue.
func (c *Conn) Close() {
	c.stop()
	c.net.Close()
}

// greet asks what every server answers alike. Only a wrong answer is a fault of the protocol.
func (c *Conn) greet(conn io.ReadWriter) error {
	if _, err := io.WriteString(conn, "list-tube-used\r\n"); err != nil {
		return err
	}
	const want = "USING default\r\n"
	got := make([]byte, 0, len(want))
	for len(got) < len(want) {
		n, err := conn.Read(got[len(got):len(want)])
		if got = got[:len(got)+n]; string(got) != want[:len(got)] {
			return fault.New(fault.System, "%s does not speak beanstalkd's protocol: it answers %q: polystalkd's --http is given as http://HOST:PORT", c.target.Name, got)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// progress is how much of a body must come or go until the server has the whole time again. In
// bytes.
const progress = 64 << 10

// A patient connection waits a bounded time for a reply. The time begins anew when a command was
// sent, when a reply is complete and with the progress of bodies: a server that sends a byte now
// and then gets no more of it.
type patient struct {
	net.Conn
	wait time.Duration
}

func (p *patient) restart() error { return p.SetReadDeadline(time.Now().Add(p.wait)) }

func (p *patient) Write(b []byte) (n int, err error) {
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

// CheckName checks the name of a tube: one that the protocol does not have would be read as more
// commands.
func CheckName(tube string) error {
	if protocol.ValidTubeName([]byte(tube)) {
		return nil
	}
	return fault.New(fault.Usage, "beanstalkd's protocol has no tube \"%s\": a name has 1 to 200 letters, digits and -+/;.$_(), and does not begin with a hyphen", admin.ShownName(tube))
}

// tubeNamed begins what is said about a tube.
const tubeNamed = "tube "

// failure is what went wrong with a command about something.
func (c *Conn) failure(ctx context.Context, about string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var timeout net.Error
	var known *fault.Fault
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.Is(err, beanstalk.ErrNotFound):
		if strings.HasPrefix(about, tubeNamed) {
			return fault.New(fault.Nothing, "there is no %s: polystalk tubes lists those there are", about)
		}
		return fault.New(fault.Nothing, "there is no %s: look it up again", about)
	case errors.Is(err, beanstalk.ErrDraining):
		return fault.New(fault.NotDone, "the server drains and takes no new jobs: put them on another one")
	case errors.Is(err, beanstalk.ErrJobTooBig):
		return fault.New(fault.Usage, "the body is too large for the server: send less, or raise its -z")
	case errors.Is(err, beanstalk.ErrOOM):
		return fault.New(fault.NotDone, "the server has no memory, or no space on its disk: delete jobs, or give it more")
	case errors.Is(err, beanstalk.ErrUnknown):
		return fault.New(fault.Usage, "the server at %s is older, and has no such command: upgrade it", c.target.Name)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fault.New(fault.System, "%s does not answer in time: try again, or give it longer by --timeout", c.target.Name)
	case strings.Contains(err.Error(), "EOF"), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fault.New(fault.System, "%s has closed the connection: try again", c.target.Name)
	}
	return fault.New(fault.System, "%s: %v: try again", c.target.Name, err)
}

// told is failure for statistics. Without the member they are none, and the figures would be 0.
func (c *Conn) told(ctx context.Context, about string, s stats, member string, err error) error {
	if err == nil && s[member] == "" {
		return fault.New(fault.System, "%s answers without %s: does it speak beanstalkd's protocol?", c.target.Name, member)
	}
	return c.failure(ctx, about, err)
}
