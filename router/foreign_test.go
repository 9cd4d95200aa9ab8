package router_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/session"
)

// A web page can make a browser send these openings. The server must not treat their lines as
// commands.
var foreignOpenings = []string{
	"POST / HTTP/1.1\r\nHost: localhost:11300\r\nContent-Length: 9\r\n\r\nput 0 0 60 1\r\nx\r\nshutdown\nstatus\n",
	"POST /" + strings.Repeat("x", 1000) + " HTTP/1.1\r\n\r\nput 0 0 60 1\r\nx\r\nshutdown\nstatus\n",
	"status / HTTP/1.1\r\n\r\nput 0 0 60 1\r\nx\r\nshutdown\n",
	"put /1 HTTP/1.1\r\n\r\nput 0 0 60 1\r\nx\r\nshutdown\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"PROXY TCP4 10.0.0.1 10.0.0.2 4242 11300\r\nput 0 0 60 1\r\nx\r\nshutdown\n",
	"PROXY UNKNOWN\r\nput 0 0 60 1\r\nx\r\nshutdown\n",
	"\x16\x03\x01\x00",
	"\x16\x03\x01\x02\x00 id\r\nput 0 0 60 1\r\nx\r\nshutdown\n\r\n",
}

func TestForeignFirstLineCloses(t *testing.T) {
	for _, opening := range foreignOpenings {
		for _, size := range []int{1, 7, len(opening)} {
			var log bytes.Buffer
			f := newFixture(t, router.Config{Shards: 4, Log: slog.New(slog.NewTextHandler(&log, nil))})
			for _, c := range []*testConn{f.open(), f.openGear()} {
				for at := 0; at < len(opening); at += size {
					c.send(opening[at:min(at+size, len(opening))])
				}
				f.rest()
				if got := c.take(); got != "" || !c.closed || !c.s.Gone() {
					t.Errorf("%.20q in pieces of %d: answered %.80q, closed %t", opening, size, got, c.closed)
				}
			}
			b := f.open()
			b.says("peek-ready\n", "NOT_FOUND\n")
			if !strings.Contains(log.String(), "HTTP or TLS") || !strings.Contains(log.String(), "conn=") {
				t.Errorf("the log has no line: %s", &log)
			}
			f.check()
		}
	}
}

// TestHeaderOfNoBalancerCloses: the header begins with an empty line, which alone is a command.
func TestHeaderOfNoBalancerCloses(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	for _, c := range []*testConn{f.open(), f.openGear()} {
		c.send(session.ProxySignature + "\x20\x00\x00\x00put 0 0 60 1\r\nx\r\nshutdown\n")
		f.rest()
		if got := c.take(); got != "" || !c.closed || !c.s.Gone() {
			t.Errorf("answered %.80q, closed %t", got, c.closed)
		}
	}
	f.check()
}

// TestForeignLineBehindAnotherIsAnswered: only the first line is checked, because a job's body may
// contain a request line.
func TestForeignLineBehindAnotherIsAnswered(t *testing.T) {
	f := newFixture(t, router.Config{Shards: 4})
	for _, first := range []string{"use t\n", "bogus\n", "\n", "put 0 0 60 x\n"} {
		c := f.open()
		c.send(strings.ReplaceAll(first, "\n", "\r\n"))
		f.rest()
		c.take()
		c.says("POST / HTTP/1.1\nuse u\n", "UNKNOWN_COMMAND\nUSING u\n")
	}
	c := f.open()
	c.says("put 0 0 60 17\nPOST / HTTP/1.1\n\n", "INSERTED 1\n")
	c = f.open()
	c.says("use HTTP/1.1\n", "USING HTTP/1.1\n")

	for _, first := range []string{packet(gearman.CanDo, "f"), "bogus\n", packet(gearman.SubmitJobBG, "f", "", "POST / HTTP/1.1\r\n\r\n")} {
		c := f.openGear()
		c.send(first)
		f.rest()
		c.take()
		c.asks("GET / HTTP/1.1\r\n", "ERR UNKNOWN_COMMAND Unknown+server+commandGET\r\n")
	}
	f.check()
}

// TestComplaintsNameTheClient: warnings name the client, or the address of the listener.
func TestComplaintsNameTheClient(t *testing.T) {
	names, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for call := range strings.SplitSeq(string(text), ".Complain(") {
			if call, _, _ = strings.Cut(call, ")\n"); strings.Contains(call, `"conn"`) || strings.Contains(call, `"addr"`) {
				found++
			} else if !strings.HasPrefix(call, "// ") && !strings.HasPrefix(call, "package ") && !strings.HasPrefix(call, "//go:") {
				t.Errorf("%s: a warning names no client: %.80q", name, call)
			}
		}
	}
	if found < 12 {
		t.Errorf("%d complaints found", found)
	}
}
