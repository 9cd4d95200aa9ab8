package session

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"polystalk/router/access"
	"polystalk/shard/core"
)

// A peerConn is a Conn with a given client.
type peerConn struct {
	peer      net.Addr
	uid       int // -1: no unix socket
	encrypted bool
	certified *access.Credential
	revoked   bool
	closed    bool
	written   int // bytes
}

func (c *peerConn) Write(p []byte)                  { c.written += len(p) }
func (c *peerConn) WriteStable([][]byte)            {}
func (c *peerConn) Unsent() int                     { return 0 }
func (c *peerConn) Close()                          { c.closed = true }
func (c *peerConn) Drop()                           { c.closed = true }
func (c *peerConn) Pause() bool                     { return false }
func (c *peerConn) Resume() bool                    { return false }
func (c *peerConn) Peer() net.Addr                  { return c.peer }
func (c *peerConn) User() (uint32, bool)            { return uint32(c.uid), c.uid >= 0 }
func (c *peerConn) TLS() (bool, *access.Credential) { return c.encrypted, c.certified }
func (c *peerConn) Revoked() bool                   { return c.revoked }

// A tubeUser is a protocol whose client uses the tube x.
type tubeUser struct {
	Session
	checked int
	idle    bool // the client uses nothing
}

func (p *tubeUser) Input(b []byte) int  { return len(b) }
func (p *tubeUser) Replied(*core.Reply) {}
func (p *tubeUser) Next()               {}
func (p *tubeUser) Woken(*core.Message) {}
func (p *tubeUser) GiveUp()             {}
func (p *tubeUser) Close()              { p.Gone() }
func (p *tubeUser) Reauthorize() bool {
	p.checked++
	return p.idle || p.Unproven() || p.Credential().Verbs([]byte("x"))&access.Work != 0
}

type tubeUsers struct{ opened []*tubeUser }

func (*tubeUsers) Name() string     { return "x" }
func (*tubeUsers) Kinds() []string  { return nil }
func (*tubeUsers) Errors() []string { return nil }
func (f *tubeUsers) Open(l *Loop, c Conn) *Session {
	p := new(tubeUser)
	p.Init(l, c, p)
	f.opened = append(f.opened, p)
	return &p.Session
}

// An accessWorld is a host with one loop and an access file.
type accessWorld struct {
	t     *testing.T
	path  string
	h     *Host
	l     *Loop
	now   core.Time
	front tubeUsers
}

func newAccessWorld(t *testing.T, file string) *accessWorld {
	w := &accessWorld{t: t, path: filepath.Join(t.TempDir(), "access.toml"), now: core.Second}
	w.write(file)
	ids, err := access.Open(w.path)
	if err != nil {
		t.Fatal(err)
	}
	w.h = newTestHost(&w.now)
	w.h.Access = ids
	w.l = NewLoop(w.h, func() {})
	return w
}

func (w *accessWorld) write(file string) {
	if err := os.WriteFile(w.path, []byte(file), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// open makes a session for a client.
func (w *accessWorld) open(c *peerConn) *tubeUser {
	w.l.Open(&w.front, c)
	return w.front.opened[len(w.front.opened)-1]
}

// reload replaces the file, lets the loop work, and returns how many sessions were killed.
func (w *accessWorld) reload(file string) (killed int) {
	w.t.Helper()
	w.write(file)
	use, err := w.h.Access.Prepare()
	if err != nil {
		w.t.Fatal(err)
	}
	use()
	killed = -1
	w.h.Reauthorize(func(n int) { killed = n })
	for range 10_000 {
		if killed >= 0 {
			return killed
		}
		w.l.GoOn(true)
	}
	w.t.Fatal("the check does not end")
	return 0
}

func tcp(addr string) net.Addr { a, _ := net.ResolveTCPAddr("tcp", addr); return a }

const (
	aToken = "a-token-of-a-valid-length"
	bToken = "b-token-of-a-valid-length"
)

func tokens(list ...string) (text string) {
	for i, token := range list {
		text += fmt.Sprintf("%.*s\"sha256:%x\"", 2*min(i, 1), ", ", access.DigestOf(token))
	}
	return "tokens = [" + text + "]\n"
}

var identities = "[identity.me]\nwork = [\"x\"]\nusers = [\"1\"]\n[identity.net]\nwork = [\"x\"]\nnetworks = [\"10.0.0.0/8\"]\n" +
	"[identity.cert]\nwork = [\"x\"]\ncertificates = [\"CN:x\"]\n[identity.token]\nwork = [\"x\"]\n" + tokens(aToken)

func TestFirstProofIdentifiesAClient(t *testing.T) {
	w := newAccessWorld(t, identities)
	unix := &net.UnixAddr{Net: "unix"}
	for _, tt := range []struct {
		name string
		conn peerConn
		want string
	}{
		{"certificate and network", peerConn{peer: tcp("10.1.1.1:1"), uid: -1, encrypted: true, certified: w.h.Access.Named("cert", access.ByCertificate)}, "cert"},
		{"TLS without a certificate", peerConn{peer: tcp("10.1.1.1:1"), uid: -1, encrypted: true}, "net"},
		{"user", peerConn{peer: unix, uid: 1}, "me"},
		{"root", peerConn{peer: unix, uid: 0}, ""},
		{"network", peerConn{peer: tcp("10.1.1.1:1"), uid: -1}, "net"},
		{"mapped address", peerConn{peer: tcp("[::ffff:10.1.1.1]:1"), uid: -1}, "net"},
		{"other network", peerConn{peer: tcp("11.1.1.1:1"), uid: -1}, ""},
		{"loopback", peerConn{peer: tcp("127.0.0.1:1"), uid: -1}, ""},
		{"forwarded", peerConn{peer: Forwarded{Addr: tcp("10.1.1.1:1")}, uid: -1}, "net"},
		{"forwarded from a unix socket", peerConn{peer: Forwarded{Addr: unix}, uid: -1}, ""},
		{"gone", peerConn{uid: -1}, ""},
		{"identified by another server", peerConn{peer: Forwarded{tcp("11.1.1.1:1"), true, "cert:certificate"}, uid: -1}, "cert"},
		{"its name counts, not the address", peerConn{peer: Forwarded{tcp("10.1.1.1:1"), false, "me:user"}, uid: -1}, "me"},
		{"no rights there", peerConn{peer: Forwarded{tcp("10.1.1.1:1"), false, ":default"}, uid: -1}, ""},
		{"a name that is not in the file", peerConn{peer: Forwarded{tcp("10.1.1.1:1"), false, "root:certificate"}, uid: -1}, ""},
		{"the default of the other file", peerConn{peer: Forwarded{tcp("10.1.1.1:1"), false, "default:default"}, uid: -1}, ""},
		{"only this server checks tokens", peerConn{peer: Forwarded{tcp("10.1.1.1:1"), false, "token:token"}, uid: -1}, ""},
		{"a method that is none", peerConn{peer: Forwarded{tcp("10.1.1.1:1"), false, "cert:server"}, uid: -1}, ""},
		{"no method", peerConn{peer: Forwarded{tcp("10.1.1.1:1"), false, "cert"}, uid: -1}, ""},
		{"the certificate of the other server", peerConn{peer: Forwarded{tcp("10.1.1.1:1"), false, "net:network"}, uid: -1, encrypted: true,
			certified: w.h.Access.Named("cert", access.ByCertificate)}, "net"},
	} {
		s := w.open(&tt.conn)
		if s.Credential().Name() != tt.want || s.Unproven() != (tt.want == "") {
			t.Errorf("%s: %q, unproven: %v", tt.name, s.Credential().Name(), s.Unproven())
		}
	}
}

func TestTokensAreAcceptedOnlyWhereOthersCannotReadThem(t *testing.T) {
	unix := &net.UnixAddr{Net: "unix"}
	for _, tt := range []struct {
		name, token string
		conn        peerConn
		want        string // empty: refused
	}{
		{"plaintext network", aToken, peerConn{peer: tcp("11.1.1.1:1"), uid: -1}, ""},
		{"known, plaintext network", aToken, peerConn{peer: tcp("10.1.1.1:1"), uid: -1}, ""},
		{"gone", aToken, peerConn{uid: -1}, ""},
		{"wrong", bToken, peerConn{peer: unix, uid: 5}, ""},
		{"TLS", aToken, peerConn{peer: tcp("11.1.1.1:1"), uid: -1, encrypted: true}, "token"},
		{"loopback", aToken, peerConn{peer: tcp("127.0.0.1:1"), uid: -1}, "token"},
		{"unix socket", aToken, peerConn{peer: unix, uid: 5}, "token"},
		{"forwarded loopback", aToken, peerConn{peer: Forwarded{Addr: tcp("[::1]:1")}, uid: -1}, "token"},
		{"forwarded plaintext network", aToken, peerConn{peer: Forwarded{Addr: tcp("11.1.1.1:1")}, uid: -1}, ""},
		{"TLS between servers", aToken, peerConn{peer: Forwarded{Addr: tcp("11.1.1.1:1")}, uid: -1, encrypted: true}, ""},
		{"forwarded, the client uses TLS", aToken, peerConn{peer: Forwarded{tcp("11.1.1.1:1"), true, ":default"}, uid: -1}, "token"},
		{"forwarded, from a network", aToken, peerConn{peer: Forwarded{tcp("127.0.0.1:1"), false, "net:network"}, uid: -1}, "token"},
		{"forwarded, a certificate keeps its identity", aToken, peerConn{peer: Forwarded{tcp("127.0.0.1:1"), true, "cert:certificate"}, uid: -1}, "cert"},
		{"a user keeps its identity", aToken, peerConn{peer: unix, uid: 1}, "me"},
	} {
		w := newAccessWorld(t, identities)
		s := w.open(&tt.conn)
		was := s.Credential()
		if ok := s.Authenticate(tt.token); ok != (tt.want != "") || ok && (s.Credential().Name() != tt.want || s.Unproven()) || !ok && s.Credential() != was {
			t.Errorf("%s: accepted: %v, %q", tt.name, ok, s.Credential().Name())
		}
		if n := w.h.Sums().Rejected[RejectedToken]; (n == 0) != (tt.want != "") {
			t.Errorf("%s: %d refusals are counted", tt.name, n)
		}
	}
	w := newAccessWorld(t, "plaintext-tokens = true\n"+identities)
	if s := w.open(&peerConn{peer: tcp("11.1.1.1:1"), uid: -1}); !s.Authenticate(aToken) {
		t.Error("plaintext-tokens has no effect")
	}
}

// TestReloadClosesOnlySessionsThatLostARight, with more sessions than a turn checks.
func TestReloadClosesOnlySessionsThatLostARight(t *testing.T) {
	both := func(a, b string) string {
		return "[identity.a]\nwork = [\"" + a + "\"]\n" + tokens(aToken) + b
	}
	b := "[identity.b]\nwork = [\"x\"]\n" + tokens(bToken)
	w := newAccessWorld(t, both("*", b))
	conns := map[string][]*peerConn{}
	for i := range 2000 {
		c := &peerConn{peer: tcp("127.0.0.1:1"), uid: -1}
		s := w.open(c)
		name := []string{aToken, bToken, ""}[i%3]
		if name != "" && !s.Authenticate(name) {
			t.Fatal("not accepted")
		}
		conns[name] = append(conns[name], c)
	}
	expect := func(name string, want bool) {
		t.Helper()
		for i, c := range conns[name] {
			if c.closed != want {
				t.Fatalf("session %d of %q is closed: %v", i, name, c.closed)
			}
		}
	}
	for _, tt := range []struct {
		file   string
		killed int
	}{
		{both("x", b), 0},
		{both("*", b), 0},
		{both("y", b), len(conns[aToken])},
		{both("*", "[identity.b]\nwork = [\"x\"]\n"), len(conns[bToken])},
	} {
		before := w.front.opened[1].checked + w.front.opened[2].checked
		if n := w.reload(tt.file); n != tt.killed {
			t.Errorf("%d sessions were closed, want %d, by\n%s", n, tt.killed, tt.file)
		}
		if n := w.front.opened[1].checked + w.front.opened[2].checked - before; n == 0 {
			t.Error("the protocol was not asked")
		}
	}
	expect(aToken, true)
	expect(bToken, true)
	expect("", false)
	// A client that must authenticate gets an identity of the new file.
	if n := w.reload(both("x", "[identity.lo]\nwork = [\"x\"]\nnetworks = [\"127.0.0.1\"]\n")); n != 0 || w.front.opened[2].Credential().Name() != "lo" || w.front.opened[2].Unproven() {
		t.Errorf("%d closed; the client is %q", n, w.front.opened[2].Credential().Name())
	}
	// And a client that has had no command may authenticate when its identity is gone.
	if n := w.reload(both("x", "")); n != 0 || !w.front.opened[2].Unproven() || w.l.registry.unproven.len() != 2000+len(conns[""]) {
		t.Errorf("%d closed; unproven: %v", n, w.front.opened[2].Unproven())
	}
	expect("", false)
	w.front.opened[2].activity.last = 1
	w.front.opened[2].unproven = false
	if n := w.reload(both("x", "")); n != 1 || !conns[""][0].closed {
		t.Errorf("%d sessions without an identity were closed", n)
	}
}

// TestReloadKeepsAnIdleSessionOfAFullIdentity: it enters no identity again.
func TestReloadKeepsAnIdleSessionOfAFullIdentity(t *testing.T) {
	file := "[identity.lo]\nwork = [\"x\"]\nnetworks = [\"127.0.0.1\"]\n"
	w := newAccessWorld(t, file)
	a, b := &peerConn{peer: tcp("127.0.0.1:1"), uid: -1}, &peerConn{peer: tcp("127.0.0.1:2"), uid: -1}
	w.open(a)
	w.open(b)
	if n := w.reload(file + "connections = 1\n"); n != 0 || a.closed || b.closed {
		t.Errorf("%d sessions are killed: a smaller quota closes none", n)
	}
}

// TestTokenOfAnotherIdentityGivesNoRights: a user keeps its identity, which has none here, and stays
// unproven.
func TestTokenOfAnotherIdentityGivesNoRights(t *testing.T) {
	w := newAccessWorld(t, "[identity.a]\nusers = [\"1\"]\n[identity.b]\nwork = [\"x\"]\n"+tokens(bToken))
	s := w.open(&peerConn{peer: &net.UnixAddr{Net: "unix"}, uid: 1})
	if !s.Authenticate(bToken) || !s.Unproven() || s.Credential().Name() != "a" {
		t.Errorf("it has the identity %q, unproven: %t", s.Credential().Name(), s.Unproven())
	}
}

// The other server is trusted with names. Rights, and whether there is such an identity, follow the
// leader's file.
func TestReloadReachesForwardedClients(t *testing.T) {
	w := newAccessWorld(t, identities)
	open := func(identity string) (*tubeUser, *peerConn) {
		c := &peerConn{peer: Forwarded{tcp("10.1.1.1:1"), true, identity}, uid: -1}
		s := w.open(c)
		s.activity.last = 1 // it has had a command
		return s, c
	}
	_, cert := open("cert:certificate")
	_, net := open("net:network")
	later, _ := open("later:certificate")
	if n := w.reload("[identity.net]\nwork = [\"y\"]\n[identity.later]\nwork = [\"x\"]\n"); n != 2 || !cert.closed || !net.closed {
		t.Errorf("%d closed; removed: %v, lost a right: %v", n, cert.closed, net.closed)
	}
	if later.Unproven() || later.Credential().Name() != "later" {
		t.Errorf("an identity of the new file: %q, unproven: %v", later.Credential().Name(), later.Unproven())
	}
	if n := w.reload(identities); n != 1 {
		t.Errorf("%d sessions of the identity that has gone again were closed, want 1", n)
	}
}

// TestRevokedBehindTheHandshake: a reload may end between a client's handshake and its session.
func TestRevokedBehindTheHandshake(t *testing.T) {
	w := newAccessWorld(t, identities)
	for _, ids := range []*access.Identities{w.h.Access, nil} {
		w.h.Access = ids
		for _, revoked := range []bool{true, false} {
			c := &peerConn{peer: tcp("10.0.0.1:1"), uid: -1, encrypted: true, revoked: revoked}
			if w.open(c); c.closed != revoked {
				t.Errorf("revoked: %t, closed: %t, with an access file: %t", revoked, c.closed, ids != nil)
			}
		}
	}
}

// What a follower says about its clients, the leader understands.
func TestFollowerDescribesItsClients(t *testing.T) {
	w := newAccessWorld(t, fmt.Sprintf("[identity.me]\nwork = [\"x\"]\nusers = [\"%d\"]\n[identity.lo]\nwork = [\"x\"]\nnetworks = [\"127.0.0.1\"]\n", os.Getuid()))
	for _, tt := range []struct{ network, addr, identity, name string }{
		{"unix", filepath.Join(t.TempDir(), "s"), "me:user", "me"},
		{"tcp", "127.0.0.1:0", "lo:network", "lo"},
		{"tcp", "[::1]:0", ":default", ""},
	} {
		l, err := net.Listen(tt.network, tt.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		client, err := net.Dial(tt.network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f, ok := w.h.Forward(c)
		if !ok || f.Identity != tt.identity || f.TLS || f.Addr.String() != c.RemoteAddr().String() {
			t.Errorf("%s: %+v, want %s", tt.addr, f, tt.identity)
		}
		if s := w.open(&peerConn{peer: f, uid: -1}); s.Credential().Name() != tt.name {
			t.Errorf("%s: the leader takes it for %q", tt.addr, s.Credential().Name())
		}
		if f, _ = new(Host).Forward(c); f.Identity != "" {
			t.Errorf("%s: identified as %q without an access file", tt.addr, f.Identity)
		}
	}
}

func TestUnprovenClientsAreClosedInTime(t *testing.T) {
	w := newAccessWorld(t, identities)
	silent, proven, late := &peerConn{peer: tcp("127.0.0.1:1"), uid: -1}, &peerConn{peer: tcp("127.0.0.1:1"), uid: -1}, &peerConn{peer: tcp("127.0.0.1:1"), uid: -1}
	gone := w.open(&peerConn{uid: -1})
	w.open(silent)
	if !w.open(proven).Authenticate(aToken) {
		t.Fatal("not accepted")
	}
	w.l.Event(&gone.Session, (*Session).Abort)
	evict := func() {
		w.h.EvictUnproven()
		for range 10 {
			w.l.GoOn(true)
		}
	}
	w.now += proveWithin - 1
	evict()
	if silent.closed {
		t.Error("closed too early")
	}
	w.open(late)
	w.now++
	evict()
	if !silent.closed || proven.closed || late.closed || w.l.registry.unproven.len() != 1 {
		t.Errorf("closed: silent %v, proven %v, late %v; %d are expected to authenticate", silent.closed, proven.closed, late.closed, w.l.registry.unproven.len())
	}
	if n := w.h.Sums().Rejected[RejectedUnproven]; n != 1 {
		t.Errorf("%d are counted", n)
	}
}

func TestDenialIsRecordedWithTheClient(t *testing.T) {
	w := newAccessWorld(t, identities)
	s := w.open(&peerConn{peer: tcp("10.1.1.1:7"), uid: -1})
	long := make([]byte, 300)
	s.Deny(access.Put, long)
	all := w.h.Access.Denials.All()
	if len(all) != 1 || all[0].Identity != "net" || all[0].Peer != "10.1.1.1:7" || len(all[0].Tube) != externalMax {
		t.Errorf("%+v", all)
	}
}

// TestClientWithoutAnIdentityIsKilled, also if it uses nothing that it could lose.
func TestClientWithoutAnIdentityIsKilled(t *testing.T) {
	w := newAccessWorld(t, "[identity.a]\nput = [\"x\"]\n"+tokens(aToken))
	c := &peerConn{peer: tcp("127.0.0.1:1"), uid: -1}
	s := w.open(c)
	s.idle = true
	if !s.Authenticate(aToken) {
		t.Fatal("not accepted")
	}
	if n := w.reload("[identity.a]\nput = [\"x\"]\n" + tokens(bToken)); n != 1 || !c.closed {
		t.Errorf("%d sessions were closed, closed: %t", n, c.closed)
	}
}

// TestKilledClientGetsNoMoreReplies: a reply to a pending operation could show what the client lost the
// right to see.
func TestKilledClientGetsNoMoreReplies(t *testing.T) {
	w := newAccessWorld(t, identities)
	for _, killed := range []bool{false, true} {
		c := &peerConn{peer: tcp("10.0.0.1:1"), uid: -1}
		s := w.open(c)
		if killed {
			s.end = broken
		}
		w.l.turn(&s.Session, func(s *Session) {
			s.SetOut(append(s.Out(), "RESERVED"...))
			s.Flush()
		})
		if (c.written == 0) != killed {
			t.Errorf("killed: %t, and %d bytes are written", killed, c.written)
		}
	}
}

// TestRefusedPutIsNotPaid: its client may put as soon as the reason for the refusal is gone.
func TestRefusedPutIsNotPaid(t *testing.T) {
	w := newAccessWorld(t, "[identity.net]\nput = [\"x\"]\nputs-per-second = 1\nnetworks = [\"10.0.0.0/8\"]\n")
	s := w.open(&peerConn{peer: tcp("10.0.0.1:1"), uid: -1})
	need := Need{Puts: true, Submits: true}
	w.h.Draining.Store(true)
	if v, why := s.Admit(need); v != Refuse || why != Draining {
		t.Fatalf("%v, %v", v, why)
	}
	w.h.Draining.Store(false)
	if v, _ := s.Admit(need); v != Run {
		t.Errorf("the next put: %v", v)
	}
}
