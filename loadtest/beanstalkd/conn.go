package beanstalkd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"

	"polystalk/loadtest/drive"
	"polystalk/loadtest/workload"
)

const (
	jobTTR   = 3600 // seconds: longer than any run, so that no reservation expires
	jobPri   = 1000
	stopPri  = 1 << 31 // sorts the jobs that end a consumer after all real ones
	anchorIn = 7200    // seconds of delay of a job whose only purpose is to keep a tube alive
)

// A conn is one connection on which beanstalkd's protocol is spoken.
type conn struct {
	drive.Link
	depth    int    // commands in flight, at most
	constant bool   // the server answers constants: what they say of jobs is not checked
	tube     string // the tube in use, for messages
	rep      reply  // the last one read
}

func dial(ctx context.Context, addr string, l *workload.Load, constant bool) (*conn, error) {
	k, err := drive.Dial(ctx, addr, l.Body)
	if err != nil {
		return nil, err
	}
	return &conn{Link: k, depth: l.Depth, constant: constant, tube: "default"}, nil
}

// batch sends n commands, at most depth of them in flight: see drive.Batch.
func (c *conn) batch(l *drive.Lane, n int, write func(i int), check func(i int, r *reply) error) error {
	return drive.Batch(&c.Link, l, n, c.depth, write, c.read, check)
}

// inBulk runs f with many commands in flight, whatever the depth: for what is
// not measured.
func (c *conn) inBulk(f func() error) error {
	depth := c.depth
	c.depth = 256
	defer func() { c.depth = depth }()
	return f()
}

// read returns the next reply; it is valid until the next call.
func (c *conn) read() (*reply, error) {
	for {
		n, want, err := parseReply(c.Unread(), &c.rep)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			c.Use(n)
			return &c.rep, nil
		}
		if err := c.Receive(want); err != nil {
			return nil, err
		}
	}
}

// wrong is the error for a reply that a correct server would not have sent.
func (c *conn) wrong(cmd, expected string, r *reply) error {
	return fmt.Errorf("wrong reply to %q (tube %q): expected %s, got %q", cmd, c.tube, expected, r.line)
}

// expect checks the kind of a reply alone.
func (c *conn) expect(cmd string, k kind, r *reply) error {
	if r.kind != k {
		return c.wrong(cmd, k.String(), r)
	}
	return nil
}

// usingTube checks the reply to a use of c.tube.
func (c *conn) usingTube(r *reply) error {
	if r.kind != kindUsing || (!c.constant && string(r.line[len("USING "):]) != c.tube) {
		return c.wrong("use", "USING "+c.tube, r)
	}
	return nil
}

// watching checks how many tubes a watch or ignore leaves watched.
func (c *conn) watching(cmd string, n uint64, r *reply) error {
	if r.kind != kindWatching || (!c.constant && r.num != n) {
		return c.wrong(cmd, fmt.Sprintf("WATCHING %d", n), r)
	}
	return nil
}

// putBody appends a put of a body with that stamp; delay is in seconds.
func (c *conn) putBody(pri, delay int, stamp uint64) {
	c.StampBody(stamp)
	b := append(c.Out, "put "...)
	b = strconv.AppendInt(b, int64(pri), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(delay), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, jobTTR, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(c.Body)), 10)
	b = append(b, "\r\n"...)
	b = append(b, c.Body...)
	c.Out = append(b, "\r\n"...)
}

// checkID compares the id of a reserved job with the expected one.
func (c *conn) checkID(r *reply, id uint64) error {
	if r.num != id {
		return c.wrong("reserve", fmt.Sprintf("job %d", id), r)
	}
	return nil
}

// checkBody compares a reserved job's body with the one put under stamp.
func (c *conn) checkBody(r *reply, stamp uint64) error {
	if len(r.body) != len(c.Body) {
		return c.wrong("reserve", fmt.Sprintf("a body of %d bytes", len(c.Body)), r)
	}
	if c.constant {
		return nil
	}
	c.StampBody(stamp)
	if !bytes.Equal(r.body, c.Body) {
		return fmt.Errorf("job %d (tube %q) came back with another body: expected %.40q…, got %.40q…", r.num, c.tube, c.Body, r.body)
	}
	return nil
}

// word appends a command without an argument, or with those that cmd has.
func (c *conn) word(cmd string) { c.Out = append(append(c.Out, cmd...), "\r\n"...) }

// named appends a command about a tube.
func (c *conn) named(cmd, tube string) {
	c.Out = append(append(append(append(c.Out, cmd...), ' '), tube...), "\r\n"...)
}

// numbered appends a command about a job.
func (c *conn) numbered(cmd string, id uint64) {
	c.Out = append(append(c.Out, cmd...), ' ')
	c.Out = append(strconv.AppendUint(c.Out, id, 10), "\r\n"...)
}

// call sends one uncounted command and checks the kind of its reply.
func (c *conn) call(k kind, cmd string) (*reply, error) {
	c.word(cmd)
	if err := c.Flush(); err != nil {
		return nil, err
	}
	r, err := c.read()
	if err != nil {
		return nil, err
	}
	return r, c.expect(cmd, k, r)
}

// own makes tube the one that c, a new connection, uses and the only one that it
// watches.
func (c *conn) own(tube string) error {
	if _, err := c.call(kindUsing, "use "+tube); err != nil {
		return err
	}
	c.tube = tube
	return c.watchOnly(tube)
}

// watchOnly makes tube the only one that a new connection watches.
func (c *conn) watchOnly(tube string) error {
	if _, err := c.call(kindWatching, "watch "+tube); err != nil {
		return err
	}
	_, err := c.call(kindWatching, "ignore default")
	return err
}

// Quit says goodbye and waits for the server to close, so that it is the
// server's port, not ours, that lingers.
func (c *conn) Quit() error {
	c.word("quit")
	if err := c.Flush(); err != nil {
		return err
	}
	var more [64]byte
	if n, err := c.NC.Read(more[:]); n > 0 {
		return fmt.Errorf("the server answered quit with %.40q", more[:n])
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("quit: %w", err)
	}
	return c.NC.Close()
}

var versionLine = regexp.MustCompile(`(?m)^version: "?([^"\n]*)"?$`)

// version asks the server.
func version(ctx context.Context, addr string) (string, error) {
	c, err := dial(ctx, addr, &workload.Load{}, false)
	if err != nil {
		return "", err
	}
	defer c.NC.Close()
	c.NC.SetDeadline(time.Now().Add(workload.Grace))
	r, err := c.call(kindOK, "stats")
	if err != nil {
		return "", err
	}
	m := versionLine.FindSubmatch(r.body)
	if m == nil {
		return "", fmt.Errorf("stats has no version: %q", r.body)
	}
	return string(m[1]), c.Quit()
}
