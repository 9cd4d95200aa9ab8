package router

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
)

// A laneEnd is the client's side of a lane under test, and what it told.
type laneEnd struct {
	net.Conn
	lane    *lane
	emptied int
	ended   bool
}

// newLaneEnd must be called in a synctest bubble, which fails if the lane's
// goroutine is left at the end. What is counted may be read after
// synctest.Wait.
func newLaneEnd(first string, stay bool) *laneEnd {
	ours, theirs := net.Pipe()
	e := &laneEnd{Conn: theirs}
	e.lane = newLane(ours, nil, []byte(first), false, stay, func() { e.emptied++ }, func(heir, failed bool) { e.ended = true })
	go e.lane.run()
	return e
}

func (e *laneEnd) reads(t *testing.T, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(e, b); err != nil || string(b) != want {
		t.Fatalf("read %q, %v, want %q", b, err, want)
	}
	synctest.Wait()
}

func (e *laneEnd) readsEOF(t *testing.T) {
	t.Helper()
	if n, err := e.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("read %d bytes, %v, want EOF", n, err)
	}
	synctest.Wait()
}

func TestLaneKeepsOrderForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newLaneEnd("first ", false)
		synctest.Wait()
		for _, p := range []string{"second ", "", "third "} {
			if !e.lane.add([]byte(p), false) {
				t.Fatal("over while bytes are unsent")
			}
		}
		if n := e.lane.len(); n != len("first second third ") || e.emptied != 0 {
			t.Errorf("%d bytes unsent, emptied %d times", n, e.emptied)
		}
		e.reads(t, "first second third ")
		if e.emptied != 1 && e.emptied != 2 || !e.ended || e.lane.len() != 0 {
			t.Errorf("emptied %d times, ended %v, %d bytes unsent", e.emptied, e.ended, e.lane.len())
		}
		if e.lane.add([]byte("x"), false) || e.lane.keep() {
			t.Error("takes bytes when it is over")
		}
		e.readsEOF(t)
	})
}

// What the socket takes at once needs no goroutine, and never overtakes what waits.
func TestLaneWritesWhatTheSocketTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newLaneEnd("", true)
		var direct bytes.Buffer
		takes := 5
		e.lane.direct = func(p []byte) (int, error) {
			if takes == 0 {
				return -1, io.ErrShortWrite
			}
			n := min(takes, len(p))
			takes -= n
			return direct.Write(p[:n])
		}
		for _, p := range []string{"ab", "cd", "ef", "gh"} {
			if !e.lane.write([]byte(p), false) {
				t.Fatal("over while it stays")
			}
		}
		takes = 9
		e.lane.write([]byte("ij"), false) // "fgh" waits
		if direct.String() != "abcde" || e.lane.len() != len("fghij") {
			t.Errorf("%q at once, %d bytes wait", &direct, e.lane.len())
		}
		e.reads(t, "fghij")
		e.lane.write([]byte("kl"), false)
		e.lane.add([]byte("mn"), false)
		e.reads(t, "mn")
		if direct.String() != "abcdekl" {
			t.Errorf("%q at once", &direct)
		}
		e.lane.drop()
		synctest.Wait()
		if e.lane.write([]byte("o"), false) || direct.String() != "abcdekl" {
			t.Error("written when it was over")
		}
	})
}

// TestLaneThatStays tells each time it is empty, and ends when it is finished.
func TestLaneThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newLaneEnd("", true)
		synctest.Wait()
		if e.ended {
			t.Fatal("ended at once")
		}
		for i := range 3 {
			was := e.emptied
			e.lane.add([]byte("hello"), false)
			if synctest.Wait(); e.emptied != was {
				t.Error("empty before anybody read")
			}
			e.reads(t, "hello")
			if e.emptied != was+1 || e.ended {
				t.Errorf("round %d: emptied %d times, ended %v", i, e.emptied, e.ended)
			}
		}
		e.lane.add([]byte("last"), false)
		e.lane.finish()
		if synctest.Wait(); e.ended {
			t.Error("ended with bytes unsent")
		}
		e.reads(t, "last")
		e.readsEOF(t)
		if !e.ended {
			t.Error("not ended")
		}
	})
}

func TestLaneFinishedWhileEmptyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newLaneEnd("", true)
		synctest.Wait()
		e.lane.finish()
		e.readsEOF(t)
		if !e.ended || e.lane.add([]byte("x"), false) {
			t.Error("not over")
		}
	})
}

// TestLaneKept: the congestion that began before the half-close becomes the
// lane for what follows it.
func TestLaneKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newLaneEnd("before ", false)
		if !e.lane.keep() {
			t.Fatal("over at once")
		}
		e.reads(t, "before ")
		if e.ended {
			t.Fatal("ended although kept")
		}
		if !e.lane.add([]byte("after"), false) {
			t.Fatal("takes no more")
		}
		e.reads(t, "after")
		e.lane.finish()
		e.readsEOF(t)
	})
}

func TestLaneDroppedEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newLaneEnd(string(bytes.Repeat([]byte("x"), 1<<20)), true)
		e.reads(t, "xxx")
		e.lane.add([]byte("more"), false)
		e.lane.drop()
		synctest.Wait()
		if !e.ended || e.lane.len() != 0 || e.lane.add([]byte("x"), false) {
			t.Errorf("ended %v, %d bytes unsent", e.ended, e.lane.len())
		}
	})
}

// TestLaneEndsWithItsClient: a write that fails ends the lane, which does not
// say that all is sent: the session is to be aborted, not to go on.
func TestLaneEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newLaneEnd("to nobody", true)
		e.lane.add([]byte("neither"), false)
		e.Close()
		synctest.Wait()
		if !e.ended || e.emptied != 0 || e.lane.len() != 0 || e.lane.add([]byte("x"), false) {
			t.Errorf("ended %v, emptied %d times, %d bytes unsent", e.ended, e.emptied, e.lane.len())
		}
	})
}

// TestLaneInheritsTheConnection: whether it stands for the connection is what
// its end tells; a lane that is over inherits nothing.
func TestLaneInheritsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		var heirs []bool
		n := newLane(ours, nil, []byte("x"), false, true, func() {}, func(heir, failed bool) { heirs = append(heirs, heir) })
		go n.run()
		if !n.inherit() {
			t.Fatal("over at once")
		}
		n.finish()
		if _, err := io.ReadFull(theirs, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(heirs) != 1 || !heirs[0] || n.inherit() {
			t.Errorf("ends told %v", heirs)
		}
	})
}
