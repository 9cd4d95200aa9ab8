package process

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// TestLeavingGetsAllAnswers: a client that sends quit, or shuts down its sending side, right after
// puts gets a reply to each.
func TestLeavingGetsAllAnswers(t *testing.T) {
	s := startKept(t, t.TempDir(), "-s", "1000000")
	const n = 3000
	puts := bytes.Repeat([]byte("put 0 0 100 3\r\nabc\r\n"), n)
	answered := func(c *conversation.Client) {
		t.Helper()
		if got := strings.Count(hearOut(c), "INSERTED "); got != n {
			t.Errorf("%d of %d puts were answered", got, n)
		}
	}
	quits := daemon.Client(t, s)
	fed := daemon.Feed(quits, puts, []byte("quit\r\n"))
	answered(quits)
	<-fed

	half := daemon.Client(t, s)
	fed = daemon.Feed(half, puts)
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	if err := half.HalfClose(); err != nil {
		t.Fatal(err)
	}
	answered(half)
	daemon.AwaitStat(t, s, "current-jobs-ready", 2*n)
	daemon.AwaitStat(t, s, "current-connections", 0)

	// A client shuts down its sending side while a reserve waits: the commands after the reserve
	// run in the same turn as the end, and the replies keep their order.
	for range 20 {
		waits := daemon.Client(t, s)
		daemon.Expect(t, waits, "watch empty\r\n", "WATCHING 2\r\n")
		daemon.Expect(t, waits, "ignore default\r\n", "WATCHING 1\r\n")
		if err := waits.Say([]byte("reserve\r\nput 0 0 100 3\r\nabc\r\nlist-tube-used\r\n")); err != nil {
			t.Fatal(err)
		}
		daemon.AwaitStat(t, s, "current-waiting", 1)
		if err := waits.HalfClose(); err != nil {
			t.Fatal(err)
		}
		got := hearOut(waits)
		if !strings.HasPrefix(got, "TIMED_OUT\r\nINSERTED ") || !strings.HasSuffix(got, "USING default\r\n") {
			t.Fatalf("got %q", got)
		}
	}
}

// TestPutsWithoutReading: a client sends 100,000 puts before it reads the first reply. The server's
// memory for it is bounded, and nothing is lost.
func TestPutsWithoutReading(t *testing.T) {
	dir := t.TempDir()
	s := startKept(t, dir, "-s", "2000000")
	c := daemon.Client(t, s)
	last := putN(t, c, 1000, "put 0 0 100 3\r\nabc\r\n")
	was := daemon.Memory(s)
	const n = 100_000
	fed := daemon.Feed(c, bytes.Repeat([]byte("put 0 0 100 3\r\nabc\r\n"), n))
	// The server reads while there is room for the replies; the rest stays in the sockets.
	daemon.AwaitStat(t, s, "current-connections", 1)
	seen := uint64(0)
	for i := range uint64(n) {
		reply, err := c.Reply(conversation.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("INSERTED %d\r\n", last+1+i); string(reply) != want {
			t.Fatalf("got %q, want %q", reply, want)
		}
		seen++
	}
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	// A job of this size takes some 100 bytes.
	daemon.Bounded(t, s, was, 48<<20)
	daemon.Kill(s)
	s = startKept(t, dir, "-s", "2000000")
	daemon.AwaitStat(t, s, "current-jobs-ready", 1000+seen)
}
