package http

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	wire "polystalk/codec/admin"
)

// TestStreamsGoThrough a follower without delay, and end on the leader when the client disconnects,
// when its token is removed, and when the follower stops.
func TestStreamsGoThrough(t *testing.T) {
	long(t)
	p := newPair(t)
	stream := func(header ...string) *reading {
		t.Helper()
		r := p.follower.stream("topics=tubes", header...)
		expect(t, r.resp.Header.Get(wire.ServerHeader) == "n2" && r.resp.Close, "%v", r.resp)
		want[wire.TubesEvent](r, "tubes", nil)
		return r
	}
	r := stream()
	p.follower.do("POST", "/api/v1/tubes/fresh/jobs", ask{token: operateToken, header: octets, body: "x"}).wants(t, 201, "")
	want(r, "tubes", func(v *wire.TubesEvent) bool { return v.Tubes[0].Name == "fresh" })
	before := p.open.Load()
	r.conn.Close()
	await(t, "the stream has ended at the leader", func() bool { return p.open.Load() < before })
	r = stream("Authorization: Bearer " + readToken)
	noErr(t, os.WriteFile(p.follower.tokens, []byte(strings.ReplaceAll(tokenLines(), "reader read", "reader admin")), 0o600))
	noErr(t, p.follower.web.opts.Tokens.Reload())
	r.ends()
	r = stream()
	go p.follower.web.Stop(t.Context())
	r.ends()
	p.relay.SetLeader(3, "n3") // closes idle connections
	await(t, "nothing is under way", func() bool { return p.open.Load() == 0 })
}

// TestHeadsAndLargeBodiesGoThrough unchanged.
func TestHeadsAndLargeBodiesGoThrough(t *testing.T) {
	p := newPair(t)
	body := bytes.Repeat([]byte("0123456789abcdef"), 200<<10)
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
