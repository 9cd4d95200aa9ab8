package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// epoch is where this process's nanosecond clock starts; only differences
// count, and they come from the monotonic clock.
var epoch = time.Now()

func now() int64 { return int64(time.Since(epoch)) }

const (
	jobTTR   = 3600 // seconds: longer than any run, so that no reservation expires
	jobPri   = 1000
	stopPri  = 1 << 31 // sorts the jobs that end a consumer after all real ones
	anchorIn = 7200    // seconds of delay of a job whose only purpose is to keep a tube alive
)

// A conn is one connection to the server, used by one goroutine: commands are
// appended to a buffer, written at once and their replies read in order.
type conn struct {
	nc       net.Conn
	exchange *exchange
	depth    int
	constant bool
	tube     string // the tube in use, for messages

	out    []byte
	in     []byte
	lo, hi int   // unread bytes are in[lo:hi]
	at     int64 // when the bytes of the last reply had arrived (now)
	rep    reply

	body []byte // the template of a body: see putBody
}

// dial connects to addr: host:port, or unix:PATH.
func dial(ctx context.Context, addr string, l *Load, constant bool) (*conn, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: -1}
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	x, err := newExchange(nc)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	c := &conn{nc: nc, exchange: x, depth: l.Depth, constant: constant, in: make([]byte, 16<<10), tube: "default"}
	c.body = bytes.Repeat([]byte("polystalk-load-"), l.Body/15+1)[:l.Body]
	return c, nil
}

// batch sends n commands, at most depth of them in flight, and reads their
// replies. write appends command i to c.out; check judges reply i. Every
// command is counted, with its latency from the time the pace gave for it.
func (c *conn) batch(l *lane, n int, write func(i int), check func(i int, r *reply) error) error {
	for i := 0; i < n; i += c.depth {
		m := min(n, i+c.depth)
		for j := i; j < m; j++ {
			write(j)
		}
		t, err := l.begin(m - i)
		if err != nil {
			return err
		}
		if err := c.ask(); err != nil {
			return err
		}
		for j := i; j < m; j++ {
			r, err := c.read()
			if err != nil {
				return err
			}
			if err := check(j, r); err != nil {
				return err
			}
			l.answered(t, c.at)
		}
	}
	return nil
}

// ask writes what has been appended and returns when the answer begins to
// arrive, or as soon as that is for flush and read to sort out.
func (c *conn) ask() error {
	if c.lo != c.hi {
		return c.flush()
	}
	c.lo, c.hi = 0, 0
	written, read, err := c.exchange.run(c.out, c.in)
	if err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	if read > 0 {
		c.hi, c.at = read, now()
	}
	if written < len(c.out) {
		c.out = c.out[:copy(c.out, c.out[written:])]
		return c.flush()
	}
	c.out = c.out[:0]
	return nil
}

// flush writes what has been appended, in one system call if the kernel takes it.
func (c *conn) flush() error {
	_, err := c.nc.Write(c.out)
	c.out = c.out[:0]
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// read returns the next reply; it is valid until the next call.
func (c *conn) read() (*reply, error) {
	for {
		n, want, err := parseReply(c.in[c.lo:c.hi], &c.rep)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			c.lo += n
			return &c.rep, nil
		}
		if err := c.fill(want); err != nil {
			return nil, err
		}
	}
}

// fill reads once, after making room for want bytes from c.lo on.
func (c *conn) fill(want int) error {
	if c.lo == c.hi {
		c.lo, c.hi = 0, 0
	}
	if c.lo+want > len(c.in) || c.hi == len(c.in) {
		to := c.in
		if want > len(to) {
			to = make([]byte, want+want/4)
		}
		c.hi = copy(to, c.in[c.lo:c.hi])
		c.in, c.lo = to, 0
	}
	n, err := c.nc.Read(c.in[c.hi:])
	if n > 0 {
		c.hi += n
		c.at = now()
		return nil
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the server closed the connection while replies were due")
	}
	return fmt.Errorf("receive: %w", err)
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

// Body layout: the first 16 bytes are the stamp in hexadecimal (cut to the
// body's length), the rest is a fixed text. A stamp is a sequence number or a
// time; whoever reserves the job knows which to expect.
const stampLen = 16

func (c *conn) stampBody(stamp uint64) {
	var raw [8]byte
	var text [stampLen]byte
	binary.BigEndian.PutUint64(raw[:], stamp)
	hex.Encode(text[:], raw[:])
	copy(c.body, text[:])
}

func (c *conn) putBody(pri, delay int, stamp uint64) {
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

// checkBody compares a reserved job's body with the one put under stamp.
func (c *conn) checkBody(r *reply, stamp uint64) error {
	if len(r.body) != len(c.body) {
		return c.wrong("reserve", fmt.Sprintf("a body of %d bytes", len(c.body)), r)
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

// bodyStamp returns the stamp of a body of at least stampLen bytes.
func bodyStamp(body []byte) (uint64, error) {
	var raw [8]byte
	if len(body) < stampLen {
		return 0, fmt.Errorf("body of %d bytes has no stamp", len(body))
	}
	if _, err := hex.Decode(raw[:], body[:stampLen]); err != nil {
		return 0, fmt.Errorf("body %.40q has no stamp: %w", body, err)
	}
	return binary.BigEndian.Uint64(raw[:]), nil
}

func (c *conn) word(cmd string) { c.out = append(append(c.out, cmd...), "\r\n"...) }

func (c *conn) named(cmd, tube string) {
	c.out = append(append(append(append(c.out, cmd...), ' '), tube...), "\r\n"...)
}

func (c *conn) numbered(cmd string, id uint64) {
	c.out = append(append(c.out, cmd...), ' ')
	c.out = append(strconv.AppendUint(c.out, id, 10), "\r\n"...)
}

// call sends one uncounted command and checks the kind of its reply.
func (c *conn) call(k kind, cmd string) (*reply, error) {
	c.word(cmd)
	if err := c.flush(); err != nil {
		return nil, err
	}
	r, err := c.read()
	if err != nil {
		return nil, err
	}
	return r, c.expect(cmd, k, r)
}

// own makes tube the one that c uses and the only one that it watches.
func (c *conn) own(tube string) error {
	if _, err := c.call(kindUsing, "use "+tube); err != nil {
		return err
	}
	c.tube = tube
	return c.watchOnly(tube)
}

func (c *conn) watchOnly(tube string) error {
	if _, err := c.call(kindWatching, "watch "+tube); err != nil {
		return err
	}
	_, err := c.call(kindWatching, "ignore default")
	return err
}

// quit says goodbye and waits for the server to close, so that it is the
// server's port, not ours, that lingers.
func (c *conn) quit() error {
	c.word("quit")
	if err := c.flush(); err != nil {
		return err
	}
	if n, err := c.nc.Read(c.in); n > 0 {
		return fmt.Errorf("the server answered quit with %.40q", c.in[:n])
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("quit: %w", err)
	}
	return c.nc.Close()
}
