package transport

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// knock sends bytes on a new connection, and returns the answer.
func knock(t *testing.T, at *node, b []byte) (greeting, error) {
	t.Helper()
	c, err := net.Dial("tcp", at.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(ample))
	if _, err := c.Write(b); err != nil {
		return greeting{}, err
	}
	g, err := readGreeting(c)
	if err != nil {
		return g, err
	}
	if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v after a refusal, want the end", rest, err)
	}
	return g, nil
}

func TestStrangersAreRefusedWithAReason(t *testing.T) {
	good := greeting{kind: Raft, from: Identity{cluster, 2, "n2"}, to: 1}
	change := func(f func(*greeting)) []byte {
		g := good
		f(&g)
		return g.append(nil)
	}
	for _, tt := range []struct {
		name string
		b    []byte
		want string
	}{
		{"another cluster", change(func(g *greeting) { g.from.Cluster++ }), "n2 (2) is of cluster 00000000000000c2, n1 (1) of cluster 00000000000000c1: if one of the two was recovered alone"},
		{"no cluster yet", change(func(g *greeting) { g.from.Cluster = 0 }), "does not belong to a cluster yet"},
		{"another was meant", change(func(g *greeting) { g.to = 7 }), "it expects server 7, this is n1 (1)"},
		{"the server itself", change(func(g *greeting) { g.from.Node = 1 }), "copies of a directory"},
		{"no number", change(func(g *greeting) { g.from.Node = 0 }), "mangled"},
		{"no name", change(func(g *greeting) { g.from.Name = "" }), "cannot be the name"},
		{"a name that is none", change(func(g *greeting) { g.from.Name = "a\nb" }), "cannot be the name"},
		{"a member's number under another name", change(func(g *greeting) { g.from.Name = "n3" }), "which is called n2"},
		{"a kind that is not served", change(func(g *greeting) { g.kind = Journal }), "serves no connections of journal"},
		{"a kind that there is not", change(func(g *greeting) { g.kind = 77 }), "kind 77"},
		{"a server that is not admitted", change(func(g *greeting) { g.from = Identity{cluster, 9, "removed"} }), "it was removed"},
		{"no parts", append([]byte(magic), 1, 0, 3, 0, 'a', 'b', 'c'), "mangled"},
		{"a browser", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "not a server"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newNode(t, 1, func(x *Transport) {
				x.o.Admit = func(from Identity, _ Kind) error {
					if from.Node == 9 {
						return errors.New("it was removed")
					}
					return nil
				}
			})
			x.SetMembers([]Member{x.as(), {2, "n2", "127.0.0.1:1"}})
			g, err := knock(t, x, tt.b)
			if err != nil || !strings.Contains(g.reason, tt.want) {
				t.Errorf("answered %+v, %v, want a reason with %q", g, err, tt.want)
			}
			x.wantLogged(t, logRefused)
			if s := x.Status(); len(s) != 1 || x.peers[2].in != nil {
				t.Errorf("status %+v, want one that was not accepted", s)
			}
		})
	}
}

// TestServersWithoutAClusterMeet: a server that bootstraps serves other servers on kind Admin before it
// belongs to a cluster, and nothing else.
func TestServersWithoutAClusterMeet(t *testing.T) {
	for _, boots := range []bool{true, false} {
		x := newNode(t, 1, func(x *Transport) {
			x.self.Cluster, x.o.Bootstrap = 0, boots
			x.o.Streams = map[Kind]func(*Stream){Admin: func(s *Stream) { s.Close() }, Journal: func(s *Stream) { s.Close() }}
		})
		for _, kind := range []Kind{Raft, Admin, Journal} {
			for _, from := range []uint64{0, cluster} {
				g, err := knock(t, x, (&greeting{kind: kind, from: Identity{from, 2, "n2"}}).append(nil))
				if accepted := g.reason == ""; err != nil || accepted != (boots && kind == Admin) {
					t.Errorf("bootstrap %v: %v of cluster %x is answered %q: %v", boots, kind, from, g.reason, err)
				}
			}
		}
	}
}

func TestAnswersThatDoNotFitAreRefused(t *testing.T) {
	right := Identity{cluster, 2, "n2"}
	for _, tt := range []struct {
		name   string
		answer []byte
		want   string
	}{
		{"another cluster", (&greeting{kind: Raft, from: Identity{7, 2, "n2"}, to: 1}).append(nil), "of cluster 7"},
		{"another server", (&greeting{kind: Raft, from: Identity{cluster, 3, "n2"}, to: 1}).append(nil), "is server n2 (3), not n2 (2)"},
		{"another name", (&greeting{kind: Raft, from: Identity{cluster, 2, "n3"}, to: 1}).append(nil), "is server n3 (2), not n2 (2)"},
		{"another kind", (&greeting{kind: Admin, from: right, to: 1}).append(nil), "mangled"},
		{"for another", (&greeting{kind: Raft, from: right, to: 3}).append(nil), "mangled"},
		{"refused", (&greeting{kind: Raft, from: right, to: 1, reason: "because"}).append(nil), "server n2 (2) refuses: because"},
		{"TLS", []byte{0x15, 3, 1, 0, 2, 2, 70, 0, 0, 0, 0, 0}, "it speaks TLS"},
		{"nothing", nil, "closed the connection"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					readGreeting(c)
					c.Write(tt.answer)
					c.Close()
				}
			}()
			a := newNode(t, 1, nil)
			a.SetMembers([]Member{a.as(), {2, "n2", l.Addr().String()}})
			s, err := a.Open(t.Context(), 2, Raft)
			if err == nil {
				s.Close()
				t.Fatal("it was let through")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want an error with %q", err, tt.want)
			}
			if s := a.Status()[0]; s.ConnectedTo {
				t.Errorf("status %+v, want no connection", s)
			}
		})
	}
}

func TestServerWithoutAClusterMayOnlyAsk(t *testing.T) {
	x := newNode(t, 1, nil)
	y := newNode(t, 2, func(y *Transport) { y.self.Cluster = 0 })
	s, err := y.OpenAddr(t.Context(), x.Addr().String(), Admin)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Identity{cluster, 1, "n1"}); s.Remote() != want {
		t.Errorf("it is %v, want %v", s.Remote(), want)
	}
	if got := (<-x.streams).Remote(); got.Cluster != 0 || got.Node != 2 {
		t.Errorf("%+v has come, want one without a cluster", got)
	}
	var refused *Refused
	if _, err := y.OpenAddr(t.Context(), x.Addr().String(), Forward); !errors.As(err, &refused) {
		t.Errorf("another kind: %v, want a refusal", err)
	}
	if _, err := x.OpenAddr(t.Context(), y.Addr().String(), Admin); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "this server does not belong") {
		t.Errorf("the other way: %v, want a refusal", err)
	}
	y.SetCluster(cluster)
	meet(x, y)
	talk(t, x, y, "welcome")
	talk(t, y, x, "thank you")
}

// Connections without a greeting do not keep servers out, and are closed after a time.
func TestSilentCrowdDoesNotKeepServersOut(t *testing.T) {
	a := newNode(t, 1, nil)
	b := newNode(t, 2, func(x *Transport) { x.within.greet = time.Hour })
	hurried := newNode(t, 3, func(x *Transport) { x.within.greet = 20 * time.Millisecond })
	connect := func(to *node, text string) net.Conn {
		c, err := net.Dial("tcp", to.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		io.WriteString(c, text)
		c.SetReadDeadline(time.Now().Add(ample))
		return c
	}
	oldest := connect(b, "")
	for range 3 * lobbyMax {
		connect(b, "")
	}
	meet(a, b)
	talk(t, a, b, "through the crowd")
	b.wantLogged(t, logCrowd)
	b.lobby.mu.Lock()
	if n := len(b.lobby.waiting); n > lobbyMax {
		t.Errorf("%d wait, want at most %d", n, lobbyMax)
	}
	b.lobby.mu.Unlock()
	if _, err := oldest.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest connection reads: %v, want the end", err)
	}
	if n := strings.Count(b.log.String(), logCrowd); n > 20 {
		t.Errorf("%d lines were logged of them", n)
	}
	for _, text := range []string{"", magic[:3], magic + "\x01\x00\x40\x00half"} {
		if _, err := io.ReadAll(connect(hurried, text)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: still open", text)
		}
	}
	hurried.wantLogged(t, "it did not identify itself within")
}

// The streams of a kind are bounded, and their seats are returned. Streams of kind Forward are not
// bounded, and an accepted stream does not count as a connection without a greeting.
func TestStreamsTakeSeats(t *testing.T) {
	hold := make(chan struct{})
	a, b := newNode(t, 1, nil), newNode(t, 2, func(b *Transport) {
		b.o.Streams[Admin] = func(s *Stream) { <-hold; s.Close() }
		b.o.Streams[Forward] = func(s *Stream) { io.Copy(s, s); s.Close() }
	})
	meet(a, b)
	for range streamsMax {
		if _, err := a.Open(t.Context(), 2, Admin); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Open(t.Context(), 2, Admin); err == nil || !strings.Contains(err.Error(), "try again later") {
		t.Errorf("one more than there are seats: %v", err)
	}
	close(hold)
	for range 2 * streamsMax {
		await(t, "a seat is free", func() bool {
			s, err := a.Open(t.Context(), 2, Admin)
			if err == nil {
				s.Close()
			}
			return err == nil
		})
	}
	var all [lobbyMax + 9]*Stream
	for i := range all {
		var err error
		if all[i], err = a.Open(t.Context(), 2, Forward); err != nil {
			t.Fatal(err)
		}
	}
	all[0].SetDeadline(time.Now().Add(ample))
	io.WriteString(all[0], "x")
	if n, err := all[0].Read(make([]byte, 1)); n != 1 {
		t.Errorf("read %d, %v, want an echo", n, err)
	}
}

func TestCloseEndsStreams(t *testing.T) {
	a, b := newNode(t, 1, nil), newNode(t, 2, nil)
	meet(a, b)
	s, err := a.Open(t.Context(), 2, Forward)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	s.SetReadDeadline(time.Now().Add(ample))
	if _, err := s.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v, want the end", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Open(t.Context(), 2, Forward); err == nil {
		t.Error("a stream was opened after Close")
	}
	a.SetMembers([]Member{b.as()})
	if a.Send(2, nil) {
		t.Error("a message was accepted after Close")
	}
	if err := a.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	a := newNode(t, 1, func(x *Transport) { x.within.greet = time.Hour })
	l, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := a.OpenAddr(ctx, l.Addr().String(), Admin); err == nil {
		t.Error("a stream was opened to a server that does not answer")
	}
	if _, err := a.Open(t.Context(), 5, Admin); err == nil || !strings.Contains(err.Error(), "does not belong to the cluster") {
		t.Errorf("to a stranger: %v", err)
	}
}

func TestNamesOfNodes(t *testing.T) {
	for _, name := range []string{"a", "n1", "queue-1.example.org", "1", strings.Repeat("x", nameMax)} {
		if err := ValidName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "A", "a b", "-a", "a-", ".a", "a.", "a_b", "ü", "a\n", "*", "*.example.org", strings.Repeat("x", nameMax+1)} {
		if err := ValidName(name); err == nil || !strings.Contains(err.Error(), "use ") {
			t.Errorf("%q: %v, want an error that says what to do", name, err)
		}
	}
}

// Whatever bytes come, the server continues.
func TestAnyBytesAreSurvived(t *testing.T) {
	forBoth(t, func(t *testing.T, a, b *node) {
		random := rand.New(rand.NewPCG(1, 2))
		good := (&greeting{kind: Raft, from: Identity{cluster, 7, "n7"}, to: 2, addr: "127.0.0.1:1"}).append(nil)
		good = append(good, appendInt(nil, frameClock, time.Now().UnixNano())...)
		good = append(append(good, appendHead(nil, frameMessage, 5)...), "hello"...)
		good = append(good, appendHead(nil, frameMessage, messageMax)...)
		for range 200 {
			said := slices.Clone(good[:1+random.IntN(len(good))])
			for range random.IntN(4) {
				said[random.IntN(len(said))] = byte(random.Uint32())
			}
			c, err := net.Dial("tcp", b.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			c.Write(said)
			if random.IntN(2) == 0 {
				c.(*net.TCPConn).SetLinger(0)
			}
			c.Close()
		}
		talk(t, a, b, "all the same")
		talk(t, b, a, "and back")
	})
}
