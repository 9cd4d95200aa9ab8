package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
)

var beanstalkd = &protocol{
	name:      "beanstalkd",
	addr:      "127.0.0.1:11300",
	args:      "-l 127.0.0.1 -p {port}",
	unit:      "command answered",
	first:     "cycle",
	ask:       "stats\r\n",
	version:   regexp.MustCompile(`\nversion: "?([^"\n]+)"?\n`),
	read:      (*Conn).ReadReply,
	clean:     cleanBeanstalkd,
	workloads: beanstalkdWorkloads,
	bench:     beanstalkdBench,
	goals:     beanstalkdGoals,
}

const (
	jobTTR   = 3600 // seconds, longer than any run: no reservation expires
	jobPri   = 1000
	stopPri  = 1 << 31 // sorts stop jobs after all real ones
	anchorIn = 7200    // seconds of delay of a job that only keeps a tube alive
)

// wrong returns the error for a reply that a correct server does not send.
func (c *Conn) wrong(cmd, expected string) error {
	return fmt.Errorf("wrong reply to %q (tube %q): expected %s, got %q", cmd, c.tube, expected, c.Reply.Line)
}

// expect checks the first word of the reply.
func (c *Conn) expect(cmd, word string) error {
	if string(c.Reply.Word) != word {
		return c.wrong(cmd, word)
	}
	return nil
}

// expects returns the check of batch that calls expect.
func (c *Conn) expects(cmd, word string) func(int) error {
	return func(int) error { return c.expect(cmd, word) }
}

// expectUsing checks the reply to a use of tube, and remembers the tube.
func (c *Conn) expectUsing(tube string) error {
	c.tube = tube
	if string(c.Reply.Word) != "USING" || !c.constant && string(c.Reply.Line[len("USING "):]) != tube {
		return c.wrong("use", "USING "+tube)
	}
	return nil
}

// expectWatching checks the number of watched tubes after a watch or ignore.
func (c *Conn) expectWatching(cmd string, n uint64) error {
	if string(c.Reply.Word) != "WATCHING" || !c.constant && c.Reply.Num != n {
		return c.wrong(cmd, fmt.Sprintf("WATCHING %d", n))
	}
	return nil
}

// expectJob checks a RESERVED, and its body by the stamp of the put. id 0 accepts any id.
func (c *Conn) expectJob(id, stamp uint64) error {
	r := &c.Reply
	if err := c.expect("reserve", "RESERVED"); err != nil {
		return err
	}
	if len(r.Body) != len(c.body) {
		return c.wrong("reserve", fmt.Sprintf("a body of %d bytes", len(c.body)))
	}
	if id != 0 && r.Num != id {
		return c.wrong("reserve", fmt.Sprintf("job %d", id))
	}
	if c.constant {
		return nil
	}
	c.stampBody(stamp)
	if !bytes.Equal(r.Body, c.body) {
		return fmt.Errorf("job %d (tube %q) came back with another body: expected %.40q…, got %.40q…", r.Num, c.tube, c.body, r.Body)
	}
	return nil
}

// put appends a put of a body with that stamp. delay is in seconds.
func (c *Conn) put(pri, delay int, stamp uint64) {
	c.stampBody(stamp)
	b := append(c.Out, "put "...)
	b = strconv.AppendInt(b, int64(pri), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(delay), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, jobTTR, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(c.body)), 10)
	b = append(b, "\r\n"...)
	b = append(b, c.body...)
	c.Out = append(b, "\r\n"...)
}

// say appends a command.
func (c *Conn) say(cmd string) { c.Out = append(append(c.Out, cmd...), "\r\n"...) }

// sayTube appends a command about a tube.
func (c *Conn) sayTube(cmd, tube string) {
	c.Out = append(append(append(append(c.Out, cmd...), ' '), tube...), "\r\n"...)
}

// sayJob appends a command about a job.
func (c *Conn) sayJob(cmd string, id uint64) {
	c.Out = append(append(c.Out, cmd...), ' ')
	c.Out = append(strconv.AppendUint(c.Out, id, 10), "\r\n"...)
}

// command sends a command that is not counted, and checks the first word of its reply.
func (c *Conn) command(cmd, word string) error {
	c.say(cmd)
	if err := c.exchange(); err != nil {
		return err
	}
	return c.expect(cmd, word)
}

// own makes the new connection c use tube and watch only tube.
func (c *Conn) own(tube string) error {
	c.tube = tube
	return errors.Join(c.command("use "+tube, "USING"), c.watchOnly(tube))
}

// watchOnly makes a new connection watch only these tubes.
func (c *Conn) watchOnly(tubes ...string) error {
	for _, tube := range tubes {
		if err := c.command("watch "+tube, "WATCHING"); err != nil {
			return err
		}
	}
	return c.command("ignore default", "WATCHING")
}

// quit sends quit and waits until the server closes the connection.
func (c *Conn) quit() error {
	c.say("quit")
	if err := c.Flush(); err != nil {
		return err
	}
	var more [64]byte
	if n, err := c.nc.Read(more[:]); n > 0 {
		return fmt.Errorf("the server answered quit with %.40q", more[:n])
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("quit: %w", err)
	}
	return nil
}

// anchor creates n tubes: each gets a job with a long delay.
func (e *env) anchor(ctx context.Context, kind string, n int) error {
	c, err := e.open(ctx)
	if err != nil {
		return err
	}
	return c.batch(unmeasured(), 2*n, bulk, func(i int) {
		if i%2 == 0 {
			c.sayTube("use", e.tubeName(kind, i/2))
		} else {
			c.put(jobPri, anchorIn, uint64(i))
		}
	}, func(i int) error { return c.expect("use or put", []string{"USING", "INSERTED"}[i%2]) })
}

// cleanBeanstalkd deletes all jobs in the tubes of this run.
func cleanBeanstalkd(ctx context.Context, e *env) error {
	c, err := e.open(ctx)
	if err != nil {
		return err
	}
	for name := range e.names {
		if err := c.clean(name); err != nil {
			return err
		}
	}
	return c.quit()
}

// clean deletes the ready and delayed jobs of a tube. A run has no other jobs.
func (c *Conn) clean(tube string) error {
	for _, ask := range [][2]string{{"use " + tube, "USING"}, {"kick 100000000", "KICKED"}, {"watch " + tube, "WATCHING"}} {
		if err := c.command(ask[0], ask[1]); err != nil {
			return err
		}
	}
	var ids []uint64
	reserve := func(int) { c.say("reserve-with-timeout 0") }
	onReserve := func(int) error {
		if string(c.Reply.Word) == "TIMED_OUT" {
			return nil
		}
		ids = append(ids, c.Reply.Num)
		return c.expect("reserve-with-timeout 0", "RESERVED")
	}
	remove := func(i int) { c.sayJob("delete", ids[i]) }
	for n := 2; ; n = min(2*n, bulk) {
		ids = ids[:0]
		if err := c.batch(unmeasured(), n, n, reserve, onReserve); err != nil {
			return err
		}
		if err := c.batch(unmeasured(), len(ids), bulk, remove, c.expects("delete", "DELETED")); err != nil {
			return err
		}
		if len(ids) < n {
			return c.command("ignore "+tube, "WATCHING")
		}
	}
}
