package gearmand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"polystalk/codec/gearman"
	"polystalk/loadtest/drive"
	"polystalk/loadtest/workload"
)

// A conn is one connection on which Gearman is spoken, by a client, a
// worker or an administrator.
type conn struct {
	drive.Link
	depth  int
	unique []byte // the template of a unique id: a prefix, and a stamp
	msg    gearman.Message
	data   []byte // of the last reply
}

func dial(ctx context.Context, addr string, l *workload.Load) (*conn, error) {
	k, err := drive.Dial(ctx, addr, l.Body)
	if err != nil {
		return nil, err
	}
	return &conn{Link: k, depth: l.Depth, unique: make([]byte, drive.StampLen)}, nil
}

// batch sends n requests, at most depth of them in flight: see drive.Batch.
func (c *conn) batch(l *drive.Lane, n, depth int, write func(i int), check func(i int, m *gearman.Message) error) error {
	return drive.Batch(&c.Link, l, n, depth, write, c.read, check)
}

// read returns the next packet or line; it is valid until the next call, and so
// is c.data.
func (c *conn) read() (*gearman.Message, error) {
	for {
		b := c.Unread()
		n, fault := gearman.ParseReply(&c.msg, b, drive.MaxBody)
		if fault != nil {
			return nil, fmt.Errorf("malformed reply %.40q: %w", b, fault)
		}
		total := n + c.msg.Size
		if n > 0 && len(b) >= total {
			c.data = b[n:total]
			c.Use(total)
			return &c.msg, nil
		}
		if n == 0 {
			total = len(b) + 1
		}
		if err := c.Receive(total); err != nil {
			return nil, err
		}
	}
}

// wrong is the error for a reply that a correct server would not have sent.
func (c *conn) wrong(request, expected string, m *gearman.Message) error {
	return fmt.Errorf("wrong reply to %s: expected %s, got %v %q %.60q", request, expected, m.Type, m.Args[:m.N], c.data)
}

// expect checks the type of a reply alone.
func (c *conn) expect(request, t gearman.Type, m *gearman.Message) error {
	if m.Type != t {
		return c.wrong(request.String(), t.String(), m)
	}
	return nil
}

// request appends a request without data.
func (c *conn) request(t gearman.Type, args ...[]byte) {
	c.Out = gearman.AppendRequest(c.Out, t, args...)
}

// submit appends the submission of the job of that stamp.
func (c *conn) submit(t gearman.Type, function []byte, stamp uint64) {
	c.StampBody(stamp)
	c.Out = gearman.AppendRequestHead(c.Out, t, len(c.Body), function, c.stampUnique(stamp))
	c.Out = append(c.Out, c.Body...)
}

func (c *conn) stampUnique(stamp uint64) []byte {
	drive.PutStamp(c.unique[len(c.unique)-drive.StampLen:], stamp)
	return c.unique
}

// created checks the reply to a submission, and that the handle is another than
// last, the one before: a job must not be taken for one that waits.
func (c *conn) created(t gearman.Type, m *gearman.Message, last []byte) error {
	if err := c.expect(t, gearman.JobCreated, m); err != nil {
		return err
	}
	if h := m.Args[0]; len(h) == 0 || len(h) > gearman.MaxHandle || bytes.Equal(h, last) {
		return c.wrong(t.String(), fmt.Sprintf("a handle of its own after %q", last), m)
	}
	return nil
}

// assigned checks a JOB_ASSIGN_UNIQ: the body must be the one of the unique id,
// whose stamp is returned.
func (c *conn) assigned(m *gearman.Message) (stamp uint64, err error) {
	if err := c.expect(gearman.GrabJobUniq, gearman.JobAssignUniq, m); err != nil {
		return 0, err
	}
	unique := m.Args[2]
	if at := len(c.unique) - drive.StampLen; len(unique) == len(c.unique) && bytes.Equal(unique[:at], c.unique[:at]) {
		stamp, err = drive.Stamp(unique[at:])
	} else {
		err = fmt.Errorf("expected a unique id such as %q, got %q", c.unique, unique)
	}
	if err != nil {
		return 0, fmt.Errorf("job %q of another load: %w", m.Args[0], err)
	}
	return stamp, c.checkData(m.Args[0], stamp)
}

// checkData compares the data of the last reply, about the job of that handle,
// with the body submitted under stamp.
func (c *conn) checkData(handle []byte, stamp uint64) error {
	c.StampBody(stamp)
	if !bytes.Equal(c.data, c.Body) {
		return fmt.Errorf("job %q came back with another body: expected %d bytes %.40q…, got %d bytes %.40q…",
			handle, len(c.Body), c.Body, len(c.data), c.data)
	}
	return nil
}

// complete appends the WORK_COMPLETE of a job.
func (c *conn) complete(handle, result []byte) {
	c.Out = gearman.AppendRequestHead(c.Out, gearman.WorkComplete, len(result), handle)
	c.Out = append(c.Out, result...)
}

// Quit says that nothing more will come and waits for the server to close. A
// worker may be woken meanwhile.
func (c *conn) Quit() error {
	c.NC.SetDeadline(time.Now().Add(workload.Grace))
	half, ok := c.NC.(interface{ CloseWrite() error })
	if !ok {
		return c.NC.Close()
	}
	if err := half.CloseWrite(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	for {
		m, err := c.read()
		switch {
		case errors.Is(err, drive.ErrClosed) || errors.Is(err, net.ErrClosed):
			return c.NC.Close()
		case err != nil:
			return fmt.Errorf("close: %w", err)
		case m.Type != gearman.Noop:
			return c.wrong("the end", "nothing more", m)
		}
	}
}
