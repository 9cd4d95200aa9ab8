package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"polystalk/codec/gearman"
	"polystalk/loadtest/bench"
)

// A conn is a connection to a node, in either protocol.
type conn struct {
	*bench.Conn
	nc       net.Conn
	patience time.Duration // for an answer
	sent     int64         // when Out was last sent
	holder   *holder
}

// errBroken stands for any end of a connection that a fault explains.
var errBroken = errors.New("the connection broke")

// wrong returns the error for a reply that does not fit the command.
func wrong(asked string, got any) error { return fmt.Errorf("%s was answered %.80q", asked, got) }

func newConn(nc net.Conn, patience time.Duration, h *history) *conn {
	return &conn{Conn: bench.NewConn(nc), nc: nc, patience: patience, holder: h.connect()}
}

func (c *conn) close() {
	c.Close()
	c.holder.broken()
}

// say appends a command, or a part of one.
func (c *conn) say(format string, args ...any) { c.Out = fmt.Appendf(c.Out, format, args...) }

// send sends Out. Even without an error it is in doubt whether the server gets it.
func (c *conn) send() error {
	c.sent = bench.Now()
	c.nc.SetDeadline(time.Now().Add(c.patience))
	if c.Flush() != nil {
		return errBroken
	}
	return nil
}

// call returns the call of an answer that has just arrived: it was invoked by the last send.
func (c *conn) call() call { return call{c.sent, bench.Now()} }

// receive calls read for the answer to the command asked. The server may wait for more in addition
// to patience.
func (c *conn) receive(asked string, more time.Duration, read func() error) error {
	c.nc.SetDeadline(time.Now().Add(c.patience + more))
	if err := read(); errors.Is(err, bench.ErrMalformed) {
		return wrong(asked, err.Error())
	} else if err != nil {
		return errBroken
	}
	c.holder.answered(c.sent)
	return nil
}

// read returns the first word of the next reply of beanstalkd's protocol.
func (c *conn) read(asked string, more time.Duration) (string, error) {
	err := c.receive(asked, more, c.ReadReply)
	return string(c.Reply.Word), err
}

// ask sends Out, which holds one command, and reads its answer, which must begin with one of
// words.
func (c *conn) ask(words ...string) error {
	asked := string(c.Out[:min(len(c.Out), 60)])
	if err := c.send(); err != nil {
		return err
	}
	word, err := c.read(asked, 0)
	if err == nil && !slices.Contains(words, word) {
		err = wrong(asked, word)
	}
	return err
}

// packet appends a request of Gearman.
func (c *conn) packet(t gearman.Type, args ...string) {
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	c.Out = gearman.AppendRequest(c.Out, t, raw...)
}

// readPacket reads the server's next packet.
func (c *conn) readPacket() error { return c.receive("a request of Gearman", 0, c.ReadPacket) }
