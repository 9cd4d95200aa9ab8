package reactor

import (
	"errors"
	"net"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"polystalk/shard/wal"
)

// TestConnectionsLeaveDescriptors: the connection limit reserves descriptors for other purposes, more
// with a journal and with every loop, and is at least one.
func TestConnectionsLeaveDescriptors(t *testing.T) {
	for _, tt := range []struct{ descriptors, loops, want, other int }{
		{0, 1, 1, 0}, {31, 1, 1, 0}, {33, 1, 2, 0}, {100, 1, 69, 0}, {1024, 2, 984, 0},
		{1024, 2, 984 - wal.Descriptors - 2, wal.Descriptors + 2}, {1024, 8, 930, 0}, {1024, 1024, 1, 0}, {1 << 30, 1, 1<<30 - 31, 0},
	} {
		o := Options{Loops: tt.loops, OtherDescriptors: tt.other}
		if got := o.connectionsFor(tt.descriptors); got != tt.want {
			t.Errorf("%d descriptors, %d loops: %d connections, want %d", tt.descriptors, tt.loops, got, tt.want)
		}
	}
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		t.Fatal(err)
	}
	if got := descriptors(); uint64(got) != min(uint64(r.Cur), 1<<30) {
		t.Errorf("%d descriptors, the limit is %d", got, r.Cur)
	}
}

func TestLimitSaysWhereItComesFrom(t *testing.T) {
	for _, tt := range []struct {
		want, descriptors int
		limit             connectionLimit
	}{
		{0, 1024, connectionLimit{n: 984, from: "the limit of 1024 descriptors"}},
		{984, 1024, connectionLimit{984, "--max-connections", true}},
		{5, 1024, connectionLimit{5, "--max-connections", true}},
		{985, 1024, connectionLimit{n: 984, from: "the limit of 1024 descriptors"}},
	} {
		o := Options{Loops: 2, MaxConnections: tt.want}
		if got := o.limitOf(tt.descriptors); got != tt.limit {
			t.Errorf("%d wanted of %d: %+v", tt.want, tt.descriptors, got)
		}
	}
}

func TestServeTellsThatItsListenerIsClosed(t *testing.T) {
	r := newReactor(t, Options{Loops: 1, MaxConnections: 2})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := r.Serve(l, new(echoFront)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve on a closed listener: %v", err)
	}
}

// TestRefuseClosesThatFront: open connections of the refused front continue, and so does the other
// front.
func TestRefuseClosesThatFront(t *testing.T) {
	s := start(t, newReactor(t, Options{Loops: 2}), "tcp", "127.0.0.1:0")
	listen := func() net.Listener {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	other := new(echoFront)
	l := listen()
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, other) }()
	theirs := &running{Reactor: s.Reactor, addr: l.Addr()}
	old := theirs.dial(t)
	if !echoes(t, old) || !echoes(t, s.dial(t)) {
		t.Fatal("not served")
	}
	s.Refuse(other)
	if err := <-served; err != nil {
		t.Errorf("Serve of what is refused: %v", err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("a refused connection is accepted")
	}
	if err := s.Serve(listen(), other); err != nil {
		t.Errorf("a new listener of what is refused: %v", err)
	}
	if !echoes(t, old) || !echoes(t, s.dial(t)) {
		t.Error("who is not refused is served no more")
	}
	s.Refuse(nil)
	s.AwaitServe()
	if !echoes(t, old) {
		t.Error("an open connection is served no more")
	}
	s.stop(t)
}

// TestLoopsYieldWhenThereIsNoProcessorToSpare: loops yield only if there are no more processors than
// loops.
func TestLoopsYieldWhenThereIsNoProcessorToSpare(t *testing.T) {
	was := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(was)
	for _, tt := range []struct {
		procs, loops int
		want         bool
	}{{1, 1, true}, {2, 1, false}, {2, 2, true}, {3, 2, false}} {
		runtime.GOMAXPROCS(tt.procs)
		s := start(t, newReactor(t, Options{Loops: tt.loops}), "tcp", "127.0.0.1:0")
		if s.yields != tt.want {
			t.Errorf("%d processors, %d loops: yields %v", tt.procs, tt.loops, s.yields)
		}
		c := s.dial(t)
		if !echoes(t, c) {
			t.Error("not answered")
		}
		c.Close()
		s.stop(t)
	}
}
