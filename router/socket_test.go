package router

import (
	"bytes"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/router/clock"
)

// A socketEnd is the client's side of a connection that gnet does not have, whose loop
// is driven by hand.
type socketEnd struct {
	*os.File
	number int // its descriptor
	k      *socket
	woken  chan struct{}
}

func newSocketEnd(t *testing.T) *socketEnd {
	t.Helper()
	srv, err := newServer(Config{Shards: 1}, clock.System())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.places.Shard(0).Close() })
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range ends {
		if err := unix.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
	}
	e := &socketEnd{File: os.NewFile(uintptr(ends[1]), "client"), number: ends[1], woken: make(chan struct{}, 1)}
	e.SetDeadline(time.Now().Add(20 * time.Second))
	n := newNetwork(srv)
	if err := n.pump.start(); err != nil {
		t.Fatal(err)
	}
	n.open.Add(1)
	l := newLoop(srv, func() {
		select {
		case e.woken <- struct{}{}:
		default:
		}
	})
	l.reactor = &reactor{loop: l}
	e.k = &socket{net: n, loop: l, fd: ends[0], counted: true}
	e.k.s = l.open(e.k, false)
	n.without[e.k] = struct{}{}
	t.Cleanup(func() {
		e.Close()
		e.k.Drop()
		n.pump.stop()
	})
	return e
}

// until gives the loop its turns until ok.
func (e *socketEnd) until(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.After(20 * time.Second); !ok(); {
		select {
		case <-e.woken:
			e.k.loop.drain(true)
		case <-end:
			t.Fatal("it does not come about")
		}
	}
}

// reading reads all that comes, in the background.
func (e *socketEnd) reading() <-chan []byte {
	all := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(e)
		all <- b
	}()
	return all
}

// nothing checks that the connection has gone and left nothing.
func (e *socketEnd) nothing(t *testing.T) {
	t.Helper()
	n := e.k.net
	if open, behind := n.open.Load(), n.behind.Load(); open != 0 || behind != 0 || len(n.without) != 0 || len(n.pump.known) != 0 {
		t.Errorf("%d connections, %d behind, %d without gnet, %d in the pump", open, behind, len(n.without), len(n.pump.known))
	}
	if e.k.linger != nil {
		t.Error("a timer keeps it")
	}
}

// manyReplies are more than a socket takes.
func (e *socketEnd) manyReplies() (all []byte) {
	stable := bytes.Repeat([]byte("stable"), 100_000)
	for i := range 10 {
		p := bytes.Repeat([]byte{byte('0' + i)}, 30_000)
		e.k.Write(p)
		e.k.WriteStable([][]byte{stable, stable[:i]})
		all = append(append(append(all, p...), stable...), stable[:i]...)
		clear(p)
	}
	return all
}

// TestSlowReaderGetsAllInOrder: and the session is told when it has.
func TestSlowReaderGetsAllInOrder(t *testing.T) {
	e := newSocketEnd(t)
	files := openDescriptors(t)
	want := e.manyReplies()
	if e.k.Unsent() == 0 || e.k.net.behind.Load() != 1 {
		t.Fatalf("%d bytes unsent, %d behind", e.k.Unsent(), e.k.net.behind.Load())
	}
	if more := openDescriptors(t) - files; more > 0 {
		t.Errorf("%d descriptors more", more)
	}
	e.k.s.stalled = true
	all := e.reading()
	e.until(t, func() bool { return e.k.Unsent() == 0 })
	if e.k.s.stalled || e.k.net.behind.Load() != 0 {
		t.Error("the session is not told")
	}
	e.k.Write([]byte("at once"))
	e.k.Close()
	if got := <-all; !bytes.Equal(got, append(want, "at once"...)) {
		t.Errorf("%d bytes came, want %d and their order", len(got), len(want))
	}
	e.nothing(t)
}

// TestClosedConnectionIsReadToTheEnd: what is unsent is sent before the end.
func TestClosedConnectionIsReadToTheEnd(t *testing.T) {
	e := newSocketEnd(t)
	want := e.manyReplies()
	e.k.Close()
	all := e.reading()
	e.until(t, func() bool { return e.k.fd < 0 })
	if got := <-all; !bytes.Equal(got, want) {
		t.Errorf("%d bytes came, want %d", len(got), len(want))
	}
	e.nothing(t)
}

func TestDroppedConnectionEndsAtOnce(t *testing.T) {
	for _, closed := range []bool{false, true} {
		e := newSocketEnd(t)
		want := e.manyReplies()
		if closed {
			e.k.Close()
		}
		e.k.Drop()
		if got := <-e.reading(); len(got) >= len(want) {
			t.Error("all was sent")
		}
		e.nothing(t)
	}
}

// TestSlowReaderThatGoes: its session hears of it, before or after it is closed.
func TestSlowReaderThatGoes(t *testing.T) {
	for _, closed := range []bool{false, true} {
		e := newSocketEnd(t)
		e.manyReplies()
		if closed {
			e.k.loop.event(e.k.s, (*session).close)
		}
		e.Close()
		e.until(t, func() bool { return e.k.fd < 0 })
		if e.k.s.phase != phaseGone || e.k.Unsent() != 0 || e.k.Pause() || e.k.Resume() {
			t.Errorf("phase %d, %d bytes unsent, or it is read again", e.k.s.phase, e.k.Unsent())
		}
		e.k.Write([]byte("x"))
		e.nothing(t)
	}
}

// TestPartedClientReadsWhy: what it still sends is thrown away until it is done.
func TestPartedClientReadsWhy(t *testing.T) {
	e := newSocketEnd(t)
	e.k.parting = true
	want := e.manyReplies()
	e.k.Close()
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		io.Copy(e, io.LimitReader(zeros{}, 10<<20))
		unix.Shutdown(e.number, unix.SHUT_WR)
	})
	all := e.reading()
	e.until(t, func() bool { return e.k.fd < 0 })
	if got := <-all; !bytes.Equal(got, want) {
		t.Errorf("%d bytes came, want %d", len(got), len(want))
	}
	e.nothing(t)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestOneWatchOfAPausedConnection: pausing again and again starts no second
// series of looks for the client.
func TestOneWatchOfAPausedConnection(t *testing.T) {
	e := newSocketEnd(t)
	for range 20 {
		e.k.watchHangUp()
	}
	looks := 0
	eventually(t, func() bool {
		list := e.k.loop.signals.take()
		looks += len(list)
		return len(list) > 0
	})
	if looks != 1 {
		t.Errorf("%d looks at once", looks)
	}
}

// awaitNothing waits until no connections are counted.
func awaitNothing(t *testing.T, n *network) {
	t.Helper()
	eventually(t, func() bool { return n.open.Load() == 0 && n.behind.Load() == 0 })
	if open, behind := n.open.Load(), n.behind.Load(); open != 0 || behind != 0 {
		t.Errorf("%d connections and %d behind are counted", open, behind)
	}
}

// eventually waits for what other goroutines are about to bring about.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("it does not come about")
}
