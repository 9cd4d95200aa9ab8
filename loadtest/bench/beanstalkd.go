package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	jobTTR   = 3600 // seconds, longer than any run: no reservation expires
	jobPri   = 1000
	stopPri  = 1 << 31 // sorts stop jobs after all real ones
	anchorIn = 7200    // seconds of delay of a job that only keeps a tube alive
	bulk     = 256     // commands in flight outside of measurements
)

// A bconn is a connection that speaks beanstalkd's protocol. It parses replies itself instead of
// with the server's codec, so a mistake in the codec cannot hide itself.
type bconn struct {
	*link
	depth    int    // maximum of commands in flight
	constant bool   // the server answers constants: job ids and bodies are not checked
	tube     string // the tube in use
	rep      reply  // the last reply
}

// A reply is one answer of the server. line and body alias the read buffer and are valid
// until the next read.
type reply struct {
	line []byte // without \r\n
	word []byte // the first word of line
	num  uint64 // id of INSERTED and RESERVED, count of WATCHING
	body []byte // of RESERVED and OK, without \r\n
}

// maxLine bounds a reply line: the longest is "USING " with a tube name.
const maxLine = 512

// parse reads one reply from the start of b and returns its length. n == 0 means that the reply is
// incomplete; then want is the number of bytes needed, if it is known.
func (r *reply) parse(b []byte) (n, want int, err error) {
	end := bytes.IndexByte(b, '\r')
	if end < 0 || end+1 == len(b) {
		if len(b) > maxLine {
			return 0, 0, fmt.Errorf("reply line of more than %d bytes: %q…", maxLine, b[:40])
		}
		return 0, len(b) + 1, nil
	}
	line := b[:end]
	*r = reply{line: line, word: line}
	var rest []byte
	if before, after, ok := bytes.Cut(line, []byte{' '}); ok {
		r.word, rest = before, after
	}
	ok, hasBody := b[end+1] == '\n', false
	var size uint64
	switch string(r.word) {
	case "INSERTED", "WATCHING":
		r.num, ok = parseUint(rest, ok)
	case "RESERVED":
		id, length, _ := bytes.Cut(rest, []byte{' '})
		r.num, ok = parseUint(id, ok)
		size, ok = parseUint(length, ok)
		hasBody = true
	case "OK":
		size, ok = parseUint(rest, ok)
		hasBody = true
	}
	if !ok || size > maxBody {
		return 0, 0, fmt.Errorf("malformed reply line %q", b[:end+2])
	}
	if !hasBody {
		return end + 2, 0, nil
	}
	total := end + 2 + int(size) + 2
	if len(b) < total {
		return 0, total, nil
	}
	if b[total-2] != '\r' || b[total-1] != '\n' {
		return 0, 0, fmt.Errorf("body of %q is not followed by CR LF but by %q", line, b[total-2:total])
	}
	r.body = b[end+2 : total-2]
	return total, 0, nil
}

// parseUint reads a decimal number that fills b. It fails if ok is false.
func parseUint(b []byte, ok bool) (v uint64, _ bool) {
	if !ok || len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	return v, true
}

// read returns the next reply, valid until the next call.
func (c *bconn) read() (*reply, error) {
	for {
		n, want, err := c.rep.parse(c.unread())
		if err != nil {
			return nil, err
		}
		if n > 0 {
			c.lo += n
			return &c.rep, nil
		}
		if err := c.receive(want); err != nil {
			return nil, err
		}
	}
}

// batch sends n commands, with up to depth of them in flight: see the function batch.
func (c *bconn) batch(l *lane, n int, write func(i int), check func(i int, r *reply) error) error {
	return batch(c.link, l, n, c.depth, write, c.read, check)
}

// wrong returns the error for a reply that a correct server does not send.
func (c *bconn) wrong(cmd, expected string, r *reply) error {
	return fmt.Errorf("wrong reply to %q (tube %q): expected %s, got %q", cmd, c.tube, expected, r.line)
}

// expect checks the first word of a reply.
func (c *bconn) expect(cmd, word string, r *reply) error {
	if string(r.word) != word {
		return c.wrong(cmd, word, r)
	}
	return nil
}

// expectUsing checks the reply to a use of c.tube.
func (c *bconn) expectUsing(r *reply) error {
	if string(r.word) != "USING" || !c.constant && string(r.line[len("USING "):]) != c.tube {
		return c.wrong("use", "USING "+c.tube, r)
	}
	return nil
}

// expectWatching checks the number of watched tubes after a watch or ignore.
func (c *bconn) expectWatching(cmd string, n uint64, r *reply) error {
	if string(r.word) != "WATCHING" || !c.constant && r.num != n {
		return c.wrong(cmd, fmt.Sprintf("WATCHING %d", n), r)
	}
	return nil
}

// expectJob checks a RESERVED, and its body by the stamp of the put. id 0 accepts any id.
func (c *bconn) expectJob(r *reply, id, stamp uint64) error {
	if err := c.expect("reserve", "RESERVED", r); err != nil {
		return err
	}
	if len(r.body) != len(c.body) {
		return c.wrong("reserve", fmt.Sprintf("a body of %d bytes", len(c.body)), r)
	}
	if id != 0 && r.num != id {
		return c.wrong("reserve", fmt.Sprintf("job %d", id), r)
	}
	if c.constant {
		return nil
	}
	c.stampBody(stamp)
	if !bytes.Equal(r.body, c.body) {
		return fmt.Errorf("job %d (tube %q) came back with another body: expected %.40q…, got %.40q…", r.num, c.tube, c.body, r.body)
	}
	return nil
}

// put appends a put of a body with that stamp. delay is in seconds.
func (c *bconn) put(pri, delay int, stamp uint64) {
	c.stampBody(stamp)
	b := append(c.out, "put "...)
	b = strconv.AppendInt(b, int64(pri), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(delay), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, jobTTR, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(c.body)), 10)
	b = append(b, "\r\n"...)
	b = append(b, c.body...)
	c.out = append(b, "\r\n"...)
}

// say appends a command.
func (c *bconn) say(cmd string) { c.out = append(append(c.out, cmd...), "\r\n"...) }

// sayTube appends a command about a tube.
func (c *bconn) sayTube(cmd, tube string) {
	c.out = append(append(append(append(c.out, cmd...), ' '), tube...), "\r\n"...)
}

// sayJob appends a command about a job.
func (c *bconn) sayJob(cmd string, id uint64) {
	c.out = append(append(c.out, cmd...), ' ')
	c.out = append(strconv.AppendUint(c.out, id, 10), "\r\n"...)
}

// call sends out, which holds one command that is not counted, and checks the reply's first word.
func (c *bconn) call(word string) (*reply, error) {
	cmd := string(c.out[:min(len(c.out), 60)])
	if err := c.flush(); err != nil {
		return nil, err
	}
	r, err := c.read()
	if err != nil {
		return nil, err
	}
	return r, c.expect(cmd, word, r)
}

// command sends a command that is not counted, and checks the first word of its reply.
func (c *bconn) command(cmd, word string) error {
	c.say(cmd)
	_, err := c.call(word)
	return err
}

// own makes the new connection c use tube and watch only tube.
func (c *bconn) own(tube string) error {
	c.tube = tube
	return errors.Join(c.command("use "+tube, "USING"), c.watchOnly(tube))
}

// watchOnly makes a new connection watch only these tubes.
func (c *bconn) watchOnly(tubes ...string) error {
	for _, tube := range tubes {
		if err := c.command("watch "+tube, "WATCHING"); err != nil {
			return err
		}
	}
	return c.command("ignore default", "WATCHING")
}

// quit sends quit and waits until the server closes the connection.
func (c *bconn) quit() error {
	c.say("quit")
	if err := c.flush(); err != nil {
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

// beans opens a connection.
func (e *env) beans(ctx context.Context) (*bconn, error) {
	k, err := e.dial(ctx)
	return &bconn{link: k, depth: e.Load.Depth, constant: e.Constant, tube: "default"}, err
}

// anchor puts a job with a long delay into each tube, so that the tubes exist.
func (c *bconn) anchor(tubes []string) error {
	say := func(i int) {
		if i%2 == 0 {
			c.sayTube("use", tubes[i/2])
		} else {
			c.put(jobPri, anchorIn, uint64(i))
		}
	}
	check := func(i int, r *reply) error {
		if i%2 == 0 {
			return c.expect("use", "USING", r)
		}
		return c.expect("put", "INSERTED", r)
	}
	return batch(c.link, unmeasured(), 2*len(tubes), bulk, say, c.read, check)
}

// cleanBeanstalkd deletes all jobs in the tubes of this run.
func cleanBeanstalkd(ctx context.Context, e *env) error {
	c, err := e.beans(ctx)
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
func (c *bconn) clean(tube string) error {
	for _, ask := range [][2]string{{"use " + tube, "USING"}, {"kick 100000000", "KICKED"}, {"watch " + tube, "WATCHING"}} {
		if err := c.command(ask[0], ask[1]); err != nil {
			return err
		}
	}
	ids := make([]uint64, 0, bulk)
	reserve := func(int) { c.say("reserve-with-timeout 0") }
	onReserve := func(_ int, r *reply) error {
		if string(r.word) == "TIMED_OUT" {
			return nil
		}
		ids = append(ids, r.num)
		return c.expect("reserve-with-timeout 0", "RESERVED", r)
	}
	remove := func(i int) { c.sayJob("delete", ids[i]) }
	onRemove := func(_ int, r *reply) error { return c.expect("delete", "DELETED", r) }
	for n := 2; ; n = min(2*n, bulk) {
		ids = ids[:0]
		if err := batch(c.link, unmeasured(), n, n, reserve, c.read, onReserve); err != nil {
			return err
		}
		if err := batch(c.link, unmeasured(), len(ids), bulk, remove, c.read, onRemove); err != nil {
			return err
		}
		if len(ids) < n {
			break
		}
	}
	return c.command("ignore "+tube, "WATCHING")
}
