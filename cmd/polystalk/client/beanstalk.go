package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"polystalk/codec/admin"
	protocol "polystalk/codec/beanstalk"
)

// A Beanstalk is a server that the client asks by beanstalkd's protocol.
type Beanstalk struct {
	target Target
	conn   net.Conn
	in     *bufio.Reader
	out    []byte // buffer of send
	wait   time.Duration
	proven bool        // the server has accepted a token
	used   string      // the tube of the last "use"
	stop   func() bool // separates the connection from the context of Dial
}

// dialBeanstalk connects to a server, presents the token, and checks that the server speaks the
// protocol, within the timeout. The same timeout holds for each reply. The connection ends when ctx
// ends.
func dialBeanstalk(ctx context.Context, t Target, o Options) (*Beanstalk, error) {
	if err := t.checkSecrecy(o); err != nil {
		return nil, err
	}
	d := net.Dialer{Deadline: time.Now().Add(o.Timeout)}
	conn, err := d.DialContext(ctx, t.Network, t.Address)
	if err != nil {
		return nil, Errorf(System, "%s cannot be reached: %v: is the server running?", t.Name, err)
	}
	if t.tls {
		if conn, err = secure(ctx, conn, t, d.Deadline, o.TLS); err != nil {
			return nil, err
		}
	}
	c := &Beanstalk{target: t, conn: conn, in: bufio.NewReader(conn), out: make([]byte, progress), wait: o.Timeout, used: "default", stop: context.AfterFunc(ctx, func() { conn.Close() })}
	if err = conn.SetDeadline(d.Deadline); err == nil && o.Token != "" {
		err = c.authenticate(o.Token)
	}
	if err == nil {
		err = c.greet()
	}
	if err == io.EOF && t.Network == "tcp" && !t.tls {
		err = Errorf(System, "%s has closed the connection: try again, or write the address of its --tls-listen as beanstalk+tls://HOST:PORT", t.Name)
	}
	if err != nil {
		c.Close()
		return nil, c.failure(ctx, "", err)
	}
	return c, nil
}

// secure begins TLS on a connection.
func secure(ctx context.Context, plain net.Conn, t Target, deadline time.Time, o *tls.Config) (net.Conn, error) {
	if o == nil {
		o = new(tls.Config)
	}
	o = o.Clone()
	o.ServerName, _, _ = net.SplitHostPort(t.Address)
	o.NextProtos = []string{"beanstalkd"}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	conn := tls.Client(plain, o)
	if err := conn.HandshakeContext(ctx); err != nil {
		plain.Close()
		if context.Cause(ctx) == context.Canceled {
			return nil, context.Canceled
		}
		remedy := "is that the address of polystalkd's --tls-listen?"
		if strings.Contains(err.Error(), "x509:") {
			remedy = untrusted
		}
		return nil, Errorf(System, "%s: the TLS handshake has failed: %v: %s", t.Name, err, remedy)
	}
	return conn, nil
}

// authenticate presents a token. A server without an access file does not know the command, and
// needs no token.
func (c *Beanstalk) authenticate(token string) error {
	err := c.do("AUTHENTICATED", "auth %s", token)
	switch err {
	case nil:
		c.proven = true
	case replyError("UNKNOWN_COMMAND"):
		return nil
	case replyError("UNAUTHORIZED"), replyError("BAD_FORMAT"):
		return Errorf(Refused, "%s refuses the token: give another one by --token-file; between machines it needs TLS, as in beanstalk+tls://HOST:PORT", c.target.Name)
	}
	if answer, ok := err.(replyError); ok {
		return c.foreign(string(answer))
	}
	return err
}

// foreign returns the error for a server that answers with another protocol.
func (c *Beanstalk) foreign(answer string) error {
	return Errorf(System, "%s does not speak beanstalkd's protocol: it answers %q: write polystalkd's --http as http://HOST:PORT", c.target.Name, answer)
}

// Detach keeps the connection open when the context of Dial ends, so that the result of the current
// command is known. The caller must check the context between commands.
func (c *Beanstalk) Detach() { c.stop() }

// HasAPI implements Server.
func (c *Beanstalk) HasAPI() bool { return false }

// Close implements Server.
func (c *Beanstalk) Close() {
	c.stop()
	c.conn.Close()
}

// greet sends a command that all servers answer in the same way. A different answer shows that the
// server does not speak the protocol.
func (c *Beanstalk) greet() error {
	if _, err := io.WriteString(c.conn, "list-tube-used\r\n"); err != nil {
		return err
	}
	const want = "USING default\r\n"
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.conn, got)
	switch {
	case n > 0 && strings.HasPrefix("UNKNOWN_COMMAND", string(got[:n])):
		err = Errorf(Refused, "%s needs a token, or another identity: give a token by --token-file", c.target.Name)
	case !strings.HasPrefix(want, string(got[:n])):
		err = c.foreign(string(got[:n]))
	}
	return err
}

// A replyError is the first word of an unexpected reply.
type replyError string

func (e replyError) Error() string { return fmt.Sprintf("it answers %.20q", string(e)) }

const notFound replyError = "NOT_FOUND"

// send writes a command. Each part of a large body restarts the timeout, also of a receive that
// waits meanwhile.
func (c *Beanstalk) send(command io.Reader) error {
	for {
		n, err := io.ReadFull(command, c.out)
		if n > 0 {
			if err := c.conn.SetDeadline(time.Now().Add(c.wait)); err != nil {
				return err
			}
			if _, err := c.conn.Write(c.out[:n]); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return err
		}
	}
}

// Limits of the data in replies, in bytes: statistics, and lists of tubes. bodyMax limits bodies.
const (
	statsMax = 64 << 10
	tubesMax = 64 << 20
)

// receive reads a reply, which must begin with the word want. It returns the other words and the
// data that follows. The timeout holds for the reply, and again for each part of a job's body.
func (c *Beanstalk) receive(want string, most int64) (words []string, data []byte, err error) {
	restart := func() error { return c.conn.SetReadDeadline(time.Now().Add(c.wait)) }
	if err := restart(); err != nil {
		return nil, nil, err
	}
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		err = replyError(line)
	}
	if err != nil {
		return nil, nil, err
	}
	words = strings.Fields(string(line))
	if len(words) == 0 || words[0] != want {
		return nil, nil, replyError(strings.Join(words[:min(len(words), 1)], ""))
	}
	words = words[1:]
	if most == 0 {
		return words, nil, nil
	}
	size, err := strconv.ParseInt(strings.Join(words[max(len(words)-1, 0):], ""), 10, 64)
	if err != nil || size < 0 || size > most {
		return nil, nil, fmt.Errorf("it announces %.20q bytes", words)
	}
	all := size + int64(len("\r\n"))
	for at := int64(0); at < all; at = int64(len(data)) {
		if at == int64(cap(data)) { // it grows with the data received, and in few steps leaves little garbage
			data = append(make([]byte, 0, min(max(8*at, 512), all)), data...)
		}
		data = data[:min(int64(cap(data)), at+progress)]
		if _, err := io.ReadFull(c.in, data[at:]); err != nil {
			return nil, nil, err
		}
		if most == bodyMax {
			if err := restart(); err != nil {
				return nil, nil, err
			}
		}
	}
	return words, data[:size], nil
}

// ask sends a command and reads the reply.
func (c *Beanstalk) ask(want string, most int64, format string, args ...any) (words []string, data []byte, err error) {
	if err := c.send(strings.NewReader(fmt.Sprintf(format, args...) + "\r\n")); err != nil {
		return nil, nil, err
	}
	return c.receive(want, most)
}

// do is like ask for a command without data.
func (c *Beanstalk) do(want, format string, args ...any) error {
	_, _, err := c.ask(want, 0, format, args...)
	return err
}

// use sets the tube of the commands that follow.
func (c *Beanstalk) use(tube string) error {
	if tube == c.used {
		return nil
	}
	err := c.do("USING", "use %s", tube)
	if err == nil {
		c.used = tube
	}
	return err
}

// depth is the number of commands that are sent before the first reply is read. With many commands
// in flight, the server's work takes the time, not the round trips.
const depth = 64

// askMany sends a command for each of n arguments, depth at a time, and passes the replies to each
// in order. A reply for a missing tube or job is nil.
func (c *Beanstalk) askMany(want string, most int64, command string, n int, arg func(i int) any, each func(i int, data []byte) error) error {
	for first := 0; first < n; first += depth {
		var commands strings.Builder
		last := min(first+depth, n)
		for i := first; i < last; i++ {
			fmt.Fprintf(&commands, "%s %v\r\n", command, arg(i))
		}
		if err := c.send(strings.NewReader(commands.String())); err != nil {
			return err
		}
		for i := first; i < last; i++ {
			_, data, err := c.receive(want, most)
			if err == nil && data == nil {
				data = []byte{}
			}
			if err != nil && err != notFound {
				return err
			}
			if err := each(i, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckName checks a tube name: the server would read an invalid name as further commands.
func CheckName(tube string) error {
	if protocol.ValidTubeName([]byte(tube)) {
		return nil
	}
	return Errorf(Usage, "beanstalkd's protocol has no tube \"%s\": a name has 1 to 200 letters, digits and -+/;.$_(), and does not begin with a hyphen", admin.ShownName(tube))
}

// tubeNamed begins the description of a tube for failure.
const tubeNamed = "tube "

// failure returns the error of a command. about is such as "job 7".
func (c *Beanstalk) failure(ctx context.Context, about string, err error) error {
	var timeout net.Error
	var known *Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case err == notFound && strings.HasPrefix(about, tubeNamed):
		return Errorf(Nothing, "there is no %s: polystalk tubes lists the tubes", about)
	case err == notFound:
		return Errorf(Nothing, "there is no %s: look it up again", about)
	case err == replyError("DRAINING"):
		return Errorf(NotDone, "the server is draining and accepts no new jobs: use another server")
	case err == replyError("JOB_TOO_BIG"):
		return Errorf(Usage, "the body is too large for the server: send less, or raise its -z")
	case err == replyError("OUT_OF_MEMORY"):
		return Errorf(NotDone, "the server has no memory or disk space for it, or a policy limits the tube: delete jobs, or raise the limit")
	case err == replyError("BURIED"):
		return Errorf(NotDone, "the server has no memory for the job, and has buried it: delete jobs, or give it more")
	case err == replyError("UNKNOWN_COMMAND") && c.proven:
		return Errorf(Refused, "%s refuses the command: the identity of the token lacks the right; an operator sees why with polystalk access explain NAME TUBE", c.target.Name)
	case err == replyError("UNKNOWN_COMMAND"):
		return Errorf(Refused, "%s refuses the command: you may not do that, as polystalk access explain shows, or the server is older and does not know it", c.target.Name)
	case errors.As(err, &timeout) && timeout.Timeout():
		return Errorf(System, "%s does not answer in time: try again, or raise --timeout", c.target.Name)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Errorf(System, "%s has closed the connection: try again", c.target.Name)
	}
	return Errorf(System, "%s: %v: try again", c.target.Name, err)
}

// A command carries out a request. It returns a value that json.Marshal converts to the document.
type command func(c *Beanstalk, ctx context.Context, r *Request) (any, error)

// commands are the requests that the protocol can express.
var commands = map[string]command{
	"GET /server":                (*Beanstalk).server,
	"GET /tubes/{tube}":          (*Beanstalk).tube,
	"PUT /tubes/{tube}/pause":    (*Beanstalk).pause,
	"DELETE /tubes/{tube}/pause": (*Beanstalk).pause,
	"POST /tubes/{tube}/jobs":    (*Beanstalk).put,
	"POST /operations":           (*Beanstalk).operation,
	"GET /jobs/{id}":             (*Beanstalk).job,
	"POST /jobs/{id}/kick":       (*Beanstalk).kick,
	"POST /jobs/{id}/bury":       (*Beanstalk).bury,
	"DELETE /jobs/{id}":          (*Beanstalk).delete,
	"GET /tubes":                 (*Beanstalk).tubes,
	"GET /tubes/{tube}/jobs":     (*Beanstalk).jobs,
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
	document, err := c.run(ctx, run, &r)
	return Answer{Document: document}, err
}

// List implements Server. Lists of tubes are complete; lists of jobs have one job of each state.
func (c *Beanstalk) List(ctx context.Context, r Request, page func(document []byte) error) error {
	list := commands["GET "+r.Path]
	if list == nil {
		return Unsupported("list " + r.rows() + " of all tubes")
	}
	document, err := c.run(ctx, list, &r)
	if err != nil {
		return err
	}
	return page(document)
}

// run carries out a request and returns its document; nil: none.
func (c *Beanstalk) run(ctx context.Context, run command, r *Request) ([]byte, error) {
	if strings.Contains(r.Path, "{tube}") {
		if err := CheckName(r.Tube); err != nil {
			return nil, err
		}
	}
	v, err := run(c, ctx, r)
	if err != nil || v == nil {
		return nil, err
	}
	return json.Marshal(v)
}
