package gearmand

import (
	"math"
	"net"
	"strings"
	"testing"

	"polystalk/router/ops"
	"polystalk/router/session"
)

// An atAddr is the connection of a client with an address.
type atAddr struct {
	session.Conn
	net.Addr
}

func (c atAddr) Peer() net.Addr { return c.Addr }

// TestShutdownIsTakenFrom: by default, only from clients of this machine that no other server has
// forwarded.
func TestShutdownIsTakenFrom(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	here, there, socket := tcp("127.0.0.1"), tcp("192.0.2.1"), &net.UnixAddr{Name: "x", Net: "unix"}
	type row struct {
		from  ShutdownFrom
		at    net.Addr
		taken bool
	}
	rows := []row{
		{ShutdownLocal, socket, true},
		{ShutdownLocal, there, false},
		{ShutdownLocal, nil, false},
		{ShutdownLocal, session.Forwarded{Addr: here}, false}, // forwarded by another machine
		{ShutdownLocal, session.Forwarded{Addr: socket}, false},
		{ShutdownLocal, session.Forwarded{Addr: there}, false},
		{ShutdownLocal, session.Forwarded{}, false},
		{ShutdownAny, session.Forwarded{Addr: here}, true},
		{ShutdownAny, there, true},
		{ShutdownNone, here, false},
	}
	for ip, taken := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"198.51.100.77": false, "2001:db8::1": false, "0.0.0.0": false, "::": false,
	} {
		rows = append(rows, row{ShutdownLocal, tcp(ip), taken})
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range own {
		if n, ok := o.(*net.IPNet); ok {
			rows = append(rows, row{ShutdownLocal, &net.TCPAddr{IP: n.IP, Port: 1}, true})
		}
	}
	h := session.NewHost(math.MaxInt64)
	h.Map = ops.NewMap(ops.MapOptions{Naming: ops.Naming{Fold: strings.ToLower}})
	for _, tt := range rows {
		f := New(h, Config{Shutdown: tt.from}, nil)
		c := &conn{front: f}
		c.Init(session.NewLoop(h, nil), atAddr{nil, tt.at}, c)
		if got := c.mayShutDown(); got != tt.taken {
			t.Errorf("%v from %v: %v", tt.from, tt.at, got)
		}
	}
}
