package gearmantest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A conn is a connection whose input is read all the time, so that a server
// which answers while it is being written to does not wait for the test.
type conn struct {
	*net.TCPConn
	mu    sync.Mutex
	buf   []byte
	at    time.Time     // when the last bytes came
	ended bool          // the server closed; buf is all there is
	news  chan struct{} // holds a token since something last changed
}

func dial(address string) (*conn, error) {
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	k := &conn{TCPConn: c.(*net.TCPConn), news: make(chan struct{}, 1)}
	go k.read()
	return k, nil
}

func (c *conn) read() {
	b := make([]byte, 64<<10)
	for {
		n, err := c.Read(b)
		c.mu.Lock()
		c.buf = append(c.buf, b[:n]...)
		if n > 0 {
			c.at = time.Now()
		}
		c.ended = err != nil
		c.mu.Unlock()
		select {
		case c.news <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// await calls done with what has come, and again whenever more comes, until it
// is true, the connection ends or the time is up.
func (c *conn) await(d time.Duration, done func(b []byte, ended bool) bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		c.mu.Lock()
		ok := done(c.buf, c.ended)
		ended := c.ended
		c.mu.Unlock()
		if ok || ended {
			return ok
		}
		select {
		case <-c.news:
		case <-timer.C:
			return false
		}
	}
}

// take removes the n bytes that came first.
func (c *conn) take(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf = c.buf[n:]
}

// pending is what came and was not taken, and whether the connection ended.
func (c *conn) pending() (b []byte, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.buf), c.ended
}

// expect takes want, which must come next, and says when its last byte came.
func (c *conn) expect(want []byte, d time.Duration) (time.Time, error) {
	ok := c.await(d, func(b []byte, _ bool) bool {
		n := min(len(b), len(want))
		return n == len(want) || !bytes.Equal(b[:n], want[:n])
	})
	got, ended := c.pending()
	if !ok || !bytes.HasPrefix(got, want) {
		return time.Time{}, mismatch(got, ended, describe(want))
	}
	c.take(len(want))
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at, nil
}

func (c *conn) write(b []byte, bytewise bool) error {
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if !bytewise {
		_, err := c.Write(b)
		return err
	}
	for i := range b {
		if _, err := c.Write(b[i : i+1]); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// act does what a case says to a connection.
func (c *conn) act(what string) error {
	switch what {
	case "open":
		return nil
	case "halfclose":
		return c.CloseWrite()
	case "rst":
		if err := c.SetLinger(0); err != nil {
			return err
		}
	}
	return c.Close()
}

// mismatch says what came instead of what was wanted.
func mismatch(got []byte, ended bool, want string) error {
	end := ""
	if ended {
		end = ", and the server closed"
	}
	return fmt.Errorf("got  %s%s\n\twant %s", describe(got), end, want)
}

// alive asks the server for an echo on a new connection.
func alive(address string) error {
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	const echo = "\x00\x00\x00\x10\x00\x00\x00\x05alive" // type and size follow the magic
	if _, err := io.WriteString(c, "\x00REQ"+echo); err != nil {
		return err
	}
	got := make([]byte, 4+len(echo))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if want := "\x00RES\x00\x00\x00\x11" + echo[4:]; string(got) != want {
		return mismatch(got, false, describe([]byte(want)))
	}
	// It has let go of this connection too before anyone lists connections.
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, c)
	return err
}
