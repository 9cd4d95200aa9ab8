package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
)

// TestConnectionsWithRequestsAreNotDropped: then the newest goes.
func TestConnectionsWithRequestsAreNotDropped(t *testing.T) {
	var c connections
	pipes := func() net.Conn { a, _ := net.Pipe(); return a }
	busy := make([]net.Conn, ConnectionsMax)
	for i := range busy {
		busy[i] = pipes()
		c.changed(busy[i], http.StateNew)
		c.changed(busy[i], http.StateActive)
	}
	late := pipes()
	c.changed(late, http.StateNew)
	if _, err := late.Write(nil); err == nil {
		t.Error("the newest is open")
	}
	c.changed(busy[5], http.StateIdle)
	c.changed(late, http.StateClosed)
	next := pipes()
	c.changed(next, http.StateNew)
	if _, err := busy[5].Write(nil); err == nil {
		t.Error("the idle one is open")
	}
	if c.len() != ConnectionsMax || c.dropped.Load() != 2 {
		t.Errorf("%d connections, %d dropped", c.len(), c.dropped.Load())
	}
}

// written notes what is written to a connection.
type written struct {
	net.Conn
	n atomic.Int64
}

func (w *written) Write(b []byte) (int, error) {
	w.n.Add(int64(len(b)))
	return w.Conn.Write(b)
}

// TestDroppedConnectionsAreNotSaidGoodbyeTo: by TLS that waits for room in the socket, for up to
// five seconds, in which nobody else would be accepted.
func TestDroppedConnectionsAreNotSaidGoodbyeTo(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	socket := &written{Conn: here}
	conn := tls.Server(socket, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	client := tls.Client(there, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	shaken := make(chan error)
	go func() { shaken <- client.Handshake() }()
	if err := errors.Join(conn.Handshake(), <-shaken); err != nil {
		t.Fatal(err)
	}
	before := socket.n.Load()
	var c connections
	c.changed(conn, http.StateNew)
	for range ConnectionsMax {
		other, _ := net.Pipe()
		c.changed(other, http.StateNew)
	}
	if _, err := here.Write(nil); err == nil {
		t.Error("it is open")
	}
	if n := socket.n.Load() - before; n > 0 {
		t.Errorf("%d bytes were said", n)
	}
}

func TestForwardedAddressesOfProxiesAreBelieved(t *testing.T) {
	s, err := New(Options{Log: slog.New(slog.DiscardHandler), Rules: Rules{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}})
	if err != nil {
		t.Fatal(err)
	}
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
		if addr, secure := s.clientOf(r); addr != tt.want || secure != tt.secure {
			t.Errorf("%+v: %s, %t", tt, addr, secure)
		}
	}
}
