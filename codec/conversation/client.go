package conversation

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// A Client is a connection of beanstalkd's protocol that reads one reply at a time. One
// goroutine uses it.
type Client struct {
	net.Conn
	r *bufio.Reader
}

// Dial connects to a server.
func Dial(network, address string) (*Client, error) {
	c, err := net.DialTimeout(network, address, Patience)
	if err != nil {
		return nil, err
	}
	return &Client{Conn: c, r: bufio.NewReaderSize(c, 16<<10)}, nil
}

// Ask sends bytes and returns the next reply, body and line ends included.
func (c *Client) Ask(s string) ([]byte, error) {
	if err := c.Say([]byte(s)); err != nil {
		return nil, err
	}
	return c.Reply(Patience)
}

// Say sends bytes.
func (c *Client) Say(b []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(Patience)); err != nil {
		return err
	}
	_, err := c.Write(b)
	return err
}

// Ready reports whether a reply, or the end, arrives within d.
func (c *Client) Ready(d time.Duration) bool {
	if c.r.Buffered() > 0 {
		return true
	}
	if c.SetReadDeadline(time.Now().Add(d)) != nil {
		return true
	}
	_, err := c.r.Peek(1)
	return err == nil || !errors.Is(err, os.ErrDeadlineExceeded)
}

// Reply reads one reply, and waits at most d for all of it: a line, and the body of
// RESERVED, FOUND and OK.
func (c *Client) Reply(d time.Duration) ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(d)); err != nil {
		return nil, err
	}
	line, err := c.r.ReadBytes('\n')
	if err != nil {
		if errors.Is(err, syscall.ECONNRESET) {
			err = io.EOF
		}
		return line, err
	}
	word, _, _ := bytes.Cut(line, []byte(" "))
	switch string(word) {
	case "RESERVED", "FOUND", "OK":
		last := line[bytes.LastIndexByte(line, ' ')+1:]
		n, err := strconv.ParseUint(string(bytes.TrimSpace(last)), 10, 31)
		if err != nil {
			return line, fmt.Errorf("reply %q has no size", line)
		}
		body := make([]byte, len(line)+int(n)+2)
		copy(body, line)
		_, err = io.ReadFull(c.r, body[len(line):])
		return body, err
	}
	return line, nil
}

// HalfClose shuts down the sending side.
func (c *Client) HalfClose() error {
	return c.Conn.(interface{ CloseWrite() error }).CloseWrite()
}
