package relay

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// ample bounds the wait for an event that must come, a while the wait for one that must not.
const (
	ample = 30 * time.Second
	while = 50 * time.Millisecond
)

// open is a relay with a connection through it: its two ends.
func open(t *testing.T) (r *Relay, dialer, target *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if r, err = Listen("127.0.0.1:0", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	dialer = dial(t, r)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return r, dialer, c.(*net.TCPConn)
}

func dial(t *testing.T, r *Relay) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	c.SetReadDeadline(time.Now().Add(ample))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("read %q, %v, want %q", b, err, want)
	}
}

func hearNothing(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(while))
	if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v, want nothing", n, err)
	}
}

func TestBytesArriveUnchanged(t *testing.T) {
	_, a, b := open(t)
	sent := make([]byte, 5<<20)
	source := rand.NewChaCha8([32]byte{1})
	source.Read(sent)
	go func() {
		a.Write(sent)
		a.CloseWrite()
	}()
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes of %d arrived, %v; or others", len(got), len(sent), err)
	}
	say(t, b, "half-closed is not closed")
	hear(t, a, "half-closed is not closed")
	b.Close()
	if rest, err := io.ReadAll(a); len(rest) > 0 || err != nil {
		t.Errorf("read %q, %v after the end", rest, err)
	}
}

func TestHeldDirectionComesLate(t *testing.T) {
	for _, held := range []direction{Out, Back} {
		t.Run(map[direction]string{Out: "out", Back: "back"}[held], func(t *testing.T) {
			r, a, b := open(t)
			if held == Back {
				a, b = b, a
			}
			r.Hold(held)
			say(t, a, "kept")
			a.CloseWrite()
			hearNothing(t, b)
			say(t, b, "the other way is free")
			hear(t, a, "the other way is free")
			r.Pass()
			hear(t, b, "kept")
			if n, err := b.Read(make([]byte, 1)); n > 0 || err != io.EOF {
				t.Errorf("read %d, %v, want the end", n, err)
			}
		})
	}
}

func TestHeldResetComesLate(t *testing.T) {
	r, a, b := open(t)
	r.Hold(Out)
	r.Hold(Back)
	a.SetLinger(0)
	a.Close()
	hearNothing(t, b)
	r.Pass()
	b.SetReadDeadline(time.Now().Add(ample))
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: %v, want a reset", err)
	}
}

func TestResetReachesBothEnds(t *testing.T) {
	r, a, b := open(t)
	say(t, a, "there")
	hear(t, b, "there")
	r.Reset()
	for _, c := range []net.Conn{a, b} {
		c.SetReadDeadline(time.Now().Add(ample))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v, want a reset", err)
		}
	}
}

func TestHeldConnectionsAreMadeLater(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := Listen("127.0.0.1:0", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.Hold(Out)
	a := dial(t, r)
	say(t, a, "hello")
	l.(*net.TCPListener).SetDeadline(time.Now().Add(while))
	if c, err := l.Accept(); err == nil {
		c.Close()
		t.Fatal("a connection was made through a relay that is held")
	}
	r.Pass()
	l.(*net.TCPListener).SetDeadline(time.Now().Add(ample))
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	hear(t, b, "hello")
}

func TestCloseEndsWhatIsHeld(t *testing.T) {
	r, a, b := open(t)
	say(t, a, "there")
	hear(t, b, "there")
	r.Hold(Out)
	r.Hold(Back)
	say(t, a, "never")
	if err := r.Close(); err != nil { // it waits for all goroutines of the relay
		t.Fatal(err)
	}
	b.SetReadDeadline(time.Now().Add(ample))
	if n, err := b.Read(make([]byte, 1)); n > 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %d bytes, %v, want a reset", n, err)
	}
}
