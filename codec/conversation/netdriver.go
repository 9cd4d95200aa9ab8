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

// Patience is how long a real server may take over a reply, generous because
// test machines are shared. Silence is how long it must say nothing to be
// called silent: too short a silence can hide a stray reply, never invent one.
const (
	Patience = 15 * time.Second
	Silence  = 40 * time.Millisecond
)

// A NetDriver talks to a real server over TCP or a unix socket. Close all its
// connections with Shutdown.
type NetDriver struct {
	Network, Address string
	// Signal sends drain mode's signal to the server; nil if it cannot be.
	Signal func() error

	conns   map[string]net.Conn
	control *Client
}

func (d *NetDriver) conn(name string) (net.Conn, error) {
	if c, ok := d.conns[name]; ok {
		return c, nil
	}
	c, err := net.DialTimeout(d.Network, d.Address, Patience)
	if err != nil {
		return nil, err
	}
	d.Use(name, c)
	return c, nil
}

// Use makes c the connection of that name. The driver closes it.
func (d *NetDriver) Use(name string, c net.Conn) {
	if d.conns == nil {
		d.conns = map[string]net.Conn{}
	}
	d.conns[name] = c
}

// Send implements Driver.
func (d *NetDriver) Send(conn string, b []byte) error {
	c, err := d.conn(conn)
	if err != nil {
		return err
	}
	if err := c.SetWriteDeadline(time.Now().Add(Patience)); err != nil {
		return err
	}
	_, err = c.Write(b)
	return err
}

// Recv implements Driver. A reset counts as the end: a server that closes
// with unread input causes one.
func (d *NetDriver) Recv(conn string, wait bool) ([]byte, error) {
	c, err := d.conn(conn)
	if err != nil {
		return nil, err
	}
	limit := Silence
	if wait {
		limit = Patience
	}
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	b := make([]byte, 64<<10)
	n, err := c.Read(b)
	switch {
	case n > 0:
		return b[:n], nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, nil
	case errors.Is(err, syscall.ECONNRESET):
		return nil, io.EOF
	}
	return nil, err
}

// HalfClose implements Driver.
func (d *NetDriver) HalfClose(conn string) error {
	c, err := d.conn(conn)
	if err != nil {
		return err
	}
	return c.(interface{ CloseWrite() error }).CloseWrite()
}

// Close implements Driver.
func (d *NetDriver) Close(conn string) error {
	c, ok := d.conns[conn]
	if !ok {
		return fmt.Errorf("connection %s was never opened", conn)
	}
	delete(d.conns, conn)
	return c.Close()
}

// Advance implements Driver: it sleeps.
func (d *NetDriver) Advance(w time.Duration) error {
	time.Sleep(w)
	return nil
}

// Drain implements Driver.
func (d *NetDriver) Drain() error {
	if d.Signal == nil {
		return errors.New("this server cannot be told to drain")
	}
	if err := d.Signal(); err != nil {
		return err
	}
	return d.await("draining", []byte("true"))
}

// Await implements Driver. Its own connection is not counted.
func (d *NetDriver) Await(key string, value uint64) error {
	if key == "current-connections" {
		value++
	}
	return d.await(key, strconv.AppendUint(nil, value, 10))
}

func (d *NetDriver) await(key string, value []byte) error {
	if d.control == nil {
		c, err := Dial(d.Network, d.Address)
		if err != nil {
			return err
		}
		d.control = c
	}
	want := fmt.Appendf(nil, "\n%s: %s\n", key, value)
	var body []byte
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		reply, err := d.control.Ask("stats\r\n")
		if err != nil {
			return err
		}
		if body = reply; bytes.Contains(body, want) {
			return nil
		}
	}
	return fmt.Errorf("stats never showed %s in\n%s", bytes.TrimSpace(want), body)
}

// Shutdown closes every connection.
func (d *NetDriver) Shutdown() {
	for _, c := range d.conns {
		c.Close()
	}
	if d.control != nil {
		d.control.Close()
	}
	d.conns, d.control = nil, nil
}

// A Client is a plain connection that frames replies by their own heads. It is
// used by one goroutine.
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

// Ready reports whether a reply (or the end) is there within d.
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

// Reply reads one reply, waiting at most d for all of it: a line, and for
// RESERVED, FOUND and OK the body whose size the line ends with.
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
