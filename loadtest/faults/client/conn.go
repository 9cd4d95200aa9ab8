package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	"polystalk/codec/gearman"
	"polystalk/loadtest/bench"
	"polystalk/loadtest/faults/history"
)

// maxReply bounds what is read for one reply.
const maxReply = 1 << 24

// A conn is one connection to a node. Commands are appended to out and sent together;
// their answers come in order.
type conn struct {
	nc       net.Conn
	r        *bufio.Reader
	out      []byte
	patience time.Duration // for an answer
	sent     int64         // when out was last sent
	session  *history.Session
	msg      gearman.Message
	buf      []byte
}

// errBroken is any end of a connection that a fault explains.
var errBroken = errors.New("the connection broke")

// dial connects to any of addrs.
func dial(ctx context.Context, addrs []string, rng *rand.Rand, patience time.Duration, h *history.History) (*conn, error) {
	d := net.Dialer{Timeout: time.Second, KeepAlive: -1}
	nc, err := d.DialContext(ctx, "tcp", addrs[rng.IntN(len(addrs))])
	if err != nil {
		return nil, errBroken
	}
	return &conn{nc: nc, r: bufio.NewReader(nc), patience: patience, session: h.Connect()}, nil
}

// close ends the connection, and with it what the session holds.
func (c *conn) close() {
	c.nc.Close()
	c.session.Broken()
}

// say appends a command, or a part of one.
func (c *conn) say(format string, args ...any) { c.out = fmt.Appendf(c.out, format, args...) }

// send sends what was appended. Whether it has arrived is in doubt in any case.
func (c *conn) send() error {
	c.sent = bench.Now()
	c.nc.SetDeadline(time.Now().Add(c.patience))
	_, err := c.nc.Write(c.out)
	c.out = c.out[:0]
	if err != nil {
		return errBroken
	}
	return nil
}

// call is that of an answer that has just come to what was sent last.
func (c *conn) call() history.Call {
	return history.Call{Invoked: c.sent, Answered: bench.Now()}
}

// A reply is an answer of beanstalkd's protocol.
type reply struct {
	word string // the first of the line
	id   uint64 // INSERTED, RESERVED, BURIED, KICKED, WATCHING: the number behind it; else 0
	body []byte // of RESERVED and OK; valid until the next read
}

// wrong is an answer that is none to what was asked.
type wrong struct{ asked, got string }

func (w wrong) Error() string { return fmt.Sprintf("%s was answered %.80q", w.asked, w.got) }

// read returns the answer to what was asked. more is how long the server may make it
// wait, besides patience.
func (c *conn) read(asked string, more time.Duration) (reply, error) {
	var r reply
	c.nc.SetDeadline(time.Now().Add(c.patience + more))
	line, err := c.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return r, wrong{asked, string(line)}
	}
	if err != nil {
		return r, errBroken
	}
	line, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return r, wrong{asked, string(line)}
	}
	fields := bytes.Fields(line)
	if len(fields) == 0 {
		return r, wrong{asked, string(line)}
	}
	r.word = string(fields[0])
	if len(fields) > 1 && r.word != "USING" {
		if r.id, err = strconv.ParseUint(string(fields[1]), 10, 64); err != nil {
			return r, wrong{asked, string(line)}
		}
	}
	size := -1
	switch {
	case r.word == "OK":
		size = int(r.id)
	case r.word == "RESERVED" && len(fields) == 3:
		size, err = strconv.Atoi(string(fields[2]))
	}
	if err != nil || size > maxReply {
		return r, wrong{asked, string(line)}
	}
	if size >= 0 {
		if r.body, err = c.bytes(size + 2); err != nil {
			return r, err
		}
		if r.body, ok = bytes.CutSuffix(r.body, []byte("\r\n")); !ok {
			return r, wrong{asked, fmt.Sprintf("%s with a body of another length", r.word)}
		}
	}
	c.session.Answered(c.sent)
	return r, nil
}

// bytes reads n bytes, valid until it is called again.
func (c *conn) bytes(n int) ([]byte, error) {
	if cap(c.buf) < n {
		c.buf = make([]byte, n+n/4)
	}
	if _, err := io.ReadFull(c.r, c.buf[:n]); err != nil {
		return nil, errBroken
	}
	return c.buf[:n], nil
}

// ask sends what was appended, one command, and returns its answer, which must begin
// with one of the words.
func (c *conn) ask(more time.Duration, words ...string) (reply, error) {
	asked := string(c.out[:min(len(c.out), 60)])
	if err := c.send(); err != nil {
		return reply{}, err
	}
	r, err := c.read(asked, more)
	if err != nil {
		return r, err
	}
	if slices.Contains(words, r.word) {
		return r, nil
	}
	return r, wrong{asked, r.word}
}

// packet appends a request of Gearman's.
func (c *conn) packet(t gearman.Type, args ...string) {
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	c.out = gearman.AppendRequest(c.out, t, raw...)
}

// readPacket returns the next packet that the server sends, within a time; it is valid
// until the next one is read, and so are the data behind it.
func (c *conn) readPacket(within time.Duration) (*gearman.Message, []byte, error) {
	c.nc.SetDeadline(time.Now().Add(within))
	head, err := c.r.Peek(gearman.HeaderSize)
	if err != nil {
		return nil, nil, errBroken
	}
	size := int(uint32(head[8])<<24 | uint32(head[9])<<16 | uint32(head[10])<<8 | uint32(head[11]))
	if size > maxReply {
		return nil, nil, wrong{"a request of Gearman's", string(head)}
	}
	b, err := c.bytes(gearman.HeaderSize + size)
	if err != nil {
		return nil, nil, err
	}
	n, fault := gearman.ParseReply(&c.msg, b, maxReply)
	if fault != nil || n+c.msg.Size != len(b) {
		return nil, nil, wrong{"a request of Gearman's", string(b[:min(len(b), 60)])}
	}
	c.session.Answered(c.sent)
	return &c.msg, b[n:], nil
}
