package conversation

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Patience is the timeout for a reply of a real server. Test machines are shared.
const Patience = 15 * time.Second

// A stream is a connection that is always being read, so that a server that replies while the test
// writes does not block.
type stream struct {
	net.Conn
	mu    sync.Mutex
	buf   []byte
	ended bool          // the server closed or reset; buf is all there is
	news  chan struct{} // holds a token since something last changed
}

func dialStream(network, address string) (*stream, error) {
	c, err := net.DialTimeout(network, address, Patience)
	if err != nil {
		return nil, err
	}
	s := &stream{Conn: c, news: make(chan struct{}, 1)}
	go s.read()
	return s, nil
}

func (s *stream) read() {
	b := make([]byte, 64<<10)
	for {
		n, err := s.Read(b)
		s.mu.Lock()
		s.buf = append(s.buf, b[:n]...)
		s.ended = err != nil
		s.mu.Unlock()
		select {
		case s.news <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// take removes and returns the first n bytes, or all if n is negative.
func (s *stream) take(n int) (b []byte, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 0 {
		n = len(s.buf)
	}
	b, s.buf = s.buf[:n:n], s.buf[n:]
	return b, s.ended
}

// await calls done with the received bytes, and again whenever more arrive, until it returns true,
// the connection ends or the time is up.
func (s *stream) await(d time.Duration, done func(b []byte, ended bool) bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		s.mu.Lock()
		ok, ended := done(s.buf, s.ended), s.ended
		s.mu.Unlock()
		if ok || ended {
			return ok
		}
		select {
		case <-s.news:
		case <-timer.C:
			return false
		}
	}
}

func (s *stream) send(b []byte) error {
	if err := s.SetWriteDeadline(time.Now().Add(Patience)); err != nil {
		return err
	}
	_, err := s.Write(b)
	return err
}

// act performs open, halfclose, close or rst.
func (s *stream) act(action string) error {
	switch action {
	case "open":
		return nil
	case "halfclose":
		return s.Conn.(interface{ CloseWrite() error }).CloseWrite()
	case "rst":
		if err := s.Conn.(*net.TCPConn).SetLinger(0); err != nil {
			return err
		}
	}
	return s.Close()
}

// A NetDriver is the Driver of a real server. Shutdown closes its connections.
type NetDriver struct {
	Protocol *Protocol // nil: Beanstalk
	Address  string
	Process  *Server                 // nil: nothing can be done to the server
	Restart  func() (*Server, error) // starts it again, with the same disk

	conns map[string]*stream
	last  string  // the connection that was used last
	asks  *stream // for Await
}

func (d *NetDriver) protocol() *Protocol {
	if d.Protocol == nil {
		return Beanstalk
	}
	return d.Protocol
}

// conn returns the connection of that name. Before that it gives the server time to read what was
// sent on another one.
func (d *NetDriver) conn(name string) (*stream, error) {
	d.order(name)
	if s, ok := d.conns[name]; ok {
		return s, nil
	}
	if d.Process == nil && d.Restart != nil {
		return nil, errors.New("there is no server")
	}
	s, err := dialStream("tcp", d.Address)
	if err != nil {
		return nil, err
	}
	if d.conns == nil {
		d.conns = map[string]*stream{}
	}
	d.conns[name] = s
	return s, nil
}

func (d *NetDriver) order(name string) {
	if d.last != "" && d.last != name {
		pause(d.protocol().pace)
	}
	d.last = name
}

// pause sleeps for a time, and again while the machine is too busy to end a sleep in time: then the
// server is late as well.
func pause(d time.Duration) {
	for range 20 {
		begun := time.Now()
		if time.Sleep(d); time.Since(begun) < d+d/4 {
			return
		}
	}
}

// Send implements Driver.
func (d *NetDriver) Send(conn string, b []byte) error {
	s, err := d.conn(conn)
	if err != nil {
		return err
	}
	return s.send(b)
}

// Recv implements Driver. A reset is an end: a server that closes with unread input causes one.
func (d *NetDriver) Recv(conn string, wait bool) ([]byte, error) {
	s, ok := d.conns[conn]
	if !ok {
		var err error
		if s, err = d.conn(conn); err != nil {
			return nil, err
		}
	}
	limit := d.protocol().silence
	if wait {
		limit = Patience
	}
	s.await(limit, func(b []byte, ended bool) bool { return len(b) > 0 })
	b, ended := s.take(-1)
	if len(b) == 0 && ended {
		return nil, io.EOF
	}
	return b, nil
}

// Act implements Driver.
func (d *NetDriver) Act(conn, action string) error {
	s, err := d.conn(conn)
	if err != nil {
		return err
	}
	if action == "close" || action == "rst" {
		delete(d.conns, conn)
	}
	defer pause(4 * d.protocol().pace)
	return s.act(action)
}

// Advance implements Driver: it sleeps.
func (d *NetDriver) Advance(w time.Duration) error {
	time.Sleep(w)
	return nil
}

// Now implements Driver.
func (d *NetDriver) Now() time.Time { return time.Now() }

// Uptime implements Driver.
func (d *NetDriver) Uptime() time.Duration { return time.Since(started) }

var started = time.Now()

// Await implements Driver.
func (d *NetDriver) Await(key, value string) error {
	d.order("")
	p := d.protocol()
	if n, err := strconv.Atoi(value); err == nil && key == "current-connections" {
		value = strconv.Itoa(n + 1) // the next one
	}
	if d.asks == nil {
		s, err := dialStream("tcp", d.Address)
		if err != nil {
			return err
		}
		d.asks = s
	}
	var reply []byte
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := d.asks.send([]byte(p.question(key))); err != nil {
			return err
		}
		equal := false
		if !d.asks.await(Patience, func(b []byte, _ bool) (complete bool) {
			complete, equal = p.answers(b, key, value)
			return complete
		}) {
			return fmt.Errorf("no reply to %q", p.question(key))
		}
		if reply, _ = d.asks.take(-1); equal {
			return nil
		}
	}
	return fmt.Errorf("%s is never %s in\n%s", key, value, reply)
}

// Server implements Driver.
func (d *NetDriver) Server(verb string) (err error) {
	d.order("")
	switch {
	case verb == "alive":
		return d.protocol().greet("tcp", d.Address)
	case verb == "start" && d.Restart != nil && d.Process == nil:
		if d.Process, err = d.Restart(); err == nil {
			d.Address = d.Process.Address
		}
		return err
	case d.Process == nil:
		return errors.New("there is no process")
	}
	switch verb {
	case "drain":
		if err := d.Process.Cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			return err
		}
		return d.Await("draining", "true")
	case "kill":
		d.Process.Kill()
		d.Shutdown()
		d.Process = nil
		return nil
	case "exits":
		select {
		case <-d.Process.Exited():
			return d.Process.Err()
		case <-time.After(Patience):
			return errors.New("the server did not exit")
		}
	}
	return d.Process.Cmd.Process.Signal(syscall.SIGTERM)
}

// Shutdown closes every connection.
func (d *NetDriver) Shutdown() {
	for _, s := range d.conns {
		s.Close()
	}
	if d.asks != nil {
		d.asks.Close()
	}
	d.conns, d.asks = nil, nil
}

// A Start starts a server for a conversation, with its Flags and Store. The server's files are
// below dir, which a conversation that restarts the server uses again.
type Start func(c *Conversation, dir string) (*Server, error)

// Run plays the conversation with a server of its own.
func (c *Conversation) Run(start Start, o Options, dir string) error {
	restart := func() (*Server, error) { return start(c, dir) }
	s, err := restart()
	if err != nil {
		return err
	}
	d := &NetDriver{Protocol: c.Protocol, Address: s.Address, Process: s, Restart: restart}
	defer func() {
		d.Shutdown()
		if d.Process != nil {
			d.Process.Stop()
		}
	}()
	return c.Play(d, o)
}
