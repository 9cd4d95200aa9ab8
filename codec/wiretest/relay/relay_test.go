package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// ample is how long a test waits for what must come, a while for what must not.
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

// wantReset connects and is reset, perhaps before it knows that it is connected.
func wantReset(t *testing.T, r *Relay) {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr())
	if err == nil {
		defer c.Close()
		c.SetReadDeadline(time.Now().Add(ample))
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection ends by %v, want a reset", err)
	}
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
	r, a, b := open(t)
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
	if n := r.Bytes(Out); n != int64(len(sent)) {
		t.Errorf("counted %d bytes, want %d", n, len(sent))
	}
	b.Close()
	if rest, err := io.ReadAll(a); len(rest) > 0 || err != nil {
		t.Errorf("read %q, %v behind the end", rest, err)
	}
	for end := time.Now().Add(ample); r.Connections() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a connection that has ended is still counted")
		}
	}
}

func TestHeldDirectionComesLate(t *testing.T) {
	for _, held := range []Direction{Out, Back} {
		t.Run(held.String(), func(t *testing.T) {
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
			r.Pass(held)
			hear(t, b, "kept")
			if n, err := b.Read(make([]byte, 1)); n > 0 || err != io.EOF {
				t.Errorf("read %d, %v, want the end", n, err)
			}
		})
	}
}

func TestHeldResetComesLate(t *testing.T) {
	r, a, b := open(t)
	r.Hold()
	a.SetLinger(0)
	a.Close()
	hearNothing(t, b)
	r.Heal()
	b.SetReadDeadline(time.Now().Add(ample))
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: %v, want a reset", err)
	}
}

func TestDelayedArrivesLate(t *testing.T) {
	r, a, b := open(t)
	r.Delay(time.Hour, Out)
	say(t, a, "late")
	hearNothing(t, b)
	r.Delay(while, Out)
	hear(t, b, "late")
	begun := time.Now()
	say(t, a, "later")
	hear(t, b, "later")
	if d := time.Since(begun); d < while {
		t.Errorf("took %v, want at least %v", d, while)
	}
}

func TestResetReachesBothEnds(t *testing.T) {
	r, a, b := open(t)
	say(t, a, "there")
	hear(t, b, "there")
	if n := r.Reset(); n != 1 {
		t.Fatalf("%d connections were reset, want 1", n)
	}
	for _, c := range []net.Conn{a, b} {
		c.SetReadDeadline(time.Now().Add(ample))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v, want a reset", err)
		}
	}
}

func TestRefusedIsReset(t *testing.T) {
	r, a, b := open(t)
	r.Refuse(true)
	wantReset(t, r)
	say(t, a, "the open one goes on")
	hear(t, b, "the open one goes on")
}

func TestHeldConnectionsAreMadeLater(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := Listen("127.0.0.1:0", "127.0.0.1:1")
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
	r.SetTarget(l.Addr().String())
	r.Pass(Out)
	l.(*net.TCPListener).SetDeadline(time.Now().Add(ample))
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	hear(t, b, "hello")
}

func TestTargetThatIsNotThereResets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	r, err := Listen("127.0.0.1:0", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	wantReset(t, r)
}

func TestFlapEndsHealed(t *testing.T) {
	r, a, b := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.Flap(ctx, time.Millisecond, time.Millisecond)
	}()
	for range 50 {
		say(t, a, "through")
		hear(t, b, "through")
	}
	cancel()
	<-over
	say(t, a, "after")
	hear(t, b, "after")
}

func TestCloseEndsWhatIsHeld(t *testing.T) {
	r, a, b := open(t)
	say(t, a, "there")
	hear(t, b, "there")
	r.Hold()
	r.Delay(time.Hour)
	say(t, a, "never")
	if err := r.Close(); err != nil { // it waits for all that the relay has started
		t.Fatal(err)
	}
	b.SetReadDeadline(time.Now().Add(ample))
	if n, err := b.Read(make([]byte, 1)); n > 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %d bytes, %v, want a reset", n, err)
	}
}
