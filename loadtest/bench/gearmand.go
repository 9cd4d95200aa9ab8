package bench

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"polystalk/codec/gearman"
)

var gearmand = &protocol{
	name:      "gearman",
	addr:      "127.0.0.1:4730",
	args:      "-L 127.0.0.1 -p {port} -l stderr -P {dir}/gearmand.pid",
	unit:      "job or echo",
	first:     "background",
	ask:       "version\r\n",
	version:   regexp.MustCompile(`^OK (.+)\r?\n`),
	read:      (*Conn).ReadPacket,
	clean:     cleanGearmand,
	workloads: gearmandWorkloads,
	bench:     gearmandBench,
	goals:     gearmandGoals,
}

// wrongPacket returns the error for a reply that a correct server does not send.
func (c *Conn) wrongPacket(request gearman.Type, expected string) error {
	return fmt.Errorf("wrong reply to %v: expected %s, got %v %q %.60q", request, expected, c.Msg.Type, c.Msg.Args[:c.Msg.N], c.Data)
}

// expectPacket checks the type of the reply.
func (c *Conn) expectPacket(request, t gearman.Type) error {
	if c.Msg.Type != t {
		return c.wrongPacket(request, t.String())
	}
	return nil
}

func (c *Conn) request(t gearman.Type, args ...[]byte) {
	c.Out = gearman.AppendRequest(c.Out, t, args...)
}

// can registers functions: c is the connection of a worker.
func (c *Conn) can(functions [][]byte) error {
	for _, f := range functions {
		c.request(gearman.CanDo, f)
	}
	return c.Flush()
}

// submit appends the submission of the job with that stamp.
func (c *Conn) submit(t gearman.Type, function []byte, stamp uint64) {
	c.stampBody(stamp)
	PutStamp(c.unique[len(c.unique)-StampLen:], stamp)
	c.Out = gearman.AppendRequestHead(c.Out, t, len(c.body), function, c.unique)
	c.Out = append(c.Out, c.body...)
}

// expectCreated checks the reply to a submission. The handle must differ from the last one: the
// server must not merge two jobs.
func (c *Conn) expectCreated(t gearman.Type, last []byte) error {
	if err := c.expectPacket(t, gearman.JobCreated); err != nil {
		return err
	}
	if h := c.Msg.Args[0]; len(h) == 0 || len(h) > gearman.MaxHandle || bytes.Equal(h, last) {
		return c.wrongPacket(t, fmt.Sprintf("a new handle after %q", last))
	}
	return nil
}

// expectAssigned checks a JOB_ASSIGN_UNIQ and its body, and returns the stamp of its unique id.
func (c *Conn) expectAssigned() (stamp uint64, err error) {
	if err := c.expectPacket(gearman.GrabJobUniq, gearman.JobAssignUniq); err != nil {
		return 0, err
	}
	text, ours := bytes.CutPrefix(c.Msg.Args[2], c.unique[:len(c.unique)-StampLen])
	if stamp, err = Stamp(text); !ours || err != nil {
		return 0, fmt.Errorf("job %q of another load: unique id %q", c.Msg.Args[0], c.Msg.Args[2])
	}
	return stamp, c.expectBody(stamp)
}

// expectBody compares the data of the reply with the body of stamp.
func (c *Conn) expectBody(stamp uint64) error {
	c.stampBody(stamp)
	if !bytes.Equal(c.Data, c.body) {
		return fmt.Errorf("another body came back: expected %d bytes %.40q…, got %d bytes %.40q…", len(c.body), c.body, len(c.Data), c.Data)
	}
	return nil
}

// complete appends the WORK_COMPLETE of the job that was just assigned.
func (c *Conn) complete(result []byte) {
	c.Out = gearman.AppendRequestHead(c.Out, gearman.WorkComplete, len(result), c.Msg.Args[0])
	c.Out = append(c.Out, result...)
}

// line returns the line of text that was read.
func (c *Conn) line(err error) (string, error) {
	if err != nil {
		return "", err
	}
	return string(c.Msg.Args[0]), c.expectPacket(gearman.Text, gearman.Text)
}

// text sends a line of text, and returns the server's next line.
func (c *Conn) text(command string) (string, error) {
	c.say(command)
	return c.line(c.exchange())
}

// jobs returns the number of jobs of functions, waiting and running.
func (c *Conn) jobs(functions [][]byte) (sum uint64, err error) {
	line, err := c.text("status")
	for ; err == nil && line != "."; line, err = c.line(c.ReadPacket()) {
		f := strings.Split(line, "\t") // the names of a load have no tabs
		if len(f) < 4 {
			return 0, fmt.Errorf("wrong reply to status: expected a function and three numbers, got %q", line)
		}
		total, err := strconv.ParseUint(f[len(f)-3], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("wrong reply to status: expected numbers, got %q", line)
		}
		if slices.ContainsFunc(functions, func(name []byte) bool { return f[0] == string(name) }) {
			sum += total
		}
	}
	return sum, err
}

// awaitJobs polls until the server has exactly want jobs of the functions. The server does not answer
// a worker's report, so its effect cannot be awaited otherwise. A server that does not reach want
// has lost or invented jobs.
func (c *Conn) awaitJobs(functions [][]byte, want uint64) error {
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
	c, err := e.open(ctx)
	if err == nil {
		err = c.can(functions)
	}
	grab := func(int) { c.request(gearman.GrabJobUniq) }
	more := true
	complete := func(int) error {
		if c.Msg.Type == gearman.NoJob {
			more = false
			return nil
		}
		_, err := c.expectAssigned()
		c.complete(nil)
		return err
	}
	for more && err == nil {
		err = c.batch(unmeasured(), bulk, bulk, grab, complete)
	}
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		return err
	}
	control, err := e.open(ctx)
	if err == nil {
		err = control.awaitJobs(functions, 0)
	}
	e.drop(c)
	end := Now() + int64(grace)
	for i := 0; i < len(functions) && err == nil; {
		command := "drop function " + string(functions[i])
		var line string
		switch line, err = control.text(command); {
		case err != nil:
		case line == "OK":
			i++
		case line == "ERR there are still connected workers or executing clients" && Now() < end:
			time.Sleep(2 * time.Millisecond) // the server has not noticed yet that the worker is gone
		default:
			err = fmt.Errorf("wrong reply to %s: expected OK, got %q", command, line)
		}
	}
	return err
}
