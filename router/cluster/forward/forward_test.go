package forward

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"polystalk/codec/wiretest/certtest"
	"polystalk/router/cluster/transport"
	"polystalk/router/reactor"
)

// ample bounds the wait for an event that must come.
const ample = 60 * time.Second

// await waits for a condition.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(ample); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("this did not happen: %s", what)
		}
	}
}

// A node forwards clients, or serves them: it answers each line with its own number and the line.
type node struct {
	t         testing.TB
	number    uint64
	transport *transport.Transport
	receiver  *Receiver
	forwarder *Forwarder
	listener  net.Listener // for clients
	served    chan error   // the result of Serve

	mu     sync.Mutex
	leads  bool
	full   bool
	came   []string // "protocol client" of each
	named  string   // the identity of all clients of this node
	conns  []net.Conn
	serves sync.WaitGroup

	holds atomic.Int64 // connections that neither read nor end before the test
}

// newCluster starts nodes 1 to n, with TLS between them or not.
func newCluster(t testing.TB, n int, security func(name string) *transport.Security, change func(*Options)) []*node {
	t.Helper()
	var nodes []*node
	var members []transport.Member
	for i := range n {
		x := &node{t: t, number: uint64(i + 1), served: make(chan error, 1)}
		name := fmt.Sprint("n", x.number)
		l := listen(t, "tcp", "127.0.0.1:0")
		x.receiver = NewReceiver(x.take, slog.New(slog.DiscardHandler))
		o := transport.Options{
			Self: transport.Identity{Cluster: 1, Node: x.number, Name: name}, Listener: l,
			Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Receive: func(uint64, []byte) {}, ServeTLS: reactor.ServeTLS,
			Admit: func(_ transport.Identity, k transport.Kind) error {
				if x.mu.Lock(); k == transport.Forward && !x.leads {
					defer x.mu.Unlock()
					return errors.New("this server does not lead")
				}
				x.mu.Unlock()
				return nil
			},
			Streams: map[transport.Kind]func(*transport.Stream){
				transport.Forward: func(s *transport.Stream) {
					x.mu.Lock()
					r := x.receiver
					x.mu.Unlock()
					r.Receive(s)
				},
			},
		}
		if security != nil {
			o.Security = security(name)
		}
		var err error
		if x.transport, err = transport.New(o); err != nil {
			t.Fatal(err)
		}
		fo := Options{
			Self: x.number, Wait: ample, Max: 100, Log: o.Log, Take: x.take, Describe: x.describe,
			Open: func(ctx context.Context, node uint64) (*transport.Stream, error) {
				return x.transport.Open(ctx, node, transport.Forward)
			},
		}
		if change != nil {
			change(&fo)
		}
		x.forwarder = New(fo)
		x.transport.Start()
		x.listener = listen(t, "tcp", "127.0.0.1:0")
		go func() { x.served <- x.forwarder.Serve(x.listener, "beanstalkd") }()
		t.Cleanup(x.close)
		nodes = append(nodes, x)
		members = append(members, transport.Member{Node: x.number, Name: name, Addr: l.Addr().String()})
	}
	for _, x := range nodes {
		x.transport.SetMembers(members)
	}
	return nodes
}

// authority gives each node a certificate of one authority.
func authority(t testing.TB) func(name string) *transport.Security {
	ca := certtest.New(t)
	return func(name string) *transport.Security {
		cert, key := ca.Issue(certtest.ForNode(name))
		s, err := transport.Secure(transport.SecureOptions{Name: name, Cert: cert, Key: key, CA: ca.File})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func listen(t testing.TB, network, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// close ends the node with all its goroutines.
func (x *node) close() {
	x.forwarder.Close()
	x.transport.Close()
	x.mu.Lock()
	for _, c := range x.conns {
		c.Close()
	}
	x.mu.Unlock()
	x.serves.Wait()
}

// describe implements Options.Describe.
func (x *node) describe(c net.Conn) (about Client, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return Client{Addr: c.RemoteAddr(), TLS: x.named != "", Identity: x.named}, x.named != "revoked"
}

// name changes the identity of all clients of a node.
func (x *node) name(identity string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.named = identity
}

// take implements Take.
func (x *node) take(c net.Conn, protocol string, client *Client) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.leads || x.full {
		c.Close()
		return errors.New("not here")
	}
	from := "itself"
	if client != nil {
		if from = client.String(); client.Identity != "" {
			from = fmt.Sprint(from, " ", client.Identity, " ", client.TLS)
		}
	}
	x.came = append(x.came, protocol+" "+from)
	x.conns = append(x.conns, c)
	x.serves.Go(func() { x.answer(c) })
	return nil
}

// answer answers lines, the last one without an end of line too.
func (x *node) answer(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		switch line {
		case "quit\n":
			return
		case "hold\n":
			x.holds.Add(1)
			<-x.t.Context().Done()
			return
		}
		if line != "" {
			fmt.Fprintf(c, "%d: %s", x.number, line)
		}
		if err != nil {
			return
		}
	}
}

// lead makes a node the leader, and informs all nodes.
func lead(nodes []*node, leader uint64) {
	for _, x := range nodes {
		x.mu.Lock()
		x.leads = x.number == leader
		x.mu.Unlock()
	}
	for _, x := range nodes {
		x.forwarder.SetLeader(leader)
	}
}

// open returns the number of forwarded clients, waiting the number that wait for a leader.
func (x *node) open() int {
	x.forwarder.mu.Lock()
	defer x.forwarder.mu.Unlock()
	return len(x.forwarder.routes)
}

func (x *node) waiting() int {
	f := x.forwarder
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seats) - len(f.listeners) - len(f.routes) // a listener has the seat of its next client
}

// dial connects a client to a listener.
func dial(t testing.TB, l net.Listener) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(ample))
	return c.(*net.TCPConn)
}

func (x *node) dial() *net.TCPConn { x.t.Helper(); return dial(x.t, x.listener) }

// say sends a line, and expects the leader's answer.
func say(t *testing.T, c net.Conn, line string, leader uint64) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatal(err)
	}
	hear(t, c, fmt.Sprintf("%d: %s\n", leader, line))
}

// hear reads the expected answer of a client.
func hear(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if n, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("answered %.80q, %v, want %.80q", b[:n], err, want)
	}
}

// wantEnd waits for the end of a connection.
func wantEnd(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d, %v, want the end", n, err)
	}
}

// forBoth runs a test with plaintext and TLS between nodes 1 and 2; node 2 leads.
func forBoth(t *testing.T, f func(t *testing.T, nodes []*node)) {
	t.Run("plaintext", func(t *testing.T) {
		nodes := newCluster(t, 2, nil, nil)
		lead(nodes, 2)
		f(t, nodes)
	})
	t.Run("TLS", func(t *testing.T) {
		nodes := newCluster(t, 2, authority(t), nil)
		lead(nodes, 2)
		f(t, nodes)
	})
}

func TestClientsReachTheLeader(t *testing.T) {
	forBoth(t, func(t *testing.T, nodes []*node) {
		c := nodes[0].dial()
		say(t, c, "one", 2)
		say(t, c, "two", 2)
		leader := nodes[1]
		leader.mu.Lock()
		if came := "beanstalkd " + c.LocalAddr().String(); len(leader.came) != 1 || leader.came[0] != came {
			t.Errorf("%q arrived, want %q", leader.came, came)
		}
		leader.mu.Unlock()
		if n := nodes[0].forwarder.Accepted(); n != 1 {
			t.Errorf("%d clients were accepted, want 1", n)
		}
		io.WriteString(c, "quit\n") // the server ends it
		wantEnd(t, c)
		c.Close()
		await(t, "it is over", func() bool { return nodes[0].open() == 0 })
	})
}

// Bytes arrive unchanged, also from a client that half-closes. A reset reaches the leader as well.
func TestConnectionsAreCarriedToTheirEnd(t *testing.T) {
	forBoth(t, func(t *testing.T, nodes []*node) {
		c := nodes[0].dial()
		sent := make([]byte, 4<<20)
		rand.NewChaCha8([32]byte{1}).Read(sent)
		sent = bytes.ReplaceAll(sent, []byte("\n"), []byte("n"))
		go func() {
			c.Write(sent)
			c.CloseWrite()
		}()
		got, err := io.ReadAll(c)
		if want := append([]byte("2: "), sent...); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes came back of %d, %v; or others", len(got), len(want), err)
		}
		c = nodes[0].dial()
		say(t, c, "one", 2)
		c.SetLinger(0)
		c.Close()
		await(t, "it is over", func() bool { return nodes[0].open() == 0 })
		nodes[1].serves.Wait()
	})
}

func TestClientThatCannotBeServedIsClosed(t *testing.T) {
	forBoth(t, func(t *testing.T, nodes []*node) {
		nodes[1].mu.Lock()
		nodes[1].full = true
		nodes[1].mu.Unlock()
		wantEnd(t, nodes[0].dial())
	})
}

// A client that has left before its answer, and a client that the server does not read, do not keep
// a server from ending.
func TestCloseEndsClientsThatTheServerHolds(t *testing.T) {
	forBoth(t, func(t *testing.T, nodes []*node) {
		gone, pushes := nodes[0].dial(), nodes[0].dial()
		for _, c := range []*net.TCPConn{gone, pushes} {
			say(t, c, "one", 2)
			io.WriteString(c, "hold\n")
		}
		gone.Close()
		go pushes.Write(make([]byte, 64<<20))
		await(t, "the server holds both", func() bool { return nodes[1].holds.Load() == 2 })
		for _, x := range []*node{nodes[1], nodes[0]} {
			closed := make(chan struct{})
			go func() {
				x.forwarder.Close()
				x.transport.Close()
				close(closed)
			}()
			select {
			case <-closed:
			case <-time.After(ample):
				t.Fatal("it does not end")
			}
		}
	})
}

func TestAnotherLeaderEndsForwardedConnections(t *testing.T) {
	nodes := newCluster(t, 3, nil, nil)
	lead(nodes, 2)
	c := nodes[0].dial()
	say(t, c, "one", 2)
	nodes[0].forwarder.SetLeader(0) // for a moment there is no leader
	say(t, c, "two", 2)
	nodes[0].forwarder.SetLeader(2)
	say(t, c, "three", 2)
	lead(nodes, 3)
	wantEnd(t, c)
	say(t, nodes[0].dial(), "anew", 3)
}

// A client must not stay at the previous leader if another leads before its route is registered.
func TestRouteToAPreviousLeaderIsAborted(t *testing.T) {
	opened, changed := make(chan struct{}), make(chan struct{})
	nodes := newCluster(t, 3, nil, func(o *Options) {
		open := o.Open
		o.Open = func(ctx context.Context, node uint64) (*transport.Stream, error) {
			s, err := open(ctx, node)
			if err == nil && node == 2 {
				close(opened)
				<-changed
			}
			return s, err
		}
	})
	lead(nodes, 2)
	c := nodes[0].dial()
	<-opened
	lead(nodes, 3)
	close(changed)
	say(t, c, "one", 3)
}

// Failed attempts at a leader that refuses are bounded over time, however many clients wait.
func TestFailedAttemptsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds = 10
		var attempts atomic.Int64
		f := New(Options{Self: 1, Wait: time.Hour, Open: func(ctx context.Context, _ uint64) (*transport.Stream, error) {
			if attempts.Add(1) > rounds*attemptsMax {
				<-ctx.Done() // this test must end
			}
			return nil, errors.New("refused")
		}})
		defer f.Close()
		f.SetLeader(2)
		for range 100 {
			go f.find(nil, "beanstalkd")
		}
		time.Sleep(rounds*attemptPause - 1)
		if n := attempts.Load(); n != rounds*attemptsMax {
			t.Errorf("%d attempts in %d pauses, want %d", n, rounds, rounds*attemptsMax)
		}
	})
}

// An attempt that a change of the leader cancels is not logged as the reason.
func TestCanceledAttemptIsNotTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Options{Self: 1, Wait: time.Minute, Open: func(ctx context.Context, _ uint64) (*transport.Stream, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		defer f.Close()
		f.SetLeader(2)
		time.AfterFunc(time.Second, func() { f.SetLeader(0) })
		if r, err := f.find(nil, "beanstalkd"); r != nil || err != errLeaderless {
			t.Errorf("%v, %v, want %v", r, err, errLeaderless)
		}
	})
}

// A client waits for a leader for Options.Wait. Then connections to the last leader end too.
func TestWaitForALeaderIsBounded(t *testing.T) {
	nodes := newCluster(t, 2, nil, func(o *Options) { o.Wait = 100 * time.Millisecond })
	wantEnd(t, nodes[0].dial())
	lead(nodes, 2)
	var c net.Conn
	await(t, "a client is served", func() bool { // the short wait may be over before the leader is found
		c = nodes[0].dial()
		io.WriteString(c, "x\n")
		n, _ := io.ReadFull(c, make([]byte, 5))
		return n == 5
	})
	nodes[0].forwarder.SetLeader(0)
	wantEnd(t, c)
}

// Clients connect while a server begins to lead. Every client is answered.
func TestNobodyIsLostWhenANodeBeginsToLead(t *testing.T) {
	nodes := newCluster(t, 2, nil, nil)
	first := nodes[0]
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for i := range 50 {
				c := first.dial()
				say(t, c, fmt.Sprint(i), 1)
				c.Close()
			}
		})
	}
	await(t, "clients wait", func() bool { return first.waiting() > 0 })
	first.mu.Lock()
	first.leads = true
	first.mu.Unlock()
	first.forwarder.Release()
	if err := <-first.served; err != nil {
		t.Fatal(err)
	}
	go func() { // the listener is the server's now, as if it had listened from the start
		for c, err := first.listener.Accept(); err == nil; c, err = first.listener.Accept() {
			first.take(c, "beanstalkd", nil)
		}
	}()
	lead(nodes, 1)
	clients.Wait()
}

func TestListenersThatCannotBeServed(t *testing.T) {
	f := New(Options{Log: slog.New(slog.DiscardHandler), Max: 1})
	l := listen(t, "tcp", "127.0.0.1:0")
	if err := f.Serve(struct{ net.Listener }{l}, "beanstalkd"); err == nil || !strings.Contains(err.Error(), "struct") {
		t.Errorf("%v, want an error about the type", err)
	}
	l.Close()
	if err := f.Serve(l, "beanstalkd"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("of a closed listener: %v", err)
	}
	f.Release()
	f.Release()
	if err := f.Serve(listen(t, "tcp", "127.0.0.1:0"), "beanstalkd"); err != nil {
		t.Errorf("served after Release: %v", err)
	}
	f.Close()
	f.SetLeader(1) // of no effect
}

func TestClientsBeyondTheBoundWaitInTheBacklog(t *testing.T) {
	nodes := newCluster(t, 2, nil, func(o *Options) { o.Max = 2 })
	lead(nodes, 2)
	one, two := nodes[0].dial(), nodes[0].dial()
	say(t, one, "one", 2)
	say(t, two, "two", 2)
	three := nodes[0].dial()
	io.WriteString(three, "three\n")
	if n := nodes[0].forwarder.Accepted(); n != 2 {
		t.Errorf("%d clients were accepted, want 2", n)
	}
	one.Close()
	hear(t, three, "2: three\n")
}

func TestUnixSocketsAreForwarded(t *testing.T) {
	nodes := newCluster(t, 2, nil, nil)
	lead(nodes, 2)
	path := filepath.Join(t.TempDir(), "s")
	l := listen(t, "unix", path)
	go nodes[0].forwarder.Serve(l, "Gearman")
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	say(t, c, "one", 2)
	nodes[1].mu.Lock()
	defer nodes[1].mu.Unlock()
	if came := nodes[1].came; len(came) != 1 || came[0] != "Gearman " {
		t.Errorf("%q arrived", came)
	}
}

func TestMangledHeaderClosesTheStream(t *testing.T) {
	nodes := newCluster(t, 2, nil, nil)
	lead(nodes, 2)
	s, err := nodes[0].transport.Open(t.Context(), 2, transport.Forward)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	io.WriteString(s, "\xff\xff")
	s.SetDeadline(time.Now().Add(ample))
	wantEnd(t, s)
}

// Many waiting clients do not flood a new leader. A leader that refuses or does not answer does not
// keep clients from the next one.
func TestCrowdIsForwardedInOrder(t *testing.T) {
	var current, most, attempts atomic.Int64
	nodes := newCluster(t, 2, nil, func(o *Options) {
		o.Max = 1000
		open := o.Open
		o.Open = func(ctx context.Context, node uint64) (*transport.Stream, error) {
			attempts.Add(1)
			n := current.Add(1)
			defer current.Add(-1)
			for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
			}
			if node == 3 { // it is silent
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return open(ctx, node)
		}
	})
	var clients [100]net.Conn
	for i := range clients {
		clients[i] = nodes[0].dial()
		fmt.Fprintf(clients[i], "%d\n", i)
	}
	f := nodes[0].forwarder
	await(t, "all wait", func() bool { return nodes[0].waiting() == len(clients) })
	f.SetLeader(2) // node 2 refuses: it does not know yet that it leads
	await(t, "attempts are repeated", func() bool { return attempts.Load() > 2*attemptsMax })
	f.SetLeader(3)
	await(t, "the silent one is tried", func() bool { return current.Load() == attemptsMax })
	if n := nodes[0].waiting(); n != len(clients) {
		t.Errorf("%d clients wait, want all", n)
	}
	f.SetLeader(0)
	lead(nodes, 2)
	for i, c := range clients {
		hear(t, c, fmt.Sprintf("2: %d\n", i))
	}
	if n := most.Load(); n > 2*attemptsMax { // the attempts at the silent leader may be about to end
		t.Errorf("%d concurrent attempts, want at most %d", n, attemptsMax)
	}
}

// The leader is told about the client as it was when it connected, even if the file has changed while it waited.
func TestClientIsDescribedToTheLeader(t *testing.T) {
	forBoth(t, func(t *testing.T, nodes []*node) {
		lead(nodes, 0)
		nodes[0].name("old:network")
		c := nodes[0].dial()
		await(t, "it waits", func() bool { return nodes[0].waiting() == 1 })
		nodes[0].name("web:certificate")
		if n := nodes[0].forwarder.Reidentify(); n != 0 {
			t.Errorf("%d of no connections have ended", n)
		}
		lead(nodes, 2)
		say(t, c, "one", 2)
		nodes[1].mu.Lock()
		defer nodes[1].mu.Unlock()
		if want := "beanstalkd " + c.LocalAddr().String() + " web:certificate true"; len(nodes[1].came) != 1 || nodes[1].came[0] != want {
			t.Errorf("%q arrived, want %q", nodes[1].came, want)
		}
	})
}

// A client of another identity must connect again: the leader has the earlier one. Others stay.
func TestAnotherIdentityEndsTheConnection(t *testing.T) {
	forBoth(t, func(t *testing.T, nodes []*node) {
		nodes[0].name("a:network")
		c := nodes[0].dial()
		say(t, c, "one", 2)
		if n := nodes[0].forwarder.Reidentify(); n != 0 {
			t.Errorf("%d connections of the same identity have ended", n)
		}
		say(t, c, "two", 2)
		nodes[0].name(":default")
		if n := nodes[0].forwarder.Reidentify(); n != 1 {
			t.Errorf("%d connections have ended, want 1", n)
		}
		wantEnd(t, c)
		await(t, "it is over", func() bool { return nodes[0].open() == 0 })
		nodes[1].serves.Wait()
		nodes[0].name("revoked")
		c = nodes[0].dial()
		await(t, "it is not forwarded", func() bool { return nodes[0].waiting() == 1 })
		nodes[0].name("a:network")
		say(t, c, "three", 2)
	})
}

// The file changes between the description and the beginning of a route.
func TestChangeDuringAnAttemptIsNotMissed(t *testing.T) {
	var x *node
	described := 0
	nodes := newCluster(t, 2, nil, func(o *Options) {
		if o.Self != 1 {
			return
		}
		o.Describe = func(c net.Conn) (Client, bool) {
			if described++; described == 2 {
				x.name("b:network")
			}
			return x.describe(c)
		}
	})
	x = nodes[0]
	x.name("a:network")
	lead(nodes, 2)
	c := x.dial()
	say(t, c, "one", 2)
	nodes[1].mu.Lock()
	defer nodes[1].mu.Unlock()
	if last := nodes[1].came[len(nodes[1].came)-1]; !strings.HasSuffix(last, " b:network true") {
		t.Errorf("%q arrived", nodes[1].came)
	}
}
