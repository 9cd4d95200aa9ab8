package bench

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"polystalk/codec/gearman"
)

// A gconn is a connection that speaks Gearman, of a client, a worker or an administrator.
type gconn struct {
	*link
	depth  int
	unique []byte // the template of a unique id: a prefix and a stamp
	msg    gearman.Message
	data   []byte // of the last reply
}

// gear opens a connection. Other processes use other unique ids.
func (e *env) gear(ctx context.Context) (*gconn, error) {
	k, err := e.dial(ctx)
	unique := fmt.Appendf(nil, "lt.%s.%d.u.%s", e.Plan.Run, e.Process, make([]byte, StampLen))
	return &gconn{link: k, depth: e.Load.Depth, unique: unique}, err
}

// worker opens a connection that registers functions.
func (e *env) worker(ctx context.Context, functions [][]byte) (*gconn, error) {
	c, err := e.gear(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range functions {
		c.request(gearman.CanDo, f)
	}
	return c, c.flush()
}

// read returns the next packet or line. It and c.data are valid until the next call.
func (c *gconn) read() (*gearman.Message, error) {
	for {
		b := c.unread()
		n, fault := gearman.ParseReply(&c.msg, b, maxBody)
		if fault != nil {
			return nil, fmt.Errorf("malformed reply %.40q: %w", b, fault)
		}
		total := n + c.msg.Size
		if n > 0 && len(b) >= total {
			c.data = b[n:total]
			c.lo += total
			return &c.msg, nil
		}
		if n == 0 {
			total = len(b) + 1
		}
		if err := c.receive(total); err != nil {
			return nil, err
		}
	}
}

// wrong returns the error for a reply that a correct server does not send.
func (c *gconn) wrong(request gearman.Type, expected string, m *gearman.Message) error {
	return fmt.Errorf("wrong reply to %v: expected %s, got %v %q %.60q", request, expected, m.Type, m.Args[:m.N], c.data)
}

// expect checks the type of a reply.
func (c *gconn) expect(request, t gearman.Type, m *gearman.Message) error {
	if m.Type != t {
		return c.wrong(request, t.String(), m)
	}
	return nil
}

func (c *gconn) request(t gearman.Type, args ...[]byte) {
	c.out = gearman.AppendRequest(c.out, t, args...)
}

// submit appends the submission of the job with that stamp.
func (c *gconn) submit(t gearman.Type, function []byte, stamp uint64) {
	c.stampBody(stamp)
	PutStamp(c.unique[len(c.unique)-StampLen:], stamp)
	c.out = gearman.AppendRequestHead(c.out, t, len(c.body), function, c.unique)
	c.out = append(c.out, c.body...)
}

// expectCreated checks the reply to a submission. The handle must differ from the last one: the
// server must not merge two jobs.
func (c *gconn) expectCreated(t gearman.Type, m *gearman.Message, last []byte) error {
	if err := c.expect(t, gearman.JobCreated, m); err != nil {
		return err
	}
	if h := m.Args[0]; len(h) == 0 || len(h) > gearman.MaxHandle || bytes.Equal(h, last) {
		return c.wrong(t, fmt.Sprintf("a new handle after %q", last), m)
	}
	return nil
}

// expectAssigned checks a JOB_ASSIGN_UNIQ and its body, and returns the stamp of its unique id.
func (c *gconn) expectAssigned(m *gearman.Message) (stamp uint64, err error) {
	if err := c.expect(gearman.GrabJobUniq, gearman.JobAssignUniq, m); err != nil {
		return 0, err
	}
	unique := m.Args[2]
	at := len(c.unique) - StampLen
	if len(unique) != len(c.unique) || !bytes.Equal(unique[:at], c.unique[:at]) {
		return 0, fmt.Errorf("job %q of another load: unique id %q", m.Args[0], unique)
	}
	if stamp, err = Stamp(unique[at:]); err != nil {
		return 0, fmt.Errorf("job %q of another load: %w", m.Args[0], err)
	}
	return stamp, c.expectBody(stamp)
}

// expectBody compares the data of the last reply with the body of stamp.
func (c *gconn) expectBody(stamp uint64) error {
	c.stampBody(stamp)
	if !bytes.Equal(c.data, c.body) {
		return fmt.Errorf("another body came back: expected %d bytes %.40q…, got %d bytes %.40q…", len(c.body), c.body, len(c.data), c.data)
	}
	return nil
}

// complete appends the WORK_COMPLETE of a job.
func (c *gconn) complete(handle, result []byte) {
	c.out = gearman.AppendRequestHead(c.out, gearman.WorkComplete, len(result), handle)
	c.out = append(c.out, result...)
}

// text sends a line of text unless it is empty, and returns the server's next line.
func (c *gconn) text(command string) (string, error) {
	if command != "" {
		c.out = append(append(c.out, command...), "\r\n"...)
		if err := c.flush(); err != nil {
			return "", err
		}
	}
	m, err := c.read()
	if err != nil {
		return "", err
	}
	if err := c.expect(gearman.Text, gearman.Text, m); err != nil {
		return "", err
	}
	return string(m.Args[0]), nil
}

// jobs returns the number of jobs of functions, waiting and running.
func (c *gconn) jobs(functions [][]byte) (sum uint64, err error) {
	line, err := c.text("status")
	for ; err == nil && line != "."; line, err = c.text("") {
		f := strings.Split(line, "\t") // the names of a load have no tabs
		if len(f) < 4 {
			return 0, fmt.Errorf("wrong reply to status: expected a function and three numbers, got %q", line)
		}
		total, err := strconv.ParseUint(f[len(f)-3], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("wrong reply to status: expected numbers, got %q", line)
		}
		for _, name := range functions {
			if f[0] == string(name) {
				sum += total
			}
		}
	}
	return sum, err
}

// awaitJobs waits until the server has want jobs of functions, because a worker's report has no
// answer. A server that does not reach want has lost or invented jobs.
func (c *gconn) awaitJobs(functions [][]byte, want uint64) error {
	for end := Now() + int64(grace); ; time.Sleep(2 * time.Millisecond) {
		n, err := c.jobs(functions)
		if err != nil || n == want {
			return err
		}
		if n < want || Now() > end {
			return fmt.Errorf("the server says that there are %d jobs of this load, expected %d", n, want)
		}
	}
}

// cleanGearmand takes the remaining jobs, and removes the functions of this run.
func cleanGearmand(ctx context.Context, e *env) error {
	var functions [][]byte
	for name := range e.names {
		functions = append(functions, []byte(name))
	}
	if len(functions) == 0 {
		return nil
	}
	c, err := e.worker(ctx, functions)
	if err != nil {
		return err
	}
	more := true
	grab := func(int) { c.request(gearman.GrabJobUniq) }
	complete := func(_ int, m *gearman.Message) error {
		if more = more && m.Type != gearman.NoJob; m.Type == gearman.NoJob {
			return nil
		}
		_, err := c.expectAssigned(m)
		c.complete(m.Args[0], nil)
		return err
	}
	for more {
		if err := batch(c.link, unmeasured(), bulk, bulk, grab, c.read, complete); err != nil {
			return err
		}
	}
	if err := c.flush(); err != nil {
		return err
	}
	control, err := e.gear(ctx)
	if err == nil {
		err = control.awaitJobs(functions, 0)
	}
	if err != nil {
		return err
	}
	e.drop(c.link)
	for _, f := range functions {
		for end := Now() + int64(grace); ; time.Sleep(2 * time.Millisecond) {
			line, err := control.text("drop function " + string(f))
			if err != nil {
				return err
			}
			if line == "OK" {
				break
			}
			// The server may not have noticed yet that the workers are gone.
			if line != "ERR there are still connected workers or executing clients" || Now() > end {
				return fmt.Errorf("wrong reply to drop function %s: expected OK, got %q", f, line)
			}
		}
	}
	return nil
}
