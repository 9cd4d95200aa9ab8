package http

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
)

// Slow readers at a follower delay no other request. Their connections to the leader end with them.
func TestSlowReadersAtAFollower(t *testing.T) {
	p := newPair(t)
	large := strings.Repeat("x", 3<<20)
	octets := map[string]string{"Content-Type": "application/octet-stream"}
	for range 3 {
		p.follower.do("POST", "/api/v1/tubes/a/jobs", ask{token: operateToken, header: octets, body: large}).wants(t, 201, "").by(t, "n2")
	}
	var slow []net.Conn
	answered := 0
	for range 6 { // some may have to wait for a place, one after the other
		c, err := net.Dial("tcp", p.follower.addr)
		noErr(t, err)
		defer c.Close()
		c.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(c, "GET /api/v1/jobs?limit=1000&body=full HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", operateToken)
		c.SetReadDeadline(time.Now().Add(hangs))
		head := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(c, head); err != nil { // it is being answered
			t.Fatal(err)
		}
		if string(head) == "HTTP/1.1 200" {
			answered++
		}
		slow = append(slow, c)
	}
	// How long an answer occupies the leader depends on the sizes of the sockets' buffers.
	expect(t, answered >= 2, "%d of the slow readers are answered", answered)
	for range 3 {
		p.follower.do("GET", "/api/v1/tubes", ask{}).wants(t, 200, "").by(t, "n2")
		p.follower.do("POST", "/api/v1/tubes/b/jobs", ask{token: operateToken, header: octets, body: "x"}).wants(t, 201, "").by(t, "n2")
	}
	for _, c := range slow {
		c.Close()
	}
	p.settles(t)
}

// settles waits until no more connections are open to the leader than are kept for later.
func (p *pair) settles(t *testing.T) {
	t.Helper()
	p.relay.SetLeader(3, "n3") // so that none is kept
	await(t, "nothing is under way", func() bool { return p.open.Load() == 0 })
}

// events opens a stream of events at the follower.
func (p *pair) events(t *testing.T, token string) (res *http.Response, line func() string) {
	t.Helper()
	r, err := http.NewRequest("GET", p.follower.url+"/api/v1/events?topics=tubes", nil)
	noErr(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err = (&http.Client{}).Do(r)
	noErr(t, err)
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get(wire.ServerHeader) != "n2" || res.Header.Get("Content-Type") != "text/event-stream" {
		b, _ := io.ReadAll(res.Body)
		t.Fatalf("%v %s", res, b)
	}
	in := bufio.NewReader(res.Body)
	return res, func() string {
		late := time.AfterFunc(hangs, func() { res.Body.Close() })
		s, _ := in.ReadString('\n')
		expect(t, late.Stop(), "the stream goes on without a word")
		return s
	}
}

// TestStreamsGoThrough as they are made, and end at the leader when the client leaves, when its
// token is removed, and when the follower stops.
func TestStreamsGoThrough(t *testing.T) {
	long(t)
	p := newPair(t)
	first, line := p.events(t, "")
	tells := func(what string) {
		t.Helper()
		for {
			s := line()
			require(t, s != "", "the stream has ended without %q", what)
			if strings.Contains(s, what) {
				return
			}
		}
	}
	tells("event: tubes")
	octets := map[string]string{"Content-Type": "application/octet-stream"}
	p.follower.do("POST", "/api/v1/tubes/fresh/jobs", ask{token: operateToken, header: octets, body: "x"}).wants(t, 201, "")
	tells(`"fresh"`)
	before := p.open.Load()
	first.Body.Close()
	await(t, "the stream has ended at the leader", func() bool { return p.open.Load() < before })

	_, line = p.events(t, readToken)
	tells("event: tubes")
	noErr(t, os.WriteFile(p.follower.tokens, []byte(strings.ReplaceAll(tokenLines(), "reader read", "reader admin")), 0o600))
	noErr(t, p.follower.web.opts.Tokens.Reload())
	for line() != "" { // until its end
	}
	_, line = p.events(t, "")
	tells("event: tubes")
	go p.follower.web.Stop(t.Context())
	for line() != "" {
	}
	p.settles(t)
}

// TestHeadsAndLargeBodiesGoThrough unchanged.
func TestHeadsAndLargeBodiesGoThrough(t *testing.T) {
	p := newPair(t)
	body := bytes.Repeat([]byte("0123456789abcdef"), 200<<10)
	octets := map[string]string{"Content-Type": "application/octet-stream"}
	p.follower.do("POST", "/api/v1/tubes/a/jobs", ask{token: operateToken, header: octets, body: string(body)}).wants(t, 201, "")
	if a := p.follower.do("GET", "/api/v1/jobs/1/body", ask{token: operateToken}).wants(t, 200, ""); a.body != string(body) {
		t.Errorf("%d bytes come back, or others", len(a.body))
	}
	a := p.follower.do("HEAD", "/api/v1/jobs/1/body", ask{token: operateToken}).wants(t, 200, "").by(t, "n2")
	expect(t, a.body == "" && a.header.Get("Content-Length") == fmt.Sprint(len(body)), "%q %v", a.body, a.header)
	p.follower.do("HEAD", "/api/v1/events?topics=tubes", ask{}).wants(t, 200, "").by(t, "n2")
	p.follower.do("POST", "/api/v1/tubes/a/jobs", ask{token: operateToken, header: octets, body: strings.Repeat("x", 8<<20)}).wants(t, 413, "too-large").by(t, "")
	named := map[string]string{"Idempotency-Key": "k", "Content-Type": "application/octet-stream"}
	one := p.follower.do("POST", "/api/v1/tubes/a/jobs", ask{token: operateToken, header: named, body: "x"}).wants(t, 201, "")
	two := p.follower.do("POST", "/api/v1/tubes/a/jobs", ask{token: operateToken, header: named, body: "x"}).wants(t, 201, "")
	expect(t, one.body == two.body && two.header.Get("Idempotency-Replayed") == "true", "a request with a key is done twice: %s %s", one.body, two.body)
}
