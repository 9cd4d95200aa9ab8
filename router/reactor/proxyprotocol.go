package reactor

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"polystalk/router/session"
)

// Load balancers write a header of the PROXY protocol, version 2, in front of a client's bytes: it
// has the client's address. The headers are read in goroutines, so that no event loop waits for one,
// and without a byte behind them, which the loop reads.
//
// Source: haproxy's proxy-protocol.txt, section 2.2. A library was not used, since it reads ahead.

const (
	// headerTime bounds the time until a header is complete.
	headerTime = 5 * time.Second
	// headerBytes bounds a header. With a client's certificate balancers send about 2,000 bytes.
	headerBytes = 4096
	// headerFixed is the size of the part that is the same for all families of addresses.
	headerFixed = len(session.ProxySignature) + 4
)

// A balancedListener accepts clients through balancers. Its connections have the addresses of the
// clients. Other addresses connect as to the listener below.
type balancedListener struct {
	netListener
	r        *Reactor
	begin    sync.Once
	accepted chan accepted
	slots    chan struct{} // an element for each connection that Accept has not returned
	expired  atomic.Bool   // the deadline has passed
	end      sync.Once
	closed   chan struct{}
}

// accepted is a result of Accept.
type accepted struct {
	conn net.Conn
	err  error
}

// A balanced is a connection through a balancer.
type balanced struct {
	*net.TCPConn
	client net.Addr
}

// RemoteAddr implements net.Conn.
func (c *balanced) RemoteAddr() net.Addr { return c.client }

// Balanced returns a listener for Serve and Secure that requires a header from the addresses of
// Options.Balancers. It is l if there are none, or if l is a unix socket. Other packages may accept
// from it as well.
func (r *Reactor) Balanced(l net.Listener) net.Listener {
	tcp, ok := l.(*net.TCPListener)
	if !ok || len(r.opts.Balancers) == 0 {
		return l
	}
	return &balancedListener{netListener: tcp, r: r, accepted: make(chan accepted), slots: make(chan struct{}, r.headers), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *balancedListener) Accept() (net.Conn, error) {
	l.begin.Do(func() { go l.acceptAll() })
	for {
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		case a := <-l.accepted:
			if errors.Is(a.err, os.ErrDeadlineExceeded) && !l.expired.Load() {
				continue // of an earlier deadline
			}
			return a.conn, a.err
		}
	}
}

// SetDeadline makes Accept fail, or work again if t is zero.
func (l *balancedListener) SetDeadline(t time.Time) error {
	l.expired.Store(!t.IsZero())
	return l.netListener.SetDeadline(t)
}

// Close implements net.Listener.
func (l *balancedListener) Close() error {
	l.end.Do(func() { close(l.closed) })
	return l.netListener.Close()
}

// acceptAll accepts until Close. With too many incomplete headers, or if Accept is not called at the
// connection limit, others wait in the backlog. Each listener has its own slots: probes of HTTP are
// answered also at the limit.
func (l *balancedListener) acceptAll() {
	for {
		c, err := l.netListener.Accept()
		if err != nil || !l.r.isBalancer(c) {
			if !l.deliver(c, err) {
				return
			}
			continue
		}
		l.slots <- struct{}{}
		go func() {
			defer func() { <-l.slots }()
			if b := l.r.readHeader(c.(*net.TCPConn)); b != nil {
				l.deliver(b, nil)
			}
		}()
	}
}

// deliver gives a result to Accept. It returns false after Close.
func (l *balancedListener) deliver(c net.Conn, err error) bool {
	select {
	case l.accepted <- accepted{c, err}:
		return true
	case <-l.closed:
		if c != nil {
			c.Close()
		}
		return false
	}
}

// isBalancer reports whether the other end must send a header.
func (r *Reactor) isBalancer(c net.Conn) bool {
	ip := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
	return slices.ContainsFunc(r.opts.Balancers, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// readHeader reads the header of a connection; nil: there is none, and the connection is closed.
func (r *Reactor) readHeader(c *net.TCPConn) net.Conn {
	c.SetReadDeadline(time.Now().Add(headerTime))
	client, err := parseHeader(c, c.RemoteAddr().(*net.TCPAddr))
	if err == nil {
		err = c.SetReadDeadline(time.Time{})
	}
	if err == nil {
		return &balanced{c, client}
	}
	defer c.Close()
	if err != io.EOF { // a probe connects and sends nothing
		r.host.CountRejection(session.RejectedHeader)
		r.host.Complain("closing a connection from an address of --proxy-protocol: it must begin with a header of version 2", "conn", session.Remote{Addr: c.RemoteAddr()}, "err", err)
	}
	return nil
}

// Errors of parseHeader. They do not show what was sent: it may be a token.
var (
	errNoHeader = errors.New("there is no such header")
	errText     = errors.New("the header has version 1: let the balancer send version 2, as haproxy's send-proxy-v2 does")
	errHeader   = errors.New("the header is invalid")
)

// The commands of a header, and its families of addresses, with the protocol.
const (
	commandLocal = 0x20 // the balancer itself connects
	commandProxy = 0x21
	familyNone   = 0x00
	familyTCP4   = 0x11
	familyTCP6   = 0x21
	familyUnix   = 0x31
)

// parseHeader reads a header, and nothing behind it. It returns the client's address, or from if
// the header has none: the balancer checks the server's health, or its client uses a unix socket.
// A loopback address of another machine is replaced by from, too: here it would seem local. io.EOF
// means that nothing was sent.
func parseHeader(r io.Reader, from *net.TCPAddr) (net.Addr, error) {
	var b [headerBytes]byte
	for n := 0; n < headerFixed; {
		m, err := r.Read(b[n:headerFixed])
		n += m
		if n == 0 && err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, io.EOF
		}
		begin := string(b[:min(n, len(session.ProxySignature))])
		switch {
		case strings.HasPrefix(begin, "PROXY "):
			return nil, errText
		case !strings.HasPrefix(session.ProxySignature, begin) && !strings.HasPrefix("PROXY ", begin):
			return nil, errNoHeader
		case n < headerFixed && n > 0 && err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case n < headerFixed && err != nil:
			return nil, err
		}
	}
	command, family := b[headerFixed-4], b[headerFixed-3]
	size := int(binary.BigEndian.Uint16(b[headerFixed-2:]))
	if size > len(b) {
		return nil, errHeader
	}
	rest := b[:size] // addresses, and values that are of no use here
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil, errors.Join(errHeader, err)
	}
	var ip netip.Addr
	switch width := map[byte]int{familyTCP4: 4, familyTCP6: 16}[family]; {
	case command == commandLocal, command == commandProxy && (family == familyNone || family == familyUnix):
		return from, nil
	case command != commandProxy || width == 0 || len(rest) < 2*width+4:
		return nil, errHeader
	default:
		ip, _ = netip.AddrFromSlice(rest[:width])
		rest = rest[2*width:] // behind the client's address and the balancer's
	}
	if ip = ip.Unmap(); ip.IsLoopback() && !from.IP.IsLoopback() {
		return from, nil
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, binary.BigEndian.Uint16(rest))), nil
}
