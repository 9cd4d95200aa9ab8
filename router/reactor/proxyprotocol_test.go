package reactor

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"polystalk/router/session"
)

// header returns a header of the PROXY protocol.
func header(command, family byte, rest string) string {
	return session.ProxySignature + string([]byte{command, family, byte(len(rest) >> 8), byte(len(rest))}) + rest
}

const (
	addresses4 = "\xc0\x00\x02\x07" + "\x0a\x00\x00\x01" + "\x10\x92" + "\x2c\x24"
	client4    = "192.0.2.7:4242"
)

func addresses6(client string) string {
	a := netip.MustParseAddr(client).As16()
	return string(a[:]) + strings.Repeat("\x00", 16) + "\x10\x92\x2c\x24"
}

// TestHeaderGivesTheClientsAddress: what is behind the header stays unread, and may be another one.
func TestHeaderGivesTheClientsAddress(t *testing.T) {
	const balancer, local = "10.0.0.5:1000", "127.0.0.1:1000"
	checksum := "\x03\x00\x04\x01\x02\x03\x04" // a value; its checksum is not that of the header
	for _, tt := range []struct{ name, sent, from, want, err string }{
		{"IPv4", header(0x21, 0x11, addresses4), balancer, client4, ""},
		{"IPv6", header(0x21, 0x21, addresses6("2001:db8::7")), balancer, "[2001:db8::7]:4242", ""},
		{"IPv4 in IPv6", header(0x21, 0x21, addresses6("::ffff:192.0.2.7")), balancer, client4, ""},
		{"with values", header(0x21, 0x11, addresses4+checksum+"\x20\xff\xff"), balancer, client4, ""},
		{"as large as permitted", header(0x21, 0x11, addresses4+strings.Repeat("x", headerBytes-12)), balancer, client4, ""},
		{"health check", header(0x20, 0x00, ""), balancer, balancer, ""},
		{"health check with addresses", header(0x20, 0x11, addresses4), balancer, balancer, ""},
		{"no addresses", header(0x21, 0x00, "rest"), balancer, balancer, ""},
		{"a unix socket of the balancer", header(0x21, 0x31, strings.Repeat("/", 216)), balancer, balancer, ""},
		{"loopback of the balancer", header(0x21, 0x11, "\x7f\x00\x00\x01"+addresses4[4:]), balancer, balancer, ""},
		{"loopback of the balancer in IPv6", header(0x21, 0x21, addresses6("::ffff:127.0.0.1")), balancer, balancer, ""},
		{"loopback of this machine", header(0x21, 0x11, "\x7f\x00\x00\x01"+addresses4[4:]), local, "127.0.0.1:4242", ""},

		{"nothing", "", balancer, "", "EOF"},
		{"a command", "put 0 0 60 1\r\n", balancer, "", errNoHeader.Error()},
		{"a short command", "s\r\n", balancer, "", errNoHeader.Error()},
		{"an empty line", "\r\nput 0 0 60 1\r\n", balancer, "", errNoHeader.Error()},
		{"version 1", "PROXY TCP4 192.0.2.7 10.0.0.1 4242 11300\r\n", balancer, "", errText.Error()},
		{"half a signature", session.ProxySignature[:7], balancer, "", "unexpected EOF"},
		{"no length", session.ProxySignature + "\x21\x11\x00", balancer, "", "unexpected EOF"},
		{"version 3", header(0x31, 0x11, addresses4), balancer, "", errHeader.Error()},
		{"unknown command", header(0x22, 0x11, addresses4), balancer, "", errHeader.Error()},
		{"UDP", header(0x21, 0x12, addresses4), balancer, "", errHeader.Error()},
		{"unknown family", header(0x21, 0x41, addresses4), balancer, "", errHeader.Error()},
		{"no room for addresses", header(0x21, 0x11, addresses4[:11]), balancer, "", errHeader.Error()},
		{"no room for addresses of IPv6", header(0x21, 0x21, addresses6("::1")[:35]), balancer, "", errHeader.Error()},
		{"too large", header(0x21, 0x11, addresses4+strings.Repeat("x", headerBytes)), balancer, "", errHeader.Error()},
		{"the largest length", session.ProxySignature + "\x21\x11\xff\xff", balancer, "", errHeader.Error()},
		{"truncated", header(0x21, 0x11, addresses4)[:20], balancer, "", "unexpected EOF"},
	} {
		for _, size := range []int{1, 5, 1 << 20} {
			behind := header(0x21, 0x11, addresses4)
			sent := tt.sent
			if tt.want != "" {
				sent += behind
			}
			r := bytes.NewReader([]byte(sent))
			from, _ := net.ResolveTCPAddr("tcp", tt.from)
			a, err := parseHeader(&pieces{r, size}, from)
			switch {
			case tt.want == "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("%s, in pieces of %d: %v, %v; want the error %s", tt.name, size, a, err, tt.err)
			case tt.want != "" && (err != nil || a.String() != tt.want || r.Len() != len(behind)):
				t.Errorf("%s, in pieces of %d: %v, %v, %d unread; want %s, %d", tt.name, size, a, err, r.Len(), tt.want, len(behind))
			}
		}
	}
}

// pieces reads at most n bytes at a time.
type pieces struct {
	io.Reader
	n int
}

func (p *pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.n)]) }

// FuzzHeader: a header never makes parseHeader read more than its size.
func FuzzHeader(f *testing.F) {
	f.Add([]byte(header(0x21, 0x11, addresses4)))
	f.Add([]byte(header(0x21, 0x21, addresses6("::1"))))
	f.Add([]byte("PROXY UNKNOWN\r\n"))
	from := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5)}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		a, err := parseHeader(r, from)
		if read := len(b) - r.Len(); read > headerFixed+headerBytes || err == nil && (read < headerFixed || read != headerFixed+int(b[14])<<8+int(b[15])) {
			t.Errorf("%d bytes read: %v, %v", read, a, err)
		}
		if err == nil && a.(*net.TCPAddr).IP.IsLoopback() {
			t.Errorf("a balancer elsewhere has the client %v", a)
		}
	})
}

// A peerFront makes sessions that first say where their clients come from, and then echo.
type peerFront struct{ echoFront }

func (f *peerFront) Open(l *session.Loop, c session.Conn) *session.Session {
	s := f.echoFront.Open(l, c)
	s.Say(session.PeerName(s.Peer()) + "\n")
	return s
}

// startBalanced serves a listener behind balancers, with TLS if secure is set.
func startBalanced(t *testing.T, balancers string, secure bool) *running {
	t.Helper()
	r := newReactor(t, Options{Loops: 2, Balancers: []netip.Prefix{netip.MustParsePrefix(balancers)}})
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &running{Reactor: r, addr: l.Addr(), front: new(peerFront), served: make(chan error, 1)}
	if l = r.Balanced(l); secure {
		l = r.Secure(l, testConfig, nil)
	}
	go func() { s.served <- r.Serve(l, s.front) }()
	return s
}

// says reports whether c receives a text.
func says(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("%q, %v; want %q", b, err, want)
	}
}

// TestClientThroughABalancer: sessions see its address, with TLS behind the header as well. Bytes in
// one packet with the header are served.
func TestClientThroughABalancer(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := startBalanced(t, "127.0.0.0/8", secure)
		silent := s.dial(t)
		half := s.dial(t)
		io.WriteString(half, session.ProxySignature)
		for range 2 * s.headers {
			c, err := net.Dial("tcp", s.addr.String()) // a probe
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
		c := s.dial(t)
		if sent := header(0x21, 0x11, addresses4); secure {
			io.WriteString(c, sent)
			c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
			io.WriteString(c, "hello\n")
		} else {
			io.WriteString(c, sent+"hello\n")
		}
		says(t, c, client4+"\nhello\n")
		if !echoes(t, c) {
			t.Error("not served")
		}
		for _, sent := range []string{"PROXY TCP4 192.0.2.7 10.0.0.1 4242 11300\r\n", "put 0 0 60 1\r\n", header(0x31, 0x11, addresses4)} {
			c := s.dial(t)
			io.WriteString(c, sent)
			if b, _ := io.ReadAll(c); len(b) > 0 {
				t.Errorf("%.20q is answered: %q", sent, b)
			}
		}
		if n := s.host.Sums().Rejected; n != [session.NumRejections]uint64{session.RejectedHeader: 3} {
			t.Errorf("rejected: %v", n)
		}
		silent.Close()
		half.Close()
		c.Close()
		eventually(t, func() bool { open, _ := s.Connections(); return open == 0 })
		s.stop(t)
	}
}

// TestOthersNeedNoHeader: a header is ordinary input if its sender is not a balancer.
func TestOthersNeedNoHeader(t *testing.T) {
	s := startBalanced(t, "10.0.0.0/8", false)
	c := s.dial(t)
	sent := header(0x21, 0x11, addresses4)
	io.WriteString(c, sent)
	says(t, c, c.LocalAddr().String()+"\n"+sent)
	c.Close()
	s.stop(t)
}

// TestHeaderMustComeInTime: a client behind silent ones is served then.
func TestHeaderMustComeInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	s := startBalanced(t, "127.0.0.0/8", false)
	for range s.headers {
		s.dial(t)
	}
	c := s.dial(t)
	io.WriteString(c, header(0x21, 0x11, addresses4)+"hello\n")
	says(t, c, client4+"\nhello\n")
	if n := s.host.Sums().Rejected[session.RejectedHeader]; n == 0 {
		t.Error("no silent client was rejected")
	}
	c.Close()
	s.stop(t)
}

// TestBalancedListenerIsHandedOver: a follower stops to accept at a deadline, and the reactor goes on.
func TestBalancedListenerIsHandedOver(t *testing.T) {
	r := newReactor(t, Options{Loops: 1, Balancers: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := r.Balanced(inner).(*balancedListener)
	for range 2 {
		l.SetDeadline(time.Unix(1, 0))
		for range 2 {
			if c, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%v, %v after the deadline", c, err)
			}
		}
		l.SetDeadline(time.Time{})
		d, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		io.WriteString(d, header(0x21, 0x11, addresses4))
		c, err := l.Accept()
		if err != nil || c.RemoteAddr().String() != client4 {
			t.Fatalf("%v, %v", c, err)
		}
		c.Close()
	}
	l.Close()
	if c, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, %v after Close", c, err)
	}
}

// TestListenersWaitApart: clients that wait at the connection limit do not keep HTTP from its probes.
func TestListenersWaitApart(t *testing.T) {
	r := newReactor(t, Options{Loops: 1, Balancers: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	r.headers = 2
	full, free := listenBalanced(t, r), listenBalanced(t, r)
	connect := func(l net.Listener) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		io.WriteString(c, header(0x21, 0x11, addresses4))
	}
	connect(full)
	if _, err := full.Accept(); err != nil { // the last one: from now on its clients wait
		t.Fatal(err)
	}
	for range 2 * r.headers {
		connect(full)
	}
	eventually(t, func() bool { return len(full.slots) == r.headers })
	connect(free)
	if c, err := free.Accept(); err != nil || c.RemoteAddr().String() != client4 {
		t.Fatalf("%v, %v", c, err)
	}
}

func listenBalanced(t *testing.T, r *Reactor) *balancedListener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return r.Balanced(l).(*balancedListener)
}
