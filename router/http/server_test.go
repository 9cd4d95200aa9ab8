package http

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"
)

// A fakeConn records whether it was closed.
type fakeConn struct {
	net.Conn
	closed bool
}

func (c *fakeConn) Close() error { c.closed = true; return nil }

// connected opens n connections.
func (c *connections) connected(n int) (list []*fakeConn) {
	for range n {
		conn := new(fakeConn)
		c.changed(conn, http.StateNew)
		list = append(list, conn)
	}
	return list
}

// TestStrangersAreClosedFirst, the oldest first, also during a request. Connections with a token, a
// stream or an allowed request stay open.
func TestStrangersAreClosedFirst(t *testing.T) {
	var c connections
	kept := c.connected(5)
	for i, of := range []claim{probeClaim, roleClaim, streamClaim, tokenClaim, tokenClaim} {
		c.request(kept[i], of)
	}
	c.changed(kept[4], http.StateIdle)
	strangers := c.connected(connectionsMax - len(kept))
	for _, conn := range strangers {
		c.changed(conn, http.StateActive)
	}
	for i, conn := range strangers {
		probe := c.connected(1)[0]
		c.changed(probe, http.StateActive)
		require(t, conn.closed && !probe.closed, "stranger %d: closed %v, the newest connection: %v", i, conn.closed, probe.closed)
	}
	for i, conn := range kept {
		expect(t, !conn.closed, "connection %d is closed", i)
	}
	n := c.dropped.Load()
	expect(t, c.len() == connectionsMax && n == uint64(len(strangers)), "%d connections, %d dropped", c.len(), n)
}

// TestOnlyRequestsWithATokenCanCloseTheNewest connection, if all others have a token.
func TestOnlyRequestsWithATokenCanCloseTheNewest(t *testing.T) {
	var c connections
	busy := c.connected(connectionsMax)
	for _, conn := range busy {
		c.request(conn, tokenClaim)
	}
	late := c.connected(1)[0]
	expect(t, late.closed, "the newest connection is open")
	c.changed(late, http.StateClosed)
	c.changed(busy[5], http.StateIdle)
	next := c.connected(1)[0]
	expect(t, !next.closed && busy[5].closed, "closed: the newest %v, the idle one %v", next.closed, busy[5].closed)
	expect(t, c.len() == connectionsMax && c.dropped.Load() == 2, "%d connections, %d dropped", c.len(), c.dropped.Load())
}

// TestAnsweredRequestsKeepNoPlace for a connection without a token, nor does its second probe.
func TestAnsweredRequestsKeepNoPlace(t *testing.T) {
	for _, of := range []claim{probeClaim, roleClaim, streamClaim} {
		var c connections
		conn := c.connected(1)[0]
		c.request(conn, of)
		c.changed(conn, http.StateIdle)
		c.request(conn, probeClaim)
		c.connected(connectionsMax)
		expect(t, conn.closed, "claim %d: the connection is open", of)
	}
}

func TestForwardedAddressesOfProxiesAreBelieved(t *testing.T) {
	s, err := New(Options{Log: slog.New(slog.DiscardHandler), Rules: Rules{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}})
	noErr(t, err)
	defer s.Close()
	for _, tt := range []struct {
		remote, forwarded, proto, want string
		secure                         bool
	}{
		{"192.0.2.1:99", "", "", "192.0.2.1", false},
		{"192.0.2.1:99", "198.51.100.7", "https", "192.0.2.1", false},
		{"10.0.0.1:99", "198.51.100.7", "https", "198.51.100.7", true},
		{"10.0.0.1:99", "198.51.100.7, 10.0.0.2", "HTTPS", "198.51.100.7", true},
		{"10.0.0.1:99", "1.2.3.4, 198.51.100.7, 10.0.0.2", "http", "198.51.100.7", false},
		{"10.0.0.1:99", "nonsense", "", "10.0.0.1", false},
		{"10.0.0.1:99", "1.2.3.4, nonsense", "", "10.0.0.1", false},
		{"[::ffff:10.0.0.1]:99", "198.51.100.7", "", "198.51.100.7", false},
		{"@", "198.51.100.7", "https", "unix", false},
	} {
		r := &http.Request{RemoteAddr: tt.remote, Header: http.Header{}}
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		if tt.proto != "" {
			r.Header.Set("X-Forwarded-Proto", tt.proto)
		}
		addr, secure := s.clientOf(r)
		expect(t, addr == tt.want && secure == tt.secure, "%+v: %s, %t", tt, addr, secure)
	}
}
