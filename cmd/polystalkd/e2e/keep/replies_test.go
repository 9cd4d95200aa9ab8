package keep

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// TestPipelinedRepliesKeepTheirOrder: commands that wait for the disk and such
// that do not, mixed on one connection, are answered in their order.
func TestPipelinedRepliesKeepTheirOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, shards := range []string{"1", "16"} {
		t.Run("shards="+shards, func(t *testing.T) {
			s := startKept(t, t.TempDir(), "-s", "1000000", "--shards", shards)
			var wg sync.WaitGroup
			for n := range 4 {
				wg.Go(func() { keepsOrder(t, s, n) })
			}
			wg.Wait()
		})
	}
}

func keepsOrder(t *testing.T, s *conversation.Server, n int) {
	c, err := conversation.Dial("tcp", s.Address)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	large := strings.Repeat("L", 30_000)
	tube := fmt.Sprintf("order-%d", n)
	if reply, err := c.Ask("use " + tube + "\r\n"); err != nil || string(reply) != "USING "+tube+"\r\n" {
		t.Errorf("%q, %v", reply, err)
		return
	}
	for round := range 40 {
		// Each put is looked at, changed and deleted by commands sent in the same
		// breath: the ids go up by one for each put of anybody, so ours are asked
		// for by their place in the tube.
		var ask bytes.Buffer
		var want []string
		for i := range 8 {
			body := fmt.Sprintf("%d.%d.%d", n, round, i)
			if i == 5 {
				body += large
			}
			fmt.Fprintf(&ask, "put %d 0 100 %d\r\n%s\r\npeek-ready\r\nlist-tube-used\r\nstats-tube %s\r\npeek 999999999\r\n", 100-i, len(body), body, tube)
			want = append(want, "INSERTED ", "FOUND *\r\n"+body+"\r\n", "USING "+tube+"\r\n", "OK ", "NOT_FOUND\r\n")
		}
		fed := daemon.Feed(c, ask.Bytes())
		var ids []string
		for k, w := range want {
			reply, err := c.Reply(conversation.Patience)
			got := string(reply)
			head, body, _ := strings.Cut(got, "\r\n")
			words := strings.Fields(head)
			if strings.HasPrefix(w, "FOUND *") && len(words) == 3 && words[0] == "FOUND" && words[1] == ids[len(ids)-1] {
				got = "FOUND *\r\n" + body
			}
			if strings.HasSuffix(w, "\r\n") && got != w || !strings.HasPrefix(got, w) || err != nil {
				t.Errorf("round %d, reply %d: got %.60q (%v), want %.60q", round, k, got, err, w)
				return
			}
			if words[0] == "INSERTED" {
				ids = append(ids, words[1])
			}
			if words[0] == "OK" {
				if n := fields(got)["current-jobs-ready"]; n != fmt.Sprint(len(ids)) {
					t.Errorf("round %d: %s jobs after %d puts", round, n, len(ids))
				}
			}
		}
		if err := <-fed; err != nil {
			t.Error(err)
			return
		}
		// Deletes, and what may not overtake them.
		ask.Reset()
		for i, id := range ids {
			fmt.Fprintf(&ask, "reserve-job %s\r\nrelease %s 7 0\r\ndelete %s\r\npeek %s\r\n", id, id, id, id)
			if i == len(ids)-1 {
				fmt.Fprintf(&ask, "peek-ready\r\n")
			}
		}
		fed = daemon.Feed(c, ask.Bytes())
		for _, id := range ids {
			for _, w := range []string{"RESERVED " + id + " ", "RELEASED\r\n", "DELETED\r\n", "NOT_FOUND\r\n"} {
				if reply, err := c.Reply(conversation.Patience); err != nil || !strings.HasPrefix(string(reply), w) {
					t.Errorf("round %d, job %s: got %.60q (%v), want %q", round, id, reply, err, w)
					return
				}
			}
		}
		if reply, err := c.Reply(conversation.Patience); err != nil || string(reply) != "NOT_FOUND\r\n" {
			t.Errorf("round %d: at the end %.60q, %v", round, reply, err)
			return
		}
		<-fed
	}
}

// TestReservedIsDurable: who waits gets a job only if its put cannot vanish.
func TestReservedIsDurable(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	dir := t.TempDir()
	for round := range 6 {
		s := startKept(t, dir, "-s", "300000")
		var mu sync.Mutex
		got := make(map[string]bool)
		var wg sync.WaitGroup
		for range 4 {
			c := daemon.Client(t, s)
			wg.Go(func() {
				for {
					reply, err := c.Ask("reserve\r\n")
					if err != nil {
						return
					}
					_, body, _ := strings.Cut(string(reply), "\r\n")
					mu.Lock()
					got[body] = true
					if len(got) == 200 {
						s.Cmd.Process.Kill()
					}
					mu.Unlock()
				}
			})
		}
		for n := range 3 {
			c := daemon.Client(t, s)
			wg.Go(func() {
				for i := 0; ; i++ {
					body := fmt.Sprintf("%d of %d in %d", i, n, round)
					if c.Say(fmt.Appendf(nil, "put 0 0 1000 %d\r\n%s\r\n", len(body), body)) != nil {
						return
					}
					// Its own reply is of no interest; one put at a time would hide
					// a job that is given away before it is durable.
					if i%20 == 19 {
						for range 20 {
							if _, err := c.Reply(conversation.Patience); err != nil {
								return
							}
						}
					}
				}
			})
		}
		wg.Wait()
		daemon.Kill(s)
		s = startKept(t, dir)
		c := daemon.Client(t, s)
		there := make(map[string]bool)
		for {
			reply := daemon.MustAsk(t, c, "reserve-with-timeout 0\r\n")
			head, body, _ := strings.Cut(reply, "\r\n")
			if head == "TIMED_OUT" {
				break
			}
			there[body] = true
			daemon.Expect(t, c, "delete "+strings.Fields(head)[1]+"\r\n", "DELETED\r\n")
		}
		for body := range got {
			if !there[body] {
				t.Errorf("round %d: a client was given %q, and it is gone", round, body)
			}
		}
		daemon.Kill(s)
	}
}

// TestLeavingGetsAllAnswers: who says quit, or shuts down its sending side,
// right after puts hears of each.
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

	// Who shuts down its side while a reserve waits: what stands behind that is
	// run in the same turn as the end.
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

// TestPutsWithoutReading: a client sends 100,000 puts before it reads the first
// reply. What waits for it is bounded, and nothing is lost.
func TestPutsWithoutReading(t *testing.T) {
	dir := t.TempDir()
	s := startKept(t, dir, "-s", "2000000")
	c := daemon.Client(t, s)
	last := putN(t, c, 1000, "put 0 0 100 3\r\nabc\r\n")
	was := daemon.Memory(s)
	const n = 100_000
	fed := daemon.Feed(c, bytes.Repeat([]byte("put 0 0 100 3\r\nabc\r\n"), n))
	// The server reads on while the replies fit its way back; the rest stays in
	// the sockets.
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
