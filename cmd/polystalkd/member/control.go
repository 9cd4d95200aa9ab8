package member

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"polystalk/cmd/polystalkd/listen"
	"polystalk/router/cluster/forward"
	"polystalk/router/cluster/transport"
	web "polystalk/router/http"
)

// controlName is the operators' socket in the server's directory. A user with access has all
// permissions: the user could also write the journal next to it.
const controlName = "cluster.sock"

// A control serves HTTP to operators of this machine, and on connections from other servers. A
// follower connects its operators to the leader, which knows most; without a leader it serves them
// itself. Requests below peerPrefix are for the API between servers: see peerapi.go.
type control struct {
	m         *Member
	socket    *listen.Private
	operators *queueListener // of this machine
	visitors  *queueListener // operators of other machines, connected by a follower
	relayed   *queueListener // single requests from followers
	peers     *queueListener // other servers
	api       *http.Server   // for peers

	ctx   context.Context // ends with close
	end   context.CancelFunc
	conns sync.WaitGroup
}

// OpenControl opens the socket, and begins to serve operators with api. The error says what to do.
func (m *Member) OpenControl(api *web.API) error {
	path := filepath.Join(m.o.Config.BinlogDir, controlName)
	socket, err := listen.ListenPrivate(path)
	if err != nil {
		return errors.New("the socket " + path + ": " + err.Error())
	}
	k := &control{m: m, socket: socket}
	k.ctx, k.end = context.WithCancel(context.Background())
	k.api = k.newAPI()
	behind := func(d web.Door) func(net.Listener) error {
		return func(l net.Listener) error { return api.Serve(l, d) }
	}
	for _, one := range []struct {
		l     **queueListener
		serve func(net.Listener) error
	}{
		{&k.operators, behind(web.Door{Anonymous: "admin"})},
		{&k.visitors, behind(web.Door{Anonymous: "admin", Last: true})},
		{&k.relayed, behind(web.Door{Callers: true})},
		{&k.peers, k.api.Serve},
	} {
		l := &queueListener{addr: socket.Addr(), conns: make(chan net.Conn), over: make(chan struct{})}
		*one.l = l
		go func() {
			if err := one.serve(l); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
				m.log.Error("operators are no longer served at the socket in the directory, nor for other servers", "err", err)
			}
		}()
	}
	m.control.Store(k)
	go k.accept()
	return nil
}

// accept accepts operators of this machine.
func (k *control) accept() {
	for {
		c, err := k.socket.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(100 * time.Millisecond) // usually no descriptors are left
			continue
		}
		k.conns.Go(func() { k.take(c) })
	}
}

// reachWithin bounds the time to connect to the leader.
const reachWithin = 3 * time.Second

// take connects an operator to the leader, if it can be reached. Otherwise this server serves the
// operator, although it knows less.
func (k *control) take(c net.Conn) {
	n, v := k.m.view()
	local, ok := c.(*net.UnixConn)
	if !ok || n == nil || v.Leader == 0 || v.Leader == k.m.id.Node {
		k.give(c)
		return
	}
	ctx, cancel := context.WithTimeout(k.ctx, reachWithin)
	defer cancel()
	s, err := k.m.links.transport.Open(ctx, v.Leader, transport.Admin)
	if err != nil {
		k.give(c)
		return
	}
	forward.Splice(k.ctx, local, s)
}

// serveAdmin serves other servers, and operators that they connect.
func (m *Member) serveAdmin(s *transport.Stream) {
	if k := m.control.Load(); k != nil {
		k.give(s)
		return
	}
	s.Close()
}

// serveRelay serves requests that a follower relays, until the follower closes the stream.
func (m *Member) serveRelay(s *transport.Stream) {
	k := m.control.Load()
	if k == nil {
		s.Close()
		return
	}
	c := &seatedStream{Stream: s, closed: make(chan struct{})}
	k.relayed.give(c)
	<-c.closed
}

// A seatedStream reports when it is closed: its seat is taken until then.
type seatedStream struct {
	*transport.Stream
	once   sync.Once
	closed chan struct{}
}

// Close implements net.Conn.
func (c *seatedStream) Close() error {
	defer c.once.Do(func() { close(c.closed) })
	return c.Stream.Close()
}

// requestWithin bounds the wait for the first request of a connection.
const requestWithin = 5 * time.Second

// give chooses the HTTP server of a connection by its first request.
func (k *control) give(c net.Conn) {
	defer context.AfterFunc(k.ctx, func() { c.Close() })()
	r := bufio.NewReaderSize(c, 1<<10)
	c.SetReadDeadline(time.Now().Add(requestWithin))
	line, err := r.Peek(len("POST " + peerPrefix))
	if err != nil {
		c.Close()
		return
	}
	c.SetReadDeadline(time.Time{})
	to := k.operators
	if s, other := c.(*transport.Stream); other {
		to = k.visitors
		if k.isStranger(s.Remote()) {
			to = k.peers // which serves all that a stranger may request
		}
	}
	if _, path, _ := strings.Cut(string(line), " "); strings.HasPrefix(path, peerPrefix) {
		to = k.peers
	}
	to.give(&peekedConn{c, r})
}

// A peekedConn is a connection with bytes read ahead.
type peekedConn struct {
	net.Conn
	r *bufio.Reader
}

// Read implements net.Conn.
func (c *peekedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// Remote returns the server at the other end; the zero value: a client of this machine.
func (c *peekedConn) Remote() transport.Identity {
	if s, ok := c.Conn.(*transport.Stream); ok {
		return s.Remote()
	}
	return transport.Identity{}
}

// CloseSocket closes the socket and removes its file after the server has failed to start.
func (m *Member) CloseSocket() {
	if k := m.control.Load(); k != nil {
		k.socket.End(m.log)
	}
}

func (k *control) close(log *slog.Logger) {
	k.socket.End(log)
	k.end()
	for _, l := range []*queueListener{k.operators, k.visitors, k.relayed, k.peers} {
		l.Close()
	}
	k.api.Close()
	k.conns.Wait()
}

// A queueListener is a listener for connections that other listeners have accepted.
type queueListener struct {
	addr  net.Addr
	conns chan net.Conn
	once  sync.Once
	over  chan struct{}
}

// give passes a connection to Accept.
func (l *queueListener) give(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.over:
		c.Close()
	}
}

// Accept implements net.Listener.
func (l *queueListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *queueListener) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

// Addr implements net.Listener.
func (l *queueListener) Addr() net.Addr { return l.addr }

// controlDescriptors is the number of file descriptors for the socket, its connections and the state.
const controlDescriptors = 64
