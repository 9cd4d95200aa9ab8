package reactor

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"polystalk/router/session"
)

// startSecure starts r and serves a listener of connections that echo, with TLS.
func startSecure(t testing.TB, r *Reactor, config func() *tls.Config) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveSecure(t, r, l, config)
}

// serveSecure is startSecure with the listener.
func serveSecure(t testing.TB, r *Reactor, l net.Listener, config func() *tls.Config) *running {
	t.Helper()
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	s := &running{Reactor: r, addr: l.Addr(), front: new(echoFront), served: make(chan error, 1)}
	go func() { s.served <- r.Serve(r.Secure(l, config, nil), s.front) }()
	return s
}

// dialSecure makes a client with TLS, and closes it at the end of the test.
func (s *running) dialSecure(t testing.TB, version uint16) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", s.addr.String(), &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// forVersions runs a test with each version of TLS, and checks that nothing is left afterwards.
func forVersions(t *testing.T, f func(t *testing.T, s *running, version uint16)) {
	for _, version := range tlsVersions {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			s := startSecure(t, newReactor(t, Options{Loops: 2}), testConfig)
			f(t, s, version)
			eventually(t, func() bool { open, behind := s.Connections(); return open == 0 && behind == 0 })
			if n := s.host.Handshakes.Pending.Load(); n != 0 {
				t.Errorf("%d handshakes are in progress", n)
			}
			s.stop(t)
			if n := s.host.Account.Sum(); n > 64<<10 {
				t.Errorf("%d bytes are still charged", n)
			}
		})
	}
}

func TestSecureConnectionIsServed(t *testing.T) {
	forVersions(t, func(t *testing.T, s *running, version uint16) {
		c := s.dialSecure(t, version)
		for range 3 {
			if !echoes(t, c) {
				t.Fatal("not served")
			}
		}
		if open, _ := s.Connections(); open != 1 {
			t.Errorf("%d connections, want 1", open)
		}
		c.Close()
	})
}

// TestCloseNotifyIsAHalfClose: the client gets all replies, then the server's close_notify.
func TestCloseNotifyIsAHalfClose(t *testing.T) {
	forVersions(t, func(t *testing.T, s *running, version uint16) {
		c := s.dialSecure(t, version)
		io.WriteString(c, "?the rest")
		c.CloseWrite()
		if got, err := io.ReadAll(c); err != nil || string(got) != "the rest" {
			t.Errorf("%q, %v", got, err)
		}
		c.Close()
	})
}

// TestFINWithoutCloseNotifyIsAHalfClose: every whole record is authentic.
func TestFINWithoutCloseNotifyIsAHalfClose(t *testing.T) {
	forVersions(t, func(t *testing.T, s *running, version uint16) {
		c := s.dialSecure(t, version)
		io.WriteString(c, "?the rest")
		c.NetConn().(*net.TCPConn).CloseWrite()
		if got, err := io.ReadAll(c); err != nil || string(got) != "the rest" {
			t.Errorf("%q, %v", got, err)
		}
		c.Close()
	})
}

func TestRefusedSecureClientReadsTheReason(t *testing.T) {
	forVersions(t, func(t *testing.T, s *running, version uint16) {
		c := s.dialSecure(t, version)
		go c.Write(append([]byte("!"), make([]byte, 1<<20)...))
		got := make([]byte, len(refusal))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != refusal {
			t.Errorf("%q, %v", got, err)
		}
		c.Close()
	})
}

// TestSlowSecureClientGetsEverything: output waits while the client does not read, and input while
// too much output waits.
func TestSlowSecureClientGetsEverything(t *testing.T) {
	forVersions(t, func(t *testing.T, s *running, version uint16) {
		c := s.dialSecure(t, version)
		sent := bytes.Repeat([]byte("0123456789abcdef"), 12<<20/16)
		go func() {
			c.Write(sent)
			c.CloseWrite()
		}()
		eventually(t, func() bool { _, behind := s.Connections(); return behind == 1 })
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes of %d, %v, or others", len(got), len(sent), err)
		}
		c.Close()
	})
}

// TestUnreadSecureOutputIsBounded: a client that reads nothing costs no more than one without TLS.
func TestUnreadSecureOutputIsBounded(t *testing.T) {
	forVersions(t, func(t *testing.T, s *running, version uint16) {
		c := s.dialSecure(t, version)
		go c.Write(make([]byte, 32<<20))
		eventually(t, func() bool { return s.host.Sums().Counters[session.CountPauses] > 0 })
		if n := s.host.Account.Sum(); n > 2<<20 {
			t.Errorf("%d bytes are charged", n)
		}
		c.NetConn().(*net.TCPConn).SetLinger(0)
		c.NetConn().Close()
	})
}

// TestBytesBehindTheHandshakeAreServed: a client sends commands with its last message.
func TestBytesBehindTheHandshakeAreServed(t *testing.T) {
	forVersions(t, func(t *testing.T, s *running, version uint16) {
		raw, err := net.Dial("tcp", s.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		raw.SetDeadline(time.Now().Add(20 * time.Second))
		// All writes after the first are sent together, with the last message of the handshake.
		gathered := &gathering{Conn: raw}
		c := tls.Client(gathered, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
		done := make(chan error, 1)
		go func() {
			err := c.Handshake()
			if version == tls.VersionTLS13 && err == nil {
				_, err = io.WriteString(c, "early")
			}
			gathered.flush()
			done <- err
		}()
		if version == tls.VersionTLS12 { // the server speaks last: nothing can be behind
			gathered.flush()
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if version == tls.VersionTLS12 {
			io.WriteString(c, "early")
		}
		got := make([]byte, len("early"))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "early" {
			t.Errorf("%q, %v", got, err)
		}
		c.Close()
	})
}

// A gathering sends its first write at once, and later ones at flush.
type gathering struct {
	net.Conn
	mu    sync.Mutex
	wrote bool
	open  bool
	kept  []byte
}

func (g *gathering) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.wrote || g.open {
		g.wrote = true
		return g.Conn.Write(p)
	}
	g.kept = append(g.kept, p...)
	return len(p), nil
}

func (g *gathering) flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Conn.Write(g.kept)
	g.open, g.kept = true, nil
}

// TestCorruptedRecordIsAnsweredByAnAlert: then the connection ends.
func TestCorruptedRecordIsAnsweredByAnAlert(t *testing.T) {
	forVersions(t, func(t *testing.T, s *running, version uint16) {
		c := s.dialSecure(t, version)
		if !echoes(t, c) {
			t.Fatal("not served")
		}
		c.NetConn().Write([]byte{23, 3, 3, 0, 32})
		c.NetConn().Write(make([]byte, 32))
		var alert tls.AlertError
		if _, err := c.Read(make([]byte, 1)); !errors.As(err, &alert) {
			var op *net.OpError
			if !errors.As(err, &op) || op.Op != "remote error" {
				t.Errorf("%v, want an alert", err)
			}
		}
		c.Close()
	})
}

// TestStrangersAtThePortAreClosed: clients without TLS, and with versions or protocols that are not
// served, take no seat.
func TestStrangersAtThePortAreClosed(t *testing.T) {
	s := startSecure(t, newReactor(t, Options{Loops: 1}), func() *tls.Config {
		c := testConfig()
		c.MinVersion, c.NextProtos = tls.VersionTLS12, []string{"echo"}
		return c
	})
	plain := s.dial(t)
	io.WriteString(plain, "put 0 0 1 1\r\na\r\n")
	if got, _ := io.ReadAll(plain); len(got) > 0 {
		t.Errorf("a client without TLS gets %q", got)
	}
	for name, config := range map[string]*tls.Config{
		"TLS 1.1":      {MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10},
		"CBC":          {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}},
		"another ALPN": {NextProtos: []string{"h2", "http/1.1"}},
	} {
		config.InsecureSkipVerify = true
		if c, err := tls.Dial("tcp", s.addr.String(), config); err == nil {
			t.Errorf("%s is accepted", name)
			c.Close()
		}
	}
	for _, protocols := range [][]string{nil, {"echo"}, {"h2", "echo"}} {
		c, err := tls.Dial("tcp", s.addr.String(), &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
		if err != nil {
			t.Fatalf("%q: %v", protocols, err)
		}
		c.Close()
	}
	eventually(t, func() bool {
		n := &s.host.Handshakes
		return n.Results[session.HandshakeFailed].Load() == 4 && n.Results[session.HandshakeFull].Load() == 3
	})
	s.stop(t)
}

// TestEndedHandshakesTakeNoSeat: the limit of connections counts only clients after their handshake.
func TestEndedHandshakesTakeNoSeat(t *testing.T) {
	s := startSecure(t, newReactor(t, Options{Loops: 1, MaxConnections: 1}), testConfig)
	for range 5 {
		s.dial(t) // it stays silent
	}
	eventually(t, func() bool { return s.host.Handshakes.Pending.Load() == 5 })
	c := s.dialSecure(t, tls.VersionTLS13)
	if !echoes(t, c) {
		t.Fatal("not served")
	}
	if _, err := tls.Dial("tcp", s.addr.String(), &tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Error("one too many")
	}
	if !echoes(t, c) {
		t.Error("the first one is served no more")
	}
	s.stop(t) // silent clients do not delay it
}
