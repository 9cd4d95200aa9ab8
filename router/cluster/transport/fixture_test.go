package transport

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// ample bounds the wait for an event that must come.
const ample = 60 * time.Second

// A node is a transport with what it has received.
type node struct {
	*Transport
	got     chan heard
	lost    chan uint64 // Unreachable
	log     *logged
	streams chan *Stream
}

type heard struct {
	from uint64
	text string
}

// A logged is the log of a node.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const cluster = 0xc1

// newNode starts server n of a cluster, with the name "n" and its number. change may set options.
func newNode(t testing.TB, n uint64, change func(*Transport)) *node {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newNodeAt(t, l, n, change)
}

func newNodeAt(t testing.TB, l net.Listener, n uint64, change func(*Transport)) *node {
	t.Helper()
	x := &node{got: make(chan heard, 1<<16), lost: make(chan uint64, 1<<16), log: new(logged), streams: make(chan *Stream, 64)}
	serve := func(s *Stream) { x.streams <- s; <-x.Transport.ctx.Done() }
	tr, err := New(Options{
		Self:      Identity{cluster, n, fmt.Sprint("n", n)},
		Advertise: l.Addr().String(),
		Listener:  l,
		Now:       time.Now,
		Log:       slog.New(slog.NewTextHandler(x.log, nil)),
		Receive:   func(from uint64, m []byte) { x.got <- heard{from, string(m)} },
		Unreachable: func(node uint64) {
			select {
			case x.lost <- node:
			default:
			}
		},
		Streams: map[Kind]func(*Stream){Forward: serve, Admin: serve},
	})
	if err != nil {
		t.Fatal(err)
	}
	x.Transport = tr
	if change != nil {
		change(tr)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	tr.Start()
	return x
}

// as returns the Member of the node.
func (x *node) as() Member {
	self := x.Self()
	return Member{self.Node, self.Name, x.Addr().String()}
}

// meet makes nodes members of each other's cluster.
func meet(nodes ...*node) {
	var all []Member
	for _, x := range nodes {
		all = append(all, x.as())
	}
	for _, x := range nodes {
		x.SetMembers(all)
	}
}

// await waits for a condition.
func await(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(ample); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("this did not happen: %s", what)
		}
	}
}

// say sends a message until it is accepted.
func (x *node) say(t *testing.T, to *node, text string) {
	t.Helper()
	await(t, "sending "+text, func() bool { return x.Send(to.Self().Node, []byte(text)) })
}

// hear waits for a message, and skips others.
func (x *node) hear(t *testing.T, from *node, text string) {
	t.Helper()
	want := heard{from.Self().Node, text}
	deadline := time.After(ample)
	for {
		select {
		case got := <-x.got:
			if got == want {
				return
			}
		case <-deadline:
			t.Fatalf("%s did not hear %q of %s; its log:\n%s\nthe other's log:\n%s", x.Self(), text, from.Self(), x.log, from.log)
		}
	}
}

// talk sends a message until it is received: one may be lost while a connection breaks.
func talk(t *testing.T, from, to *node, text string) {
	t.Helper()
	want := heard{from.Self().Node, text}
	await(t, fmt.Sprintf("%s talks to %s", from.Self(), to.Self()), func() bool {
		from.Send(to.Self().Node, []byte(text))
		for {
			select {
			case got := <-to.got:
				if got == want {
					return true
				}
			case <-time.After(5 * time.Millisecond):
				return false
			}
		}
	})
}

// status returns a node's status of another node.
func (x *node) status(of *node) PeerStatus {
	for _, s := range x.Status() {
		if s.Node == of.Self().Node {
			return s
		}
	}
	return PeerStatus{}
}

// hears reports whether another node has a connection to the node.
func (x *node) hears(of *node) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p := x.peers[of.Self().Node]
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.in != nil
}

// wantLogged waits for words in the log.
func (x *node) wantLogged(t *testing.T, words string) {
	t.Helper()
	await(t, fmt.Sprintf("%q in the log", words), func() bool { return strings.Contains(x.log.String(), words) })
}
