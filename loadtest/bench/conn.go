package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"polystalk/codec/gearman"
)

const (
	maxBody = 1<<30 + 2 // bounds the bytes buffered for one reply
	maxLine = 512       // bounds a reply line of beanstalkd: the longest is "USING " with a tube name
	bulk    = 256       // requests in flight outside of measurements
)

// A Conn is a connection to a server of either protocol, used by one goroutine. Requests are
// appended to Out, sent together, and answered in order.
type Conn struct {
	Out   []byte          // requests that are not sent yet
	Reply Reply           // the last reply of beanstalkd
	Msg   gearman.Message // the last reply of Gearman
	Data  []byte          // the data of Msg; valid until the next read

	nc          net.Conn
	raw         syscall.RawConn       // nil: nc has no descriptor
	step        func(fd uintptr) bool // attempt, bound once
	wrote, size int                   // what attempt wrote and read; wrote is -1 before the write

	in     []byte
	lo, hi int   // unread bytes are in[lo:hi]
	at     int64 // when the bytes of the last reply arrived (Now)

	// The rest is set for connections of a load.
	read     func(*Conn) error // ReadReply or ReadPacket
	depth    int               // maximum of requests in flight
	constant bool              // the server answers constants: job ids and bodies are not checked
	body     []byte            // the template of a body: see stampBody
	tube     string            // beanstalkd: the tube in use
	unique   []byte            // Gearman: the template of a unique id, a prefix and a stamp
}

// NewConn returns a connection that uses nc.
func NewConn(nc net.Conn) *Conn {
	c := &Conn{nc: nc, in: make([]byte, 16<<10)}
	c.step = c.attempt
	if s, ok := nc.(syscall.Conn); ok {
		c.raw, _ = s.SyscallConn() // without it, ask is a flush
	}
	return c
}

// secured begins the address of a server with TLS.
const secured = "tls:"

func dial(ctx context.Context, addr string) (*Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: -1}
	connect := d.DialContext
	addr, secure := strings.CutPrefix(addr, secured)
	if secure {
		connect = (&tls.Dialer{NetDialer: &d, Config: &tls.Config{InsecureSkipVerify: true}}).DialContext
	}
	nc, err := connect(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return NewConn(nc), nil
}

// ask sends Out and waits for the first bytes of the answer. It saves one system call over Write
// and Read: Read first tries to read in vain, since the answer cannot be there yet. A load process
// has one core like the server and must not be the slower of the two, because an idle server looks
// more expensive than it is.
//
// The write happens inside the raw read, after the runtime has armed its poller, so the arrival of
// an answer cannot be missed. Flush and receive handle the rest.
func (c *Conn) ask() error {
	if c.lo != c.hi || c.raw == nil {
		return c.Flush()
	}
	c.lo, c.hi, c.wrote, c.size = 0, 0, -1, 0
	if err := c.raw.Read(c.step); err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	if c.size > 0 {
		c.hi, c.at = c.size, Now()
	}
	if wrote := max(c.wrote, 0); wrote < len(c.Out) {
		c.Out = c.Out[:copy(c.Out, c.Out[wrote:])]
		return c.Flush()
	}
	c.Out = c.Out[:0]
	return nil
}

// The poller calls attempt; true ends the wait.
func (c *Conn) attempt(fd uintptr) bool {
	if c.wrote < 0 {
		n, err := syscall.Write(int(fd), c.Out)
		c.wrote = max(n, 0)
		return err != nil || c.wrote < len(c.Out)
	}
	n, err := syscall.Read(int(fd), c.in)
	c.size = n
	return err != syscall.EAGAIN && err != syscall.EINTR
}

// Flush writes Out, in one system call if the kernel accepts all of it.
func (c *Conn) Flush() error {
	_, err := c.nc.Write(c.Out)
	c.Out = c.Out[:0]
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// unread returns the received bytes that were not used yet. They are valid until the next ask or
// receive.
func (c *Conn) unread() []byte { return c.in[c.lo:c.hi] }

var errClosed = errors.New("the server closed the connection while replies were due")

// receive reads once, after making room for want unread bytes.
func (c *Conn) receive(want int) error {
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
		c.at = Now()
		return nil
	}
	if errors.Is(err, io.EOF) {
		return errClosed
	}
	return fmt.Errorf("receive: %w", err)
}

// Close closes the connection at once, so that a goroutine that waits for a reply returns.
// Any goroutine may call it.
func (c *Conn) Close() { c.nc.Close() }

// ErrMalformed is the error for bytes that are no reply of the protocol.
var ErrMalformed = errors.New("malformed reply")

// A Reply is one answer of beanstalkd's protocol. Line and Body alias the read buffer and are valid
// until the next read.
type Reply struct {
	Line []byte // without CR LF
	Word []byte // the first word of Line
	Num  uint64 // id of INSERTED, RESERVED and FOUND, count of WATCHING and KICKED
	Body []byte // of RESERVED, FOUND and OK, without CR LF
}

// parse reads one reply from the start of b and returns its length. n == 0 means that the reply is
// incomplete; then want is the number of bytes needed, if it is known. It does not use the server's
// codec, so that a mistake in the codec cannot hide itself.
func (r *Reply) parse(b []byte) (n, want int, err error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 && len(b) <= maxLine {
		return 0, len(b) + 1, nil
	}
	line, ok := bytes.CutSuffix(b[:max(end, 0)], []byte{'\r'})
	word, rest, spaced := bytes.Cut(line, []byte{' '})
	*r = Reply{Line: line, Word: word}
	size, total := uint64(0), end+1
	switch string(word) {
	case "INSERTED", "WATCHING":
		r.Num, ok = parseUint(rest, ok)
	case "KICKED":
		r.Num, _ = parseUint(rest, ok && spaced) // of kick-job it has no number
	case "RESERVED", "FOUND":
		id, length, _ := bytes.Cut(rest, []byte{' '})
		r.Num, ok = parseUint(id, ok)
		size, ok = parseUint(length, ok)
		total += int(size) + 2
	case "OK":
		size, ok = parseUint(rest, ok)
		total += int(size) + 2
	}
	if !ok || size > maxBody {
		return 0, 0, fmt.Errorf("%w: line %.60q", ErrMalformed, b)
	}
	if len(b) < total {
		return 0, total, nil
	}
	if total > end+1 {
		body, ok := bytes.CutSuffix(b[end+1:total], []byte("\r\n"))
		if !ok {
			return 0, 0, fmt.Errorf("%w: the body of %q is not followed by CR LF but by %q", ErrMalformed, line, b[total-2:total])
		}
		r.Body = body
	}
	return total, 0, nil
}

// parseUint reads a decimal number that fills b. It fails if ok is false.
func parseUint(b []byte, ok bool) (v uint64, _ bool) {
	if !ok || len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		v = v*10 + uint64(d-'0')
	}
	return v, true
}

// ReadReply reads the next reply of beanstalkd's protocol into Reply.
func (c *Conn) ReadReply() error {
	for {
		n, want, err := c.Reply.parse(c.unread())
		if err != nil {
			return err
		}
		if n > 0 {
			c.lo += n
			return nil
		}
		if err := c.receive(want); err != nil {
			return err
		}
	}
}

// ReadPacket reads Gearman's next packet, or line of text, into Msg and Data.
func (c *Conn) ReadPacket() error {
	for {
		b := c.unread()
		n, fault := gearman.ParseReply(&c.Msg, b, maxBody)
		if fault != nil {
			return fmt.Errorf("%w %.40q: %w", ErrMalformed, b, fault)
		}
		total := n + c.Msg.Size
		if n > 0 && len(b) >= total {
			c.Data = b[n:total]
			c.lo += total
			return nil
		}
		if n == 0 {
			total = len(b) + 1
		}
		if err := c.receive(total); err != nil {
			return err
		}
	}
}

// exchange sends Out and reads the first reply.
func (c *Conn) exchange() error {
	if err := c.ask(); err != nil {
		return err
	}
	return c.read(c)
}

// batch sends n requests, with up to depth of them in flight, and reads their replies. write
// appends request i to Out; check judges reply i. l counts every request.
func (c *Conn) batch(l *lane, n, depth int, write func(i int), check func(i int) error) error {
	for i := 0; i < n; i += depth {
		m := min(n, i+depth)
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
			if err := c.read(c); err != nil {
				return err
			}
			if err := check(j); err != nil {
				return err
			}
			l.answered(t, c.at)
		}
	}
	return nil
}

// StampLen is the length of a stamp: a sequence number or a time in hexadecimal at the beginning of
// a body. The rest of a body is a fixed text.
const StampLen = 16

func newBody(n int) []byte { return bytes.Repeat([]byte("polystalk-load-"), n/15+1)[:n] }

func (c *Conn) stampBody(stamp uint64) { PutStamp(c.body, stamp) }

// PutStamp overwrites the beginning of b with a stamp, cut to the length of b.
func PutStamp(b []byte, stamp uint64) {
	var raw [8]byte
	var text [StampLen]byte
	binary.BigEndian.PutUint64(raw[:], stamp)
	hex.Encode(text[:], raw[:])
	copy(b, text[:])
}

// Stamp returns the stamp at the beginning of b.
func Stamp(b []byte) (uint64, error) {
	stamp, err := strconv.ParseUint(string(b[:min(len(b), StampLen)]), 16, 64)
	if len(b) < StampLen || err != nil {
		return 0, fmt.Errorf("body %.40q has no stamp", b)
	}
	return stamp, nil
}
