package session

import (
	"strings"
	"testing"
)

func TestIsForeign(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, tt := range []struct {
		line string
		cut  bool
		want bool
	}{
		{"GET / HTTP/1.1\r\n", false, true},
		{"POST / HTTP/1.1", false, true},
		{"POST /a?b=c%20d HTTP/1.0\r\n", false, true},
		{"POST / HTTP/1.1\nHost: x\r\n", false, true},
		{"OPTIONS * HTTP/1.1\r\n", false, true},
		{"CONNECT example.org:443 HTTP/1.1\r\n", false, true},
		{"PRI * HTTP/2.0\r\n", false, true},
		{"put /x HTTP/1.1\r\n", false, true},
		{"status / HTTP/1.1\r\n", false, true},
		{"POST /a b HTTP/1.1 \r\n", false, true},
		{"M-SEARCH * HTTP/1.1\r\n", false, true},
		{"POST /" + long, true, true},
		{"POST http://x/" + long, true, true},
		{"use /" + long, true, true},
		{"use http://x/" + long, true, true},
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", false, true},
		{"\x16\x03\x01\x02\x00\n", true, true},

		{"", false, false},
		{"\r\n", false, false},
		{" GET / HTTP/1.1\r\n", false, false}, // not a request line: HTTP servers refuse it, too
		{"GET\r\n", false, false},
		{"GET / \r\n", false, false},
		{"HTTP/1.1\r\n", false, false},
		{"use HTTP\r\n", false, false},
		{"use HTTP/1.1\r\n", false, false},
		{"create function HTTP/1.1\r\n", false, false},
		{"drop function HTTP/\n", false, false},
		{"put 0 0 60 3\r\nGET / HTTP/1.1\r\n", false, false},
		{"put 0 0 60 3\nGET / HTTP/1.1\n", false, false},
		{"stats\r\n", false, false},
		{"status\n", false, false},
		{"cancel job HTTP/1.1\n", false, false},
		{"\x16\n", false, false},
		{"\x16", false, false},
		{long, true, false},
		{"use " + long, true, false},
		{"put 0 0 60 " + strings.Repeat("1", 300), true, false},
		{strings.Repeat(" ", 300), true, false},
		{"stats-tube " + strings.Repeat(" ", 300), true, false},
	} {
		if got := IsForeign([]byte(tt.line), tt.cut); got != tt.want {
			t.Errorf("%.40q, cut %t: %t", tt.line, tt.cut, got)
		}
	}
}
