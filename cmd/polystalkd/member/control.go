package member

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"polystalk/cmd/polystalkd/listen"
	"polystalk/router/cluster/transport"
)

// controlName is the socket of operators in the server's directory. Who may open it may do
// everything, as whoever may write the journal beside it.
const controlName = "cluster.sock"

// A control is where operators of this machine come in, and those of other servers' machines
// who were handed on: to the server that leads, since only that one knows and can do all. With
// none that leads they are answered here.
//
// They speak HTTP. What they ask is served as for operators elsewhere, but for the paths of
// servers among themselves: see among.
type control struct {
	m         *Member
	socket    *listen.Private
	operators *handed // of this machine
	visitors  *handed // of other servers' machines
	relayed   *handed // requests that other servers hand on
	servers   *handed
	among     *http.Server

	ctx   context.Context // ends with close
	end   context.CancelFunc
	conns sync.WaitGroup
}

// Serve serves operators by HTTP on a listener until that is closed. Each is asked for a listener
// of its own.
type Serve struct {
	Operators func(net.Listener) error // of this machine, who may do all
	Visitors  func(net.Listener) error // the same of other servers' machines; nothing of theirs is handed on
	Relayed   func(net.Listener) error // requests that other servers hand on, and say who asks
}

// OpenControl opens the socket, and serves requests that other servers hand on. The error says
// what to do.
func (m *Member) OpenControl(serve Serve) error {
	path := filepath.Join(m.o.Config.BinlogDir, controlName)
	socket, err := listen.ListenPrivate(path)
	if err != nil {
		return errors.New("the socket " + path + ": " + err.Error())
	}
	addr := socket.Addr()
	k := &control{m: m, socket: socket, operators: newHanded(addr), visitors: newHanded(addr), relayed: newHanded(addr), servers: newHanded(addr)}
	k.ctx, k.end = context.WithCancel(context.Background())
	k.among = k.newAmong()
	m.control.Store(k)
	go k.among.Serve(k.servers)
	go k.serve(serve.Operators, k.operators)
	go k.serve(serve.Visitors, k.visitors)
	go k.serve(serve.Relayed, k.relayed)
	go k.accept()
	return nil
}

// serve serves those who come to a listener.
func (k *control) serve(serve func(net.Listener) error, l *handed) {
	if err := serve(l); err != nil && !errors.Is(err, net.ErrClosed) {
		k.m.log.Error("operators are no longer served at the socket in the directory, nor for other servers", "err", err)
	}
}

// accept takes operators of this machine.
func (k *control) accept() {
	for {
		c, err := k.socket.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(100 * time.Millisecond) // out of descriptors, mostly
			continue
		}
		k.conns.Go(func() { k.take(c) })
	}
}

// reachWithin bounds the time to connect to the server that leads.
const reachWithin = 3 * time.Second

// take has a connection served, by the server that leads if it can be reached.
func (k *control) take(c net.Conn) {
	leader := k.m.otherLeader()
	if leader == 0 {
		k.give(c)
		return
	}
	ctx, cancel := context.WithTimeout(k.ctx, reachWithin)
	defer cancel()
	s, err := k.m.ways.transport.Open(ctx, leader, transport.Admin)
	if err != nil {
		k.give(c) // it knows what this server knows
		return
	}
	splice(k.ctx, c, s)
}

// A halfCloser can end what it sends.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// splice has two connections be one, until both directions have ended or ctx ends.
func splice(ctx context.Context, a, b net.Conn) {
	defer a.Close()
	defer b.Close()
	stop := context.AfterFunc(ctx, func() { a.Close(); b.Close() })
	defer stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, err := io.Copy(way[0], way[1])
			if h, ok := way[0].(halfCloser); ok && err == nil {
				h.CloseWrite()
				return
			}
			a.Close()
			b.Close()
		})
	}
	both.Wait()
}

// visit takes operators whom another server has handed on, and other servers.
func (m *Member) visit(s *transport.Stream) {
	if k := m.control.Load(); k != nil {
		k.give(s)
		return
	}
	s.Close()
}

// hear takes requests that another server hands on, until that closes the stream: for so long it
// has its seat.
func (m *Member) hear(s *transport.Stream) {
	k := m.control.Load()
	if k == nil {
		s.Close()
		return
	}
	c := &seated{Stream: s, closed: make(chan struct{})}
	k.relayed.give(c)
	<-c.closed
}

// A seated stream says when it was closed.
type seated struct {
	*transport.Stream
	once   sync.Once
	closed chan struct{}
}

// Close implements net.Conn.
func (c *seated) Close() error {
	defer c.once.Do(func() { close(c.closed) })
	return c.Stream.Close()
}

// sayWithin bounds the time until it is known what somebody wants.
const sayWithin = 5 * time.Second

// give hands a connection to the server that its first request is for. The end of the control ends
// the wait for that request.
func (k *control) give(c net.Conn) {
	defer context.AfterFunc(k.ctx, func() { c.Close() })()
	r := bufio.NewReaderSize(c, 1<<10)
	c.SetReadDeadline(time.Now().Add(sayWithin))
	line, err := r.Peek(len("POST " + amongPrefix))
	if err != nil {
		c.Close()
		return
	}
	c.SetReadDeadline(time.Time{})
	to := k.operators
	if s, other := c.(*transport.Stream); other {
		to = k.visitors
		if k.isStranger(s.Remote()) {
			to = k.servers // what it may ask for is there
		}
	}
	if _, path, _ := strings.Cut(string(line), " "); strings.HasPrefix(path, amongPrefix) {
		to = k.servers
	}
	to.give(&read{c, r})
}

// A read connection is one of which the beginning was looked at.
type read struct {
	net.Conn
	r *bufio.Reader
}

// Read implements net.Conn.
func (c *read) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite implements halfCloser, where the connection does.
func (c *read) CloseWrite() error {
	if h, ok := c.Conn.(halfCloser); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// Remote is which server is at the other end; the zero value: somebody of this machine.
func (c *read) Remote() transport.Identity {
	if s, ok := c.Conn.(*transport.Stream); ok {
		return s.Remote()
	}
	return transport.Identity{}
}

// CloseSocket closes the socket of operators and removes its file. It is for a server that has failed to start.
func (m *Member) CloseSocket() {
	if k := m.control.Load(); k != nil {
		k.socket.End(m.log)
	}
}

// close ends it, and all that come in there.
func (k *control) close(log *slog.Logger) {
	k.socket.End(log)
	k.end()
	for _, l := range []*handed{k.operators, k.visitors, k.relayed, k.servers} {
		l.Close()
	}
	k.among.Close()
	k.conns.Wait()
}

// A handed is a listener whose connections others have accepted.
type handed struct {
	addr  net.Addr
	conns chan net.Conn
	once  sync.Once
	over  chan struct{}
}

func newHanded(addr net.Addr) *handed {
	return &handed{addr: addr, conns: make(chan net.Conn), over: make(chan struct{})}
}

// give hands a connection over.
func (h *handed) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.over:
		c.Close()
	}
}

// Accept implements net.Listener.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.over:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handed) Close() error {
	h.once.Do(func() { close(h.over) })
	return nil
}

// Addr implements net.Listener.
func (h *handed) Addr() net.Addr { return h.addr }

// controlDescriptors are for the socket of operators, those whom it hands on at a time, and the
// state.
const controlDescriptors = 64
