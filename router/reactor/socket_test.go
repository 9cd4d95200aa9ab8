package reactor

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/router/session"
)

// A socketEnd is the client's side of a detached connection; the test runs its loop.
type socketEnd struct {
	*os.File
	number int // the descriptor
	k      *socket
	woken  chan struct{}
}

func newSocketEnd(t *testing.T) *socketEnd {
	t.Helper()
	r := newReactor(t, Options{Loops: 1})
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
	if err := r.notifier.start(); err != nil {
		t.Fatal(err)
	}
	r.seats.taken.Add(1)
	l := &eventLoop{Loop: session.NewLoop(r.host, func() {
		select {
		case e.woken <- struct{}{}:
		default:
		}
	})}
	l.placed.Add(1)
	e.k = &socket{reactor: r, loop: l, fd: ends[0]}
	e.k.s = l.Open(new(echoFront), e.k)
	r.detached[e.k] = struct{}{}
	t.Cleanup(func() {
		e.Close()
		e.k.Drop()
		r.notifier.stop()
	})
	return e
}

// until runs turns of the loop until ok returns true.
func (e *socketEnd) until(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.After(20 * time.Second); !ok(); {
		select {
		case <-e.woken:
			e.k.loop.GoOn(true)
		case <-end:
			t.Fatal("it does not come about")
		}
	}
}

// reading reads all output in the background.
func (e *socketEnd) reading() <-chan []byte {
	all := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(e)
		all <- b
	}()
	return all
}

// nothing checks that the connection is gone and left nothing.
func (e *socketEnd) nothing(t *testing.T) {
	t.Helper()
	r := e.k.reactor
	if open, behind := r.Connections(); open != 0 || behind != 0 || len(r.detached) != 0 || len(r.notifier.known) != 0 {
		t.Errorf("%d connections, %d behind, %d without gnet, %d in the notifier", open, behind, len(r.detached), len(r.notifier.known))
	}
	if n := e.k.loop.placed.Load(); n != 0 || e.k.stage != over {
		t.Errorf("the loop has %d connections, this one is %v", n, e.k.stage)
	}
	if e.k.linger != nil {
		t.Error("a timer keeps it")
	}
}

// manyReplies makes replies larger than a socket's buffer.
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

// TestSlowReaderGetsAllInOrder: afterwards the session is notified.
func TestSlowReaderGetsAllInOrder(t *testing.T) {
	e := newSocketEnd(t)
	files := openDescriptors(t)
	want := e.manyReplies()
	if _, behind := e.k.reactor.Connections(); e.k.Unsent() == 0 || behind != 1 {
		t.Fatalf("%d bytes unsent, %d behind", e.k.Unsent(), behind)
	}
	if more := openDescriptors(t) - files; more > 0 {
		t.Errorf("%d descriptors more", more)
	}
	e.k.loop.Event(e.k.s, func(s *session.Session) { s.Say("more") })
	if want = append(want, "more"...); !e.k.s.Stopped() {
		t.Fatal("the session continues although nothing is read")
	}
	all := e.reading()
	e.until(t, func() bool { return e.k.Unsent() == 0 })
	if _, behind := e.k.reactor.Connections(); e.k.s.Stopped() || behind != 0 {
		t.Error("the session is not notified")
	}
	e.k.Write([]byte("at once"))
	e.k.Close()
	if got := <-all; !bytes.Equal(got, append(want, "at once"...)) {
		t.Errorf("%d bytes came, want %d and their order", len(got), len(want))
	}
	e.nothing(t)
}

// TestSlowReaderThatGoes: its session is notified, before or after it is closed.
func TestSlowReaderThatGoes(t *testing.T) {
	for _, closed := range []bool{false, true} {
		e := newSocketEnd(t)
		e.manyReplies()
		if closed {
			e.k.loop.Event(e.k.s, func(s *session.Session) {
				s.Quit()
				s.Go()
			})
		}
		e.Close()
		e.until(t, func() bool { return e.k.fd < 0 })
		if !e.k.s.IsGone() || e.k.Unsent() != 0 || e.k.Pause() || e.k.Resume() {
			t.Errorf("gone %v, %d bytes unsent, or it is read again", e.k.s.IsGone(), e.k.Unsent())
		}
		e.k.Write([]byte("x"))
		e.nothing(t)
	}
}

// TestOneWatchOfAPausedConnection: repeated pauses start only one series of checks.
func TestOneWatchOfAPausedConnection(t *testing.T) {
	e := newSocketEnd(t)
	looks := make(chan func(), 100)
	e.k.reactor.afterFunc = func(d time.Duration, f func()) *time.Timer {
		if d != hangUpEvery {
			t.Errorf("a look after %v", d)
		}
		looks <- f
		return nil
	}
	for range 20 {
		e.k.watchHangUp()
	}
	if len(looks) != 1 {
		t.Fatalf("%d checks at the same time", len(looks))
	}
	(<-looks)()
	e.until(t, func() bool { return !e.k.pause.watched })
	if len(looks) != 0 {
		t.Error("a connection that is not paused is checked again")
	}
	e.k.watchHangUp()
	if len(looks) != 1 {
		t.Errorf("%d checks after that", len(looks))
	}
}
