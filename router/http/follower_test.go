package http

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/cluster/forward"
	"polystalk/shard/commit"
)

// A pair is a follower and its leader.
type pair struct {
	follower, leader *world
	cluster          *fakeCluster // as the follower sees it
	relay            *forward.Relay
	door             string // address at which the leader serves the follower
	open             atomic.Int64
}

// tallied counts a connection while it is open.
type tallied struct {
	net.Conn
	of     *atomic.Int64
	closed atomic.Bool
}

func (c *tallied) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.of.Add(-1)
	}
	return c.Conn.Close()
}

// clusterAccess is the access file of both servers: clients without a token have the role read.
func clusterAccess() string { return accessText() + "[identity.default]\nrole = \"read\"\n" }

// newPair makes a leader and a follower, with the same access file.
func newPair(t *testing.T) *pair {
	t.Helper()
	return pairOf(t, setup{access: clusterAccess(), maxJob: 4 << 20})
}

func pairOf(t *testing.T, with setup) *pair {
	t.Helper()
	p := &pair{cluster: newFakeCluster()}
	p.leader = newWorld(t, with)
	p.door = p.leader.listen(Door{Callers: true})
	p.relay = forward.NewRelay(forward.RelayOptions{Self: 1, Open: func(ctx context.Context, node uint64) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", p.door)
		if err != nil {
			return nil, err
		}
		p.open.Add(1)
		return &tallied{Conn: c, of: &p.open}, nil
	}})
	t.Cleanup(p.relay.Close)
	p.follower = followerOf(t, p.cluster, p.relay, with)
	p.lead("n2")
	return p
}

// lead tells the follower the name of the leader.
func (p *pair) lead(name string) {
	p.cluster.set("follower", &name)
	p.relay.SetLeader(2, name)
}

// newFollower starts a follower.
func newFollower(t *testing.T, k *fakeCluster, to Elsewhere) *world {
	t.Helper()
	return followerOf(t, k, to, setup{access: clusterAccess(), maxJob: 4 << 20})
}

func followerOf(t *testing.T, k *fakeCluster, to Elsewhere, with setup) *world {
	t.Helper()
	k.set("follower", nil)
	with.cluster, with.dir, with.unstarted, with.options = k, t.TempDir(), true, func(o *Options) { o.Elsewhere = to }
	w := newWorld(t, with)
	_, err := w.srv.Follow()
	noErr(t, err)
	t.Cleanup(func() { w.srv.Shutdown(context.Background()) })
	return w
}

// listen serves another listener, and returns its address.
func (w *world) listen(d Door) string {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(w.t, err)
	go w.web.Serve(l, d)
	return l.Addr().String()
}

// await waits until a condition is true.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(hangs); !is(); time.Sleep(time.Millisecond) {
		require(t, !time.Now().After(end), "it never came to be that %s", what)
	}
}

// by fails the test unless the answer names this leader; empty: the asked server itself answers.
func (a *answer) by(t *testing.T, name string) *answer {
	t.Helper()
	got := a.header.Get(wire.ServerHeader)
	expect(t, got == name, "answered by %q, want %q: %s", got, name, a.body)
	return a
}

// TestFollowerHandsOn requests for the queue, and answers requests about itself.
func TestFollowerHandsOn(t *testing.T) {
	p := newPair(t)
	f := p.follower
	worker := ask{token: operateToken, body: "hello", header: octets}
	put := f.do("POST", "/api/v1/tubes/a%2Fb/jobs", worker).wants(t, 201, "").by(t, "n2")
	job := as[wire.Job](t, f.do("GET", "/api/v1/jobs/1", ask{}).wants(t, 200, "").by(t, "n2"))
	expect(t, job.Tube == "a/b" && job.Size == 5, "%+v", job)
	body := f.do("GET", "/api/v1/jobs/1/body", ask{token: operateToken, header: map[string]string{"Accept-Encoding": "gzip"}}).wants(t, 200, "").by(t, "n2")
	expect(t, body.body == "hello", "the body is %q", body.body)
	f.do("GET", "/api/v1/jobs/1/body", ask{token: operateToken, header: map[string]string{"If-None-Match": body.header.Get("ETag")}}).wants(t, 304, "").by(t, "n2")
	f.do("GET", "/api/v1/jobs/7", ask{}).wants(t, 404, "not-found").by(t, "n2")
	f.do("GET", "/api/v1/server", ask{}).wants(t, 200, "").by(t, "n2")
	f.do("PUT", "/api/v1/drain", ask{token: adminToken}).wants(t, 200, "").by(t, "n2")
	a := f.do("GET", "/api/v1/drain", ask{}).wants(t, 200, "").by(t, "n2")
	expect(t, strings.Contains(a.body, "true") && !f.srv.Operator().Draining(), "the drain is %s here, and %t at the follower", a.body, f.srv.Operator().Draining())
	for name, values := range put.header {
		expect(t, len(values) == 1, "%s is there %d times: %q", name, len(values), values)
	}
	for name := range securityHeaders {
		expect(t, put.header.Get(name) != "", "%s is missing", name)
	}
	for _, w := range []*world{f, p.leader} { // the same in both audits
		e := w.web.audit.newest(10, 100)[1]
		expect(t, e.Name == "worker" && e.Role == "operate" && e.Client == "127.0.0.1" && e.RequestID == put.header.Get("X-Request-Id") && e.Status == 201, "the audit has %+v", e)
	}
	e := f.web.audit.newest(1, 100)[0]
	expect(t, e.Detail == "forwarded to server n2", "the audit of the follower has %+v", e)

	for _, path := range []string{"/livez", "/readyz", "/metrics", "/api/v1/config", "/api/v1/cluster", "/api/v1/log-level", "/api/v1/openapi.json", "/", "/api/v1/session"} {
		f.do("GET", path, ask{token: adminToken}).wants(t, 200, "").by(t, "")
	}
	f.do("GET", "/leader", ask{}).wants(t, 503, "").by(t, "")
	f.do("GET", "/metrics/tubes", ask{}).wants(t, 503, "following").by(t, "")
	f.do("POST", "/api/v1/reload", ask{token: adminToken}).wants(t, 200, "").by(t, "")
}

// TestTheFollowerNamesTheClientAndTheLeaderKnowsItsRights, and a forged header names nobody.
func TestTheFollowerNamesTheClientAndTheLeaderKnowsItsRights(t *testing.T) {
	p := newPair(t)
	f := p.follower
	forged := map[string]string{
		"Polystalk-Caller": "name=boss&method=token&role=admin&sees=full&client=10.1.1.1&request=1",
		"Content-Type":     "application/octet-stream", "X-Forwarded-For": "10.9.9.9",
	}
	f.do("POST", "/api/v1/tubes/a/jobs", ask{header: forged, body: "x"}).wants(t, 403, "not-permitted").by(t, "")
	f.do("POST", "/api/v1/tubes/a/jobs", ask{header: forged, body: "x", token: operateToken}).wants(t, 201, "").by(t, "n2")
	e := p.leader.web.audit.newest(1, 100)[0]
	expect(t, e.Name == "worker" && e.Role == "operate" && e.Client == "127.0.0.1", "the audit has %+v", e)
	f.do("GET", "/api/v1/jobs/1/body", ask{header: forged}).wants(t, 403, "not-permitted").by(t, "n2")
	f.do("GET", "/api/v1/jobs/1/body", ask{header: forged, token: readToken}).wants(t, 403, "not-permitted").by(t, "n2")
	f.do("GET", "/api/v1/jobs/1/body", ask{token: bodiesToken}).wants(t, 200, "").by(t, "n2")
	f.do("PUT", "/api/v1/drain", ask{header: forged, token: operateToken}).wants(t, 403, "not-permitted").by(t, "")
	f.do("GET", "/api/v1/tubes", ask{token: "nobody's"}).wants(t, 401, "no-token").by(t, "")
	p.leader.do("PUT", "/api/v1/drain", ask{header: forged}).wants(t, 403, "not-permitted")

	// A follower with another file gives no rights: an unknown name has none.
	f.reload(clusterAccess() + identity("intruder", "intruder-token-0123456789", `role = "admin"`) + "[identity.only]\ntokens = [\"sha256:" + fmt.Sprintf("%x", access.DigestOf("only-token-0123456789")) + "\"]\nput = [\"a\"]\n")
	f.do("POST", "/api/v1/tubes/a/jobs", ask{header: octets, body: "x", token: "intruder-token-0123456789"}).wants(t, 404, "not-found").by(t, "n2")
	f.do("GET", "/api/v1/server", ask{token: "intruder-token-0123456789"}).wants(t, 403, "not-permitted").by(t, "n2")
	f.do("POST", "/api/v1/tubes/a/jobs", ask{header: octets, body: "x", token: "only-token-0123456789"}).wants(t, 404, "not-found").by(t, "n2")
	f.do("POST", "/api/v1/tubes/b/jobs", ask{header: octets, body: "x", token: "only-token-0123456789"}).wants(t, 404, "not-found").by(t, "")

	// Root on the machine of another server has the rights of that server. Its other clients do not,
	// if it has no access file.
	for header, status := range map[string]int{
		"name=uid+0&method=server&role=admin&sees=full&request=1": 200,
		"name=uid+0&method=user&role=admin&sees=full&request=1":   403,
		"name=&method=server&role=admin&sees=full&request=1":      401,
		"name=boss&method=token&role=none&sees=none&request=1":    200,
	} {
		r, err := http.NewRequest("GET", "http://"+p.door+"/api/v1/server", nil)
		noErr(t, err)
		r.Header.Set("Polystalk-Caller", header)
		res, err := f.client.Do(r)
		noErr(t, err)
		res.Body.Close()
		expect(t, res.StatusCode == status, "%q is answered with %d, want %d", header, res.StatusCode, status)
	}

	// Requests of other servers without a valid caller header are refused.
	for _, values := range [][]string{nil, {""}, {"role=admin&sees=full&request=1"}, {"role=admin&method=token&sees=all&request=1"},
		{"role=admin&method=root&sees=full&request=1"}, {"role=admin&method=token&sees=full"}, {"%"}, {forged["Polystalk-Caller"], forged["Polystalk-Caller"]}} {
		r, err := http.NewRequest("GET", "http://"+p.door+"/api/v1/tubes", nil)
		noErr(t, err)
		r.Header["Polystalk-Caller"] = values
		res, err := f.client.Do(r)
		noErr(t, err)
		res.Body.Close()
		expect(t, res.StatusCode == 400, "%q is answered with %d", values, res.StatusCode)
	}
}

// TestRolesTravelWithoutAccessFiles: the follower decides about them.
func TestRolesTravelWithoutAccessFiles(t *testing.T) {
	p := pairOf(t, setup{noTokens: true, anonymous: "operate"})
	p.follower.do("POST", "/api/v1/tubes/a/jobs", ask{header: octets, body: "x"}).wants(t, 201, "").by(t, "n2")
	e := p.leader.web.audit.newest(1, 100)[0]
	expect(t, e.Name == "" && e.Role == "operate" && e.Client == "127.0.0.1", "the audit has %+v", e)
	p.follower.do("GET", "/api/v1/jobs/1/body", ask{}).wants(t, 200, "").by(t, "n2")
	p.follower.do("PUT", "/api/v1/drain", ask{}).wants(t, 403, "not-permitted").by(t, "")
}

// A fakeLeader answers the requests that a follower forwards.
type fakeLeader func(r *http.Request) (*http.Response, string, error)

func (f fakeLeader) Ask(r *http.Request) (*http.Response, string, error)       { return f(r) }
func (f fakeLeader) AskStream(r *http.Request) (*http.Response, string, error) { return f(r) }

// newFollowerOf returns a follower of a fake leader with the name n2.
func newFollowerOf(t *testing.T, leader fakeLeader) *world {
	k := newFakeCluster()
	w := newFollower(t, k, leader)
	name := "n2"
	k.set("follower", &name)
	return w
}

// TestNothingIsHandedOnTwice, even if two servers take each other for the leader.
func TestNothingIsHandedOnTwice(t *testing.T) {
	f := newFollowerOf(t, func(*http.Request) (*http.Response, string, error) {
		t.Error("another server is asked")
		return nil, "", nil
	})
	for _, d := range []Door{{Callers: true}, {Anonymous: "admin", Last: true}} {
		r, err := http.NewRequest("PUT", "http://"+f.listen(d)+"/api/v1/drain", nil)
		noErr(t, err)
		r.Header.Set(callerHeader, "name=boss&method=token&sees=full&request=1")
		res, err := f.client.Do(r)
		noErr(t, err)
		res.Body.Close()
		expect(t, res.StatusCode == 503 && res.Header.Get("Retry-After") != "", "%+v: %v", d, res)
	}
}

// TestFollowerWithoutALeader reports that nothing was done, also if the leader is unreachable.
func TestFollowerWithoutALeader(t *testing.T) {
	p := newPair(t)
	p.cluster.set("follower", nil)
	p.relay.SetLeader(0, "")
	a := p.follower.do("GET", "/api/v1/tubes", ask{}).wants(t, 503, "following").by(t, "")
	expect(t, a.header.Get("Retry-After") != "" && strings.Contains(a.problem(t).Detail, "no server of the cluster leads"), "%v %s", a.header, a.body)
	r := a.problem(t).Remedy
	expect(t, strings.Contains(r, "polystalk cluster status ") && strings.Contains(r, "An election takes") && strings.Contains(r, "start the servers that are down"), "remedy: %s", r)
	p.door = "127.0.0.1:1"
	p.lead("n2")
	a = p.follower.do("PUT", "/api/v1/drain", ask{token: adminToken}).wants(t, 503, "following").by(t, "")
	expect(t, a.header.Get("Retry-After") != "" && strings.Contains(a.problem(t).Detail, "server n2 leads, and cannot be reached"), "%v %s", a.header, a.body)
	e := p.follower.web.audit.newest(1, 100)[0]
	expect(t, e.Detail == "" && e.Status == 503, "the audit has %+v", e)
}

// TestLeaderGoesInTheMiddle: if the leader stops during a change, the answer does not suggest a
// retry, and the audit names the leader. If it stops during an answer, the client gets an error.
func TestLeaderGoesInTheMiddle(t *testing.T) {
	f := newFollowerOf(t, func(r *http.Request) (*http.Response, string, error) {
		if r.Method == "GET" {
			half := io.MultiReader(strings.NewReader("[1,2,"), iotest.ErrReader(io.ErrUnexpectedEOF))
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(half)}, "n2", nil
		}
		return nil, "n2", wire.Uncertain.Problem("n2 has gone")
	})
	a := f.do("POST", "/api/v1/jobs/1/kick", ask{token: operateToken, header: map[string]string{"Idempotency-Key": "k"}}).wants(t, 503, "uncertain")
	expect(t, a.header.Get("Retry-After") == "", "%v", a.header)
	e := f.web.audit.newest(1, 100)[0]
	expect(t, e.Detail == "forwarded to server n2", "the audit has %+v", e)
	res, err := f.client.Get(f.url + "/api/v1/jobs")
	if err == nil {
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		expect(t, err != nil, "half an answer is taken for a whole one: %q", b)
	}
}

// TestChangeGoesOnWhenItsClientLeaves, with or without an Idempotency-Key, and the audit has the
// answer.
func TestChangeGoesOnWhenItsClientLeaves(t *testing.T) {
	asked, answers := make(chan context.Context), make(chan struct{})
	f := newFollowerOf(t, func(r *http.Request) (*http.Response, string, error) {
		asked <- r.Context()
		<-answers
		return &http.Response{StatusCode: 204, Header: http.Header{}, Body: http.NoBody}, "n2", r.Context().Err()
	})
	for i, key := range []string{"", "Idempotency-Key: k\r\n"} {
		conn := f.dial()
		fmt.Fprintf(conn, "POST /api/v1/jobs/1/kick HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n", operateToken, key)
		ctx := <-asked
		open := f.web.connections.len()
		conn.Close()
		select {
		case <-ctx.Done():
			t.Errorf("%q: it ends with its client", key)
		case <-time.After(50 * time.Millisecond): // net/http sees the end of a client at once
		}
		answers <- struct{}{}
		await(t, "the answer is noted", func() bool {
			list := f.web.audit.newest(10, 100)
			return len(list) == i+1 && list[0].Status == 204 && f.web.connections.len() < open
		})
	}
}

// TestTransferIsAnsweredWhileTheCallLasts, since the restart waits only for calls.
func TestTransferIsAnsweredWhileTheCallLasts(t *testing.T) {
	k := newFakeCluster()
	w := newWorld(t, setup{cluster: k})
	stays := make(chan struct{})
	w.web.handle([]route{{pattern: "POST /api/v1/test", need: nothing, flags: early, handler: func(c *call) error {
		defer func() { <-stays }()
		return c.done()
	}}})
	for _, key := range []string{"", "k"} {
		r, err := http.NewRequest("POST", w.url+"/api/v1/test", nil)
		noErr(t, err)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		res, err := w.client.Do(r)
		require(t, err == nil && res.StatusCode == 204, "%v %v", res, err)
		res.Body.Close()
		stays <- struct{}{}
	}
}

// TestRefusedStreamIsAnAnswer: the client may send its next request on the same connection, and the
// metrics count the time of the refusal.
func TestRefusedStreamIsAnAnswer(t *testing.T) {
	f := newFollowerOf(t, func(*http.Request) (*http.Response, string, error) {
		time.Sleep(50 * time.Millisecond)
		return &http.Response{StatusCode: 400, Header: http.Header{}, Body: http.NoBody}, "n2", nil
	})
	conn := f.dial()
	in := bufio.NewReader(conn)
	for range 2 {
		io.WriteString(conn, "GET /api/v1/events?topics=x HTTP/1.1\r\nHost: localhost\r\n\r\n")
		res, err := http.ReadResponse(in, nil)
		require(t, err == nil && res.StatusCode == 400 && !res.Close, "%v %v", res, err)
		io.Copy(io.Discard, res.Body)
	}
	took := parseMetrics(t, f.do("GET", "/metrics", ask{}).body)[`polystalk_http_request_seconds_sum{route="GET /api/v1/events"}`]
	s, err := strconv.ParseFloat(took, 64)
	expect(t, err == nil && s >= 0.1, "two requests of 50 ms are counted as %s s", took)
}

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
	p.follower.reload(strings.Replace(clusterAccess(), identities["reader"], identity("reader", readToken, `role = "admin"`), 1))
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

// targets returns paths of all GET routes that only the leader of a cluster may answer.
func targets() (list []string) {
	fill := strings.NewReplacer("{tube}", "default", "{id}", "1")
	for _, e := range testRoutes {
		path, get := strings.CutPrefix(e.pattern, "GET ")
		if own := e.flags&own != 0 && e.flags&early != 0; get && (!own || path == "/leader") {
			list = append(list, fill.Replace(path))
		}
	}
	return list
}

// TestNothingIsReadFromALeaderWithoutALease: it answers once a commit shows that it still leads. If
// another server leads, the answer is a problem, and event streams end.
func TestNothingIsReadFromALeaderWithoutALease(t *testing.T) {
	w := newWorld(t, setup{anonymous: "admin", noTokens: true, dir: t.TempDir(), unstarted: true, options: func(o *Options) { o.HistoryTubes = 10 }})
	f, err := w.srv.Follow()
	noErr(t, err)
	var least atomic.Pointer[func() uint64]
	set := func(f func() uint64) { least.Store(&f) }
	set(func() uint64 { return 0 })
	noErr(t, f.Lead(func() uint64 { return (*least.Load())() }))
	t.Cleanup(func() { w.srv.Shutdown(t.Context()) })
	w.do("POST", "/api/v1/tubes/default/jobs", ask{body: "x", header: octets}).wants(t, 201, "")

	var waits atomic.Int64
	set(func() uint64 { // a leader that needs a commit
		waits.Add(1)
		n := f.Journal().Begun() + 1
		f.Journal().Wake()
		return n
	})
	for _, target := range targets() {
		if strings.HasSuffix(target, "/events") || strings.Contains(target, "/connections/") || strings.Contains(target, "/operations/") {
			continue // a stream, or a GET without the leader
		}
		was := waits.Load()
		w.do("GET", target, ask{}).wants(t, 200, "")
		expect(t, waits.Load() != was, "%s is answered without a commit", target)
	}

	// It may lose its lease while it reads a request. Then it must not answer 404 either.
	for request, body := range map[string]string{
		"POST /api/v1/tubes/nothing/kick": `{"count":1}`, "PUT /api/v1/tubes/nothing/pause": `{"seconds":1}`,
		"POST /api/v1/jobs/999/move": `{"to":"default"}`, "PATCH /api/v1/jobs/999": `{"pri":1}`,
	} {
		lost := least.Load()
		set(func() uint64 { return 0 })
		conn := w.dial()
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", request, len(body))
		r := bufio.NewReader(conn)
		if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatal(request, line, err)
		}
		r.ReadString('\n')
		was := waits.Load()
		least.Store(lost)
		io.WriteString(conn, body)
		res, err := http.ReadResponse(r, nil)
		expect(t, err == nil && res.StatusCode == 404 && waits.Load() != was, "%s is answered without a commit: %v %v", request, res, err)
	}

	// A read is confirmed after it has read, not only before.
	var confirmed atomic.Int64
	set(func() uint64 { confirmed.Add(1); return 0 })
	for _, target := range []string{"/api/v1/tubes/default", "/api/v1/jobs/1", "/api/v1/jobs/999"} {
		confirmed.Store(0)
		w.do("GET", target, ask{})
		n := confirmed.Load()
		expect(t, n >= 2, "%s is confirmed %d times", target, n)
	}

	var asked, answered atomic.Int64
	set(func() uint64 { asked.Add(1); return 1 << 60 }) // a leader that gets no commit
	var all sync.WaitGroup
	for _, target := range targets() {
		all.Go(func() {
			a := w.do("GET", target, ask{})
			answered.Add(1)
			a.wants(t, 503, "")
			expect(t, target == "/leader" || strings.Contains(a.body, "/problems/following"), "%s: %s", target, a.body)
		})
	}
	await(t, "most wait", func() bool { return asked.Load() > int64(len(targets())/2) }) // some wait for each other
	n := answered.Load()
	expect(t, n <= 0, "%d are answered meanwhile", n)
	w.srv.Fail(&commit.Failure{Cause: commit.Deposed, Err: errors.New("another one leads")})
	all.Wait()
	_, err = w.web.render(t.Context(), nil, false, nil)
	expect(t, err != nil, "a stream of events goes on")
	w.do("GET", "/livez", ask{}).wants(t, 200, "") // the process restarts
	w.do("GET", "/readyz", ask{}).wants(t, 503, "")
	a := w.do("GET", "/metrics", ask{}).wants(t, 200, "")
	expect(t, !strings.Contains(a.body, "polystalk_jobs{") && strings.Contains(a.body, "polystalk_ready 0"), "the metrics tell of jobs: %s", a.body)
}
