package router_test

import (
	"fmt"
	"strings"
	"testing"

	"polystalk/router"
	"polystalk/router/ops"
	"polystalk/router/session"
)

// TestSharedWordsOncePerTurn: for any number of commands at once, the words that all loops share, the
// counter of ids and a page's count of finished ids, are written once.
func TestSharedWordsOncePerTurn(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	c := f.open()
	lines := func(format string, from, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, from+i)
		}
		return b.String()
	}
	const n = 16
	for turn := range 100 {
		before, ends := f.counter(session.CountIDAdds), f.l.Loop.Ended.Adds()
		first := turn*n + 1
		c.says(strings.Repeat("put 0 0 9 1\nx\n", n), lines("INSERTED %d\n", first, n))
		if got := f.counter(session.CountIDAdds) - before; got != 1 {
			t.Fatalf("%d puts at once wrote the counter %d times", n, got)
		}
		c.says(lines("delete %d\n", first, n), strings.Repeat("DELETED\n", n))
		if got := f.l.Loop.Ended.Adds() - ends; got > 2 { // two pages
			t.Fatalf("%d deletes at once wrote counts %d times", n, got)
		}
	}
	if got := f.l.Loop.Ended.Adds(); got > 100*n/ops.PageIDs+1 {
		t.Errorf("%d ids in pages of %d wrote their counts %d times", 100*n, ops.PageIDs, got)
	}
	f.check()
}

// TestIDsOfPutsThatDidNotRun: commands that could not run in a turn have no ids yet, as in a server
// that reads line by line. Lines that never become jobs use ids only where beanstalkd would. B puts
// after the turn of A.
func TestIDsOfPutsThatDidNotRun(t *testing.T) {
	put := "put 0 0 9 1\nx\n"
	for _, tc := range []struct {
		name, send string
		b          int
		a          string // the output of A
	}{
		{"the first put waits for its shard", put + put + put, 2, "INSERTED 1\nINSERTED 3\nINSERTED 4\n"},
		{"a reserve that waits", "reserve\n" + put + put, 1, ""},
		{"a use that waits", "use other\n" + put + put, 1, "USING other\nINSERTED 2\nINSERTED 3\n"},
		{"quit", put + "quit\n" + put + put, 2, "INSERTED 1\n"},
		{"a bad line", put + "put 0 0\n" + put, 2, "INSERTED 1\nBAD_FORMAT\nINSERTED 3\n"},
		{"a body that is too large", put + "put 0 0 9 11\n01234567890\n" + put, 2, "INSERTED 1\nJOB_TOO_BIG\nINSERTED 3\n"},
		{"a body without its end", put + "put 0 0 9 1\nxyz" + put, 2, "INSERTED 1\nEXPECTED_CRLF\nINSERTED 4\n"},
		{"half a body", put + put + "put 0 0 9 9\nx", 2, "INSERTED 1\nINSERTED 3\n"},
		{"half a line", put + put + "put 0 0 9", 2, "INSERTED 1\nINSERTED 3\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, router.Config{Shards: 4, MaxJobSize: 10})
			a, b := f.open(), f.open()
			other := f.tubeIn((f.d.ShardOf("default")+1)%4, 0)
			b.says("use "+other+"\n", "USING "+other+"\n")
			send := strings.ReplaceAll(tc.send, "other", f.tubeIn((f.d.ShardOf("default")+2)%4, 0))
			busy := f.own(f.d.ShardOf("default"))
			a.send(strings.ReplaceAll(send, "\n", "\r\n"))
			b.send("put 0 0 9 1\r\ny\r\n")
			b.wants(fmt.Sprintf("INSERTED %d\n", tc.b))
			busy()
			f.rest()
			a.wants(strings.ReplaceAll(tc.a, "other", f.tubeIn((f.d.ShardOf("default")+2)%4, 0)))
			f.check()
		})
	}
}

// TestIDsKeptForTheirLines: ids that cannot be returned, because another loop has taken some
// meanwhile, stay with their lines, and are finished if these lines never run.
func TestIDsKeptForTheirLines(t *testing.T) {
	for _, leave := range []bool{false, true} {
		f := newFixture(t, router.Config{Shards: 1, MaxJobSize: 60_000})
		a, b := f.open(), f.open()
		b.says("put 0 0 9 60000\n"+strings.Repeat("x", 60_000)+"\n", "INSERTED 1\n")
		// The replies are written in the middle of A's turn. At that time another loop puts, and
		// then owns the shard for a while.
		var busy func()
		a.onWrite = func() {
			if busy == nil {
				f.d.Server.Host().Map.IDs().Take(1)
				busy = f.own(0)
			}
		}
		put := "put 0 0 9 1\r\nx\r\n"
		a.send(put + strings.Repeat("peek 1\r\n", 8) + put + put)
		if busy == nil {
			t.Fatal("nothing was written within the turn")
		}
		if leave {
			a.s.Abort()
		}
		busy()
		f.rest()
		got := a.take()
		want := []string{"INSERTED 2\r\n", "INSERTED 3\r\nINSERTED 4\r\n"}
		if leave {
			want[1] = ""
		}
		if !strings.HasPrefix(got, want[0]) || !strings.HasSuffix(got, want[1]) || leave && strings.Count(got, "INSERTED") != 1 {
			t.Errorf("got %.20q … %.40q, want %q", got, got[max(0, len(got)-40):], want)
		}
		b.says(strings.ReplaceAll(put, "\r", ""), "INSERTED 6\n")
		f.check()
	}
}
