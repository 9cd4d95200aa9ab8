package beanstalkd

import (
	"bytes"
	"strings"
	"testing"
)

var replyTable = []struct {
	in   string
	kind kind
	num  uint64
	body string
}{
	{"INSERTED 1\r\n", kindInserted, 1, ""},
	{"INSERTED 18446744073709551615\r\n", kindInserted, 1<<64 - 1, ""},
	{"RESERVED 7 5\r\nhello\r\n", kindReserved, 7, "hello"},
	{"RESERVED 7 0\r\n\r\n", kindReserved, 7, ""},
	{"RESERVED 7 6\r\na\r\nb\r\n\r\n", kindReserved, 7, "a\r\nb\r\n"},
	{"OK 4\r\n---\n\r\n", kindOK, 0, "---\n"},
	{"DELETED\r\n", kindDeleted, 0, ""},
	{"USING a-b\r\n", kindUsing, 0, ""},
	{"WATCHING 12\r\n", kindWatching, 12, ""},
	{"TIMED_OUT\r\n", kindTimedOut, 0, ""},
	{"DEADLINE_SOON\r\n", kindDeadlineSoon, 0, ""},
	{"NOT_FOUND\r\n", kindNotFound, 0, ""},
	{"RELEASED\r\n", kindReleased, 0, ""},
	{"BURIED\r\n", kindBuried, 0, ""},
	{"BURIED 4\r\n", kindBuried, 0, ""},
	{"OUT_OF_MEMORY\r\n", kindOther, 0, ""},
	{"UNKNOWN_COMMAND\r\n", kindOther, 0, ""},
	{"\r\n", kindOther, 0, ""},
}

func TestParseReply(t *testing.T) {
	for _, c := range replyTable {
		var r reply
		in := []byte(c.in + "DELETED\r\n") // what follows must not matter
		n, _, err := parseReply(in, &r)
		if err != nil || n != len(c.in) || r.kind != c.kind || r.num != c.num || string(r.body) != c.body {
			t.Errorf("%q: n %d, %v %d %q, %v", c.in, n, r.kind, r.num, r.body, err)
		}
		for cut := range len(c.in) {
			n, want, err := parseReply([]byte(c.in[:cut]), &r)
			if n != 0 || err != nil || want <= cut || want > len(c.in) {
				t.Errorf("%q cut to %d bytes: n %d, wants %d, %v", c.in, cut, n, want, err)
			}
		}
	}
}

func TestParseReplyRefuses(t *testing.T) {
	for _, in := range []string{
		"INSERTED\r\n", "INSERTED \r\n", "INSERTED x\r\n", "INSERTED -1\r\n", "INSERTED 18446744073709551616\r\n",
		"RESERVED 1\r\n", "RESERVED 1 x\r\n", "RESERVED 1 2 3\r\n", "RESERVED 1 99999999999\r\n", "RESERVED 1 1\r\nabcd",
		"OK\r\n", "OK -1\r\n", "OK 1\r\nab\r\n", "DELETED 1\r\n", "USING \r\n", "WATCHING\r\n", "TIMED_OUT x\r\n",
		"INSERTED\r1\r\n", strings.Repeat("A", maxLine+1),
	} {
		var r reply
		if n, _, err := parseReply([]byte(in), &r); err == nil {
			t.Errorf("%q passed: n %d, %+v", in, n, r)
		}
	}
}

func FuzzParseReply(f *testing.F) {
	for _, c := range replyTable {
		f.Add([]byte(c.in))
	}
	f.Add([]byte("RESERVED 1 3\r\nabc"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var r, again reply
		n, want, err := parseReply(in, &r)
		if n < 0 || n > len(in) || (n > 0 && err != nil) || (n == 0 && err == nil && want <= len(in)) {
			t.Fatalf("n %d, wants %d, %v", n, want, err)
		}
		if n == 0 {
			return
		}
		m, _, err := parseReply(in[:n], &again)
		if m != n || err != nil || again.kind != r.kind || again.num != r.num || !bytes.Equal(again.body, r.body) {
			t.Fatalf("alone it reads as %+v (%d, %v), before more bytes as %+v (%d)", again, m, err, r, n)
		}
	})
}
