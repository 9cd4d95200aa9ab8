package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
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
)

// maxReply bounds the length of one reply, in bytes.
const maxReply = 1 << 24

// A conn is a connection to a node, in either protocol. Commands are appended to out and sent
// together; their answers arrive in order.
type conn struct {
	nc       net.Conn
	r        *bufio.Reader
	out      []byte
	patience time.Duration // for an answer
	sent     int64         // when out was last sent
	holder   *holder
	msg      gearman.Message
	buf      []byte
}

// errBroken stands for any end of a connection that a fault explains.
var errBroken = errors.New("the connection broke")

// dial connects to a random address of addrs.
func dial(ctx context.Context, addrs []string, rng *rand.Rand, patience time.Duration, h *history) (*conn, error) {
	d := net.Dialer{Timeout: time.Second, KeepAlive: -1}
	nc, err := d.DialContext(ctx, "tcp", addrs[rng.IntN(len(addrs))])
	if err != nil {
		return nil, errBroken
	}
	return &conn{nc: nc, r: bufio.NewReader(nc), patience: patience, holder: h.connect()}, nil
}

func (c *conn) close() {
	c.nc.Close()
	c.holder.broken()
}

// say appends a command, or a part of one.
func (c *conn) say(format string, args ...any) { c.out = fmt.Appendf(c.out, format, args...) }

// send sends out. Even without an error it is in doubt whether the server gets it.
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

// call returns the call of an answer that has just arrived: it was invoked by the last send.
func (c *conn) call() call { return call{c.sent, bench.Now()} }

// A reply is an answer of beanstalkd's protocol.
type reply struct {
	word string // the first of the line
	id   uint64 // the number after it; 0: none
	body []byte // of RESERVED and OK; valid until the next read
}

// A wrong is a reply that does not fit the command.
type wrong struct{ asked, got string }

func (w wrong) Error() string { return fmt.Sprintf("%s was answered %.80q", w.asked, w.got) }

// read returns the answer to the command asked. The server may wait for more in addition to
// patience.
func (c *conn) read(asked string, more time.Duration) (reply, error) {
	var r reply
	c.nc.SetDeadline(time.Now().Add(c.patience + more))
	line, err := c.r.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return r, errBroken
	}
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	fields := bytes.Fields(text)
	if !ok || len(fields) == 0 {
		return r, wrong{asked, string(line)}
	}
	r.word = string(fields[0])
	if len(fields) > 1 && r.word != "USING" {
		r.id, err = strconv.ParseUint(string(fields[1]), 10, 64)
	}
	size := -1
	switch {
	case r.word == "OK":
		size = int(r.id)
	case r.word == "RESERVED" && len(fields) == 3 && err == nil:
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
			return r, wrong{asked, r.word + " with a body of another length"}
		}
	}
	c.holder.answered(c.sent)
	return r, nil
}

// bytes reads n bytes, valid until the next call.
func (c *conn) bytes(n int) ([]byte, error) {
	if cap(c.buf) < n {
		c.buf = make([]byte, n+n/4)
	}
	if _, err := io.ReadFull(c.r, c.buf[:n]); err != nil {
		return nil, errBroken
	}
	return c.buf[:n], nil
}

// ask sends out, which holds one command, and returns its answer, which must begin with one of
// words.
func (c *conn) ask(words ...string) (reply, error) {
	asked := string(c.out[:min(len(c.out), 60)])
	if err := c.send(); err != nil {
		return reply{}, err
	}
	r, err := c.read(asked, 0)
	if err == nil && !slices.Contains(words, r.word) {
		err = wrong{asked, r.word}
	}
	return r, err
}

// packet appends a request of Gearman.
func (c *conn) packet(t gearman.Type, args ...string) {
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	c.out = gearman.AppendRequest(c.out, t, raw...)
}

// readPacket returns the server's next packet and its data; both are valid until the next call.
func (c *conn) readPacket() (*gearman.Message, []byte, error) {
	c.nc.SetDeadline(time.Now().Add(c.patience))
	head, err := c.r.Peek(gearman.HeaderSize)
	if err != nil {
		return nil, nil, errBroken
	}
	size := int(binary.BigEndian.Uint32(head[8:]))
	if size > maxReply {
		return nil, nil, wrong{"a request of Gearman", string(head)}
	}
	b, err := c.bytes(gearman.HeaderSize + size)
	if err != nil {
		return nil, nil, err
	}
	n, fault := gearman.ParseReply(&c.msg, b, maxReply)
	if fault != nil || n+c.msg.Size != len(b) {
		return nil, nil, wrong{"a request of Gearman", string(b[:min(len(b), 60)])}
	}
	c.holder.answered(c.sent)
	return &c.msg, b[n:], nil
}
