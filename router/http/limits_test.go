package http

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	wire "polystalk/codec/admin"
)

// dial connects and sends nothing.
func (w *world) dial() net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	noErr(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(hangs))
	return conn
}

// isClosed waits until the server closes a connection without an answer. It returns false if the
// deadline comes first.
func isClosed(conn net.Conn) bool {
	_, err := conn.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// asks sends a request on a connection and reads the status.
func asks(t *testing.T, conn net.Conn, request string) int {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode
}

// TestStrangersKeepNobodyOut, neither with answers that they do not read, nor with logins that they
// do not complete.
func TestStrangersKeepNobodyOut(t *testing.T) {
	for what, request := range map[string]string{
		"unread answers": strings.Repeat("GET /console/app.mjs HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
		"slow logins":    "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setup{})
			w.client.Transport.(*http.Transport).DisableKeepAlives = true
			for range connectionsMax {
				io.WriteString(w.dial(), request)
			}
			for range 10 {
				for path, token := range map[string]string{"/livez": "", "/api/v1/server": readToken} {
					io.WriteString(w.dial(), request) // in place of the one that was closed
					w.do("GET", path, ask{token: token}).wants(t, 200, "")
				}
			}
		})
	}
}

// TestAnswersForEverybodyAreNotWaitedForLong: they have a short timeout; other answers have a minute.
func TestAnswersForEverybodyAreNotWaitedForLong(t *testing.T) {
	long(t)
	t.Parallel()
	w := newWorld(t, setup{})
	start := time.Now()
	io.WriteString(w.dial(), strings.Repeat("GET /console/app.mjs HTTP/1.1\r\nHost: localhost\r\n\r\n", 1000))
	for open := 1; open > 0; open = w.web.connections.len() {
		require(t, time.Since(start) <= 50*time.Second, "the connection is still open")
		time.Sleep(50 * time.Millisecond)
	}
}

// TestRequestsWithoutATokenComeAtAPace, since event loops need the processors.
func TestRequestsWithoutATokenComeAtAPace(t *testing.T) {
	w := newWorld(t, setup{})
	const n = 2000
	conn := w.dial()
	start := time.Now()
	go io.WriteString(conn, strings.Repeat("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", n))
	in := bufio.NewReader(conn)
	for range n {
		resp, err := http.ReadResponse(in, nil)
		noErr(t, err)
		io.Copy(io.Discard, resp.Body)
	}
	if took := time.Since(start); took < 180*time.Millisecond { // 100 µs each, but for the first ones
		t.Errorf("%d requests took %v", n, took)
	}
}

func TestSlowHeaderIsCutOff(t *testing.T) {
	long(t)
	t.Parallel()
	w := newWorld(t, setup{})
	conn := w.dial()
	start := time.Now()
	go func() {
		for _, err := io.WriteString(conn, "GET /livez HTTP/1.1\r\n"); err == nil; {
			time.Sleep(200 * time.Millisecond)
			_, err = io.WriteString(conn, "X-A: b\r\n")
		}
	}()
	io.Copy(io.Discard, conn)
	if took := time.Since(start); took < headerWithin-time.Second || took > headerWithin+20*time.Second { // for all of it there are thirty
		t.Errorf("it was cut off after %v", took)
	}
}

func TestHugeHeaderIsRefused(t *testing.T) {
	w := newWorld(t, setup{})
	for _, request := range []string{
		"GET /livez HTTP/1.1\r\nHost: x\r\nX-Large: " + strings.Repeat("x", 2*headerMax) + "\r\n\r\n",
		"GET /livez?" + strings.Repeat("x", 2*headerMax) + " HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		status := asks(t, w.dial(), request)
		expect(t, status == 431, "status %d", status)
	}
	status := asks(t, w.dial(), "GET /livez HTTP/1.1\r\nHost: x\r\nX-Large: "+strings.Repeat("x", headerMax/2)+"\r\n\r\n")
	expect(t, status == 200, "half of it: status %d", status)
}

// TestSmallBodiesTakeNoSlotOfUploads: neither logins, which anybody may send, nor jobs without a
// Content-Length. A large body waits for a slot, with or without its length.
func TestSmallBodiesTakeNoSlotOfUploads(t *testing.T) {
	w := newWorld(t, setup{maxJob: 1 << 26})
	w.do("POST", "/api/v1/session", ask{json: true, body: strings.Repeat(" ", loginMax+1)}).wants(t, 413, "too-large")
	const head = " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
	for range 4 { // that do not end
		io.WriteString(w.dial(), "POST /api/v1/session"+head+"\r\n1\r\n{\r\n")
	}
	body := fmt.Sprintf("%x\r\n%s\r\n", loginMax+1, strings.Repeat(" ", loginMax+1))
	if status := asks(t, w.dial(), "POST /api/v1/session"+head+"\r\n"+body); status != 413 {
		t.Errorf("a long login in chunks: status %d", status)
	}
	job := `{"body":"x"}`
	put := fmt.Sprintf("POST /api/v1/tubes/mail/jobs%sAuthorization: Bearer %s\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, operateToken, len(job), job)
	for range 2 {
		leave, err := w.web.uploads.take(t.Context())
		noErr(t, err)
		defer leave()
	}
	status := asks(t, w.dial(), put)
	expect(t, status == 201, "a small upload beside others: status %d", status)
	if testing.Short() {
		return // the large body waits for two seconds
	}
	long := strings.Repeat(" ", jsonMax)
	status = asks(t, w.dial(), strings.Replace(put, "c\r\n", fmt.Sprintf("%x\r\n%s\r\nc\r\n", jsonMax, long), 1))
	expect(t, status == 429, "a large upload beside others: status %d", status)
	unread := fmt.Sprintf("POST /api/v1/tubes/mail/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", operateToken, jsonMax+1)
	status = asks(t, w.dial(), unread)
	expect(t, status == 429, "a large upload that has sent no body: status %d", status)
}

// TestOneHeavyRequestAtATime: the next request waits for a while, then gets 429 and Retry-After.
// Scrapes have another slot.
func TestOneHeavyRequestAtATime(t *testing.T) {
	long(t)
	for refused, free := range map[string][]string{
		"/api/v1/tubes": {"/metrics", "/metrics/tubes", "/readyz"},
		"/metrics":      {"/api/v1/tubes", "/readyz"},
	} {
		t.Run(refused, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setup{anonymous: "read"})
			take := w.web.heavy.take
			if refused == "/metrics" {
				take = w.web.scrapes.take
			}
			leave, err := take(t.Context())
			noErr(t, err)
			for _, path := range free {
				w.do("GET", path, ask{}).wants(t, 200, "")
			}
			start := time.Now()
			a := w.do("GET", refused, ask{}).wants(t, 429, "busy")
			took := time.Since(start)
			expect(t, took >= heavyWait && a.header.Get("Retry-After") != "", "refused after %v, Retry-After %q", took, a.header.Get("Retry-After"))
			time.AfterFunc(heavyWait/4, leave)
			w.do("GET", refused, ask{}).wants(t, 200, "")
			w.do("GET", refused, ask{}).wants(t, 200, "")
		})
	}
}

// TestPanicIsAnswered: the server continues, and the log has the id of the request.
func TestPanicIsAnswered(t *testing.T) {
	w := newWorld(t, setup{})
	w.web.metrics.handler = nil
	a := w.do("GET", "/metrics", ask{token: readToken}).wants(t, 500, "internal")
	expect(t, strings.Contains(w.logged.String(), a.problem(t).RequestID), "the log does not name the request: %s", w.logged)
	w.do("GET", "/readyz", ask{}).wants(t, 200, "")
}

// TestAllTubesTakeAPlaceWhileTheyAreMade, but no slot while a client reads them slowly.
func TestAllTubesTakeAPlaceWhileTheyAreMade(t *testing.T) {
	long(t)
	w := newWorld(t, setup{anonymous: "operate"})
	w.tubesOf(4000) // about 12 MB of text, which no socket takes at once
	leave, err := w.web.scrapes.take(t.Context())
	noErr(t, err)
	w.do("GET", "/metrics/tubes", ask{}).wants(t, 429, "busy")
	leave()
	conn, err := net.Dial("tcp", w.addr)
	noErr(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "GET /metrics/tubes HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := conn.Read(make([]byte, 100)); err != nil { // it has begun
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	w.do("GET", "/metrics", ask{}).wants(t, 200, "")
	all := w.do("GET", "/metrics/tubes?family=age", ask{}).wants(t, 200, "").body
	expect(t, strings.Count(all, "\n") == 4001+2, "%d lines", strings.Count(all, "\n"))
}

// TestHalfClosedClientHearsWhatItsChangeHasDone: a client that has closed its half of the connection
// after a request still gets the answer, which waits for the journal.
func TestHalfClosedClientHearsWhatItsChangeHasDone(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir()})
	const body = `{"body":"x"}`
	for range 20 {
		conn := w.dial()
		fmt.Fprintf(conn, "POST /api/v1/tubes/half/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		noErr(t, conn.(*net.TCPConn).CloseWrite())
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require(t, err == nil && res.StatusCode == http.StatusCreated, "%v %v", res, err)
	}
}

// TestWholeBodiesAreSentInPieces: the parts give the same body, and clients that do not read take no
// memory.
func TestWholeBodiesAreSentInPieces(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const size = 16 << 20
	w := newWorld(t, setup{anonymous: "operate", maxJob: size})
	octets := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(octets)
	for id, body := range []string{"", "x", strings.Repeat("é日\"<\n", 300_000), string(octets), strings.Repeat("é", 1<<20) + "\xc3", strings.Repeat("x", size)} {
		_, err := w.srv.Operator().Put(t.Context(), newJob("mail", body))
		noErr(t, err)
		j := get[wire.Job](w, fmt.Sprintf("/api/v1/jobs/%d?body=full", id+1))
		want := wire.NewContent([]byte(body), len(body))
		expect(t, reflect.DeepEqual(j.Content, want), "body %d has %d bytes, and is another one", id, j.Size)
	}
	before := heap()
	for i := range 16 {
		conn := w.dial()
		fmt.Fprintf(conn, "GET /api/v1/jobs/6%s HTTP/1.1\r\nHost: localhost\r\n\r\n", []string{"?body=full", "/body"}[i%2])
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require(t, err == nil && res.StatusCode == http.StatusOK, "%v, %v", res, err)
	}
	more := heap() - before
	expect(t, more <= size, "16 clients that do not read a body of %d bytes cost %d", size, more)
}

// A fakeConn records whether it was closed.
type fakeConn struct {
	net.Conn
	closed bool
}

func (c *fakeConn) Close() error { c.closed = true; return nil }

// connected opens n connections.
func (c *connections) connected(n int) (list []*fakeConn) {
	for range n {
		conn := new(fakeConn)
		c.changed(conn, http.StateNew)
		list = append(list, conn)
	}
	return list
}

// TestStrangersAreClosedFirst, the oldest first, also during a request. Connections with a token, a
// stream or an allowed request stay open.
func TestStrangersAreClosedFirst(t *testing.T) {
	var c connections
	kept := c.connected(5)
	for i, of := range []claim{probeClaim, rightClaim, streamClaim, tokenClaim, tokenClaim} {
		c.request(kept[i], of)
	}
	c.changed(kept[4], http.StateIdle)
	strangers := c.connected(connectionsMax - len(kept))
	for _, conn := range strangers {
		c.changed(conn, http.StateActive)
	}
	for i, conn := range strangers {
		probe := c.connected(1)[0]
		c.changed(probe, http.StateActive)
		require(t, conn.closed && !probe.closed, "stranger %d: closed %v, the newest connection: %v", i, conn.closed, probe.closed)
	}
	for i, conn := range kept {
		expect(t, !conn.closed, "connection %d is closed", i)
	}
	n := c.dropped.Load()
	expect(t, c.len() == connectionsMax && n == uint64(len(strangers)), "%d connections, %d dropped", c.len(), n)
}

// TestOnlyRequestsWithATokenCanCloseTheNewest connection, if all others have a token.
func TestOnlyRequestsWithATokenCanCloseTheNewest(t *testing.T) {
	var c connections
	busy := c.connected(connectionsMax)
	for _, conn := range busy {
		c.request(conn, tokenClaim)
	}
	late := c.connected(1)[0]
	expect(t, late.closed, "the newest connection is open")
	c.changed(late, http.StateClosed)
	c.changed(busy[5], http.StateIdle)
	next := c.connected(1)[0]
	expect(t, !next.closed && busy[5].closed, "closed: the newest %v, the idle one %v", next.closed, busy[5].closed)
	expect(t, c.len() == connectionsMax && c.dropped.Load() == 2, "%d connections, %d dropped", c.len(), c.dropped.Load())
}

// TestAnsweredRequestsKeepNoPlace for a connection without a token, nor does its second probe.
func TestAnsweredRequestsKeepNoPlace(t *testing.T) {
	for _, of := range []claim{probeClaim, rightClaim, streamClaim} {
		var c connections
		conn := c.connected(1)[0]
		c.request(conn, of)
		c.changed(conn, http.StateIdle)
		c.request(conn, probeClaim)
		c.connected(connectionsMax)
		expect(t, conn.closed, "claim %d: the connection is open", of)
	}
}

func TestForwardedAddressesOfProxiesAreBelieved(t *testing.T) {
	s, err := New(Options{Log: slog.New(slog.DiscardHandler), Rules: Rules{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}})
	noErr(t, err)
	defer s.Close()
	for _, tt := range []struct {
		remote, forwarded, proto, want string
		secure                         bool
	}{
		{"192.0.2.1:99", "", "", "192.0.2.1", false},
		{"192.0.2.1:99", "198.51.100.7", "https", "192.0.2.1", false},
		{"10.0.0.1:99", "198.51.100.7", "https", "198.51.100.7", true},
		{"10.0.0.1:99", "198.51.100.7, 10.0.0.2", "HTTPS", "198.51.100.7", true},
		{"10.0.0.1:99", "1.2.3.4, 198.51.100.7, 10.0.0.2", "http", "198.51.100.7", false},
		{"10.0.0.1:99", "nonsense", "", "10.0.0.1", false},
		{"10.0.0.1:99", "1.2.3.4, nonsense", "", "10.0.0.1", false},
		{"[::ffff:10.0.0.1]:99", "198.51.100.7", "", "198.51.100.7", false},
		{"@", "198.51.100.7", "https", "unix", false},
	} {
		r := &http.Request{RemoteAddr: tt.remote, Header: http.Header{}}
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		if tt.proto != "" {
			r.Header.Set("X-Forwarded-Proto", tt.proto)
		}
		addr, secure := s.clientOf(r)
		expect(t, addr == tt.want && secure == tt.secure, "%+v: %s, %t", tt, addr, secure)
	}
}

// TestOddRequests: unusual requests get the right answer, and never more rights than usual
// requests.
func TestOddRequests(t *testing.T) {
	w := newWorld(t, setup{})
	if _, err := w.srv.Operator().Put(t.Context(), newJob("mail", "x")); err != nil {
		t.Fatal(err)
	}
	const local, operate, read = "Host: localhost\r\n", "Authorization: Bearer " + operateToken + "\r\n", "Authorization: Bearer " + readToken + "\r\n"
	for _, tt := range []struct {
		what, request string
		status        int
	}{
		{"a path that goes up", "GET /livez/../api/v1/server HTTP/1.1\r\n" + local, 307},
		{"the same, encoded", "GET /livez/%2E%2E/api/v1/server HTTP/1.1\r\n" + local, 404},
		{"a slash, encoded", "GET /api/v1%2Fserver HTTP/1.1\r\n" + local, 404},
		{"two slashes", "GET //api/v1/server HTTP/1.1\r\n" + local, 307},
		{"two slashes that are no server's", "GET //evil.example/%2E%2E HTTP/1.1\r\n" + local, 404},
		{"a slash at the end", "GET /api/v1/server/ HTTP/1.1\r\n" + local + read, 404},
		{"an id with a path", "GET /api/v1/jobs/1%2Fbody HTTP/1.1\r\n" + local + read, 400},
		{"a NUL in an id", "GET /api/v1/jobs/1%00 HTTP/1.1\r\n" + local + read, 400},
		{"a whole URL of this server", "GET http://localhost/api/v1/server HTTP/1.1\r\nHost: evil.example\r\n" + read, 200},
		{"a whole URL of another", "GET http://evil.example/api/v1/server HTTP/1.1\r\nHost: localhost\r\n", 421},
		{"no host", "GET /api/v1/server HTTP/1.1\r\n" + read, 400},
		{"no host, as long ago", "GET /api/v1/server HTTP/1.0\r\n", 421},
		{"a host with a user", "GET /api/v1/server HTTP/1.1\r\nHost: localhost:80@evil.example\r\n" + read, 400},
		{"another host with a token", "GET /api/v1/server HTTP/1.1\r\nHost: evil.example\r\n" + read, 200},
		{"another host with a bad token", "GET /api/v1/server HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer x\r\n", 401},

		{"two tokens", "GET /api/v1/server HTTP/1.1\r\n" + local + read + operate, 401},
		{"no scheme", "GET /api/v1/server HTTP/1.1\r\n" + local + "Authorization: " + operateToken + "\r\n", 401},
		{"an empty token", "GET /api/v1/server HTTP/1.1\r\n" + local + "Authorization: Bearer \r\n", 401},
		{"another scheme", "GET /api/v1/server HTTP/1.1\r\n" + local + "Authorization: Basic " + operateToken + "\r\n", 401},
		{"a token in the query", "GET /api/v1/server?token=" + operateToken + " HTTP/1.1\r\n" + local, 401},
		{"a bad token where none is needed", "GET /livez HTTP/1.1\r\n" + local + "Authorization: Bearer x\r\n", 200},
		{"a session that is none", "GET /api/v1/server HTTP/1.1\r\n" + local + "Cookie: polystalk-session=x\r\n", 401},
		{"a token beside a session that is none", "GET /api/v1/server HTTP/1.1\r\n" + local + read + "Cookie: polystalk-session=x; polystalk-session=y\r\n", 200},
		{"rights that a header claims", "DELETE /api/v1/jobs/1 HTTP/1.1\r\n" + local + read + "X-HTTP-Method-Override: GET\r\nX-Original-URL: /livez\r\n", 403},
		{"another method that a header claims", "GET /api/v1/jobs/1 HTTP/1.1\r\n" + local + read + "X-HTTP-Method-Override: DELETE\r\n", 200},

		{"another port of this machine", "DELETE /api/v1/jobs/1 HTTP/1.1\r\n" + local + operate + "Origin: http://localhost:8080\r\n", 403},
		{"TRACE", "TRACE /api/v1/server HTTP/1.1\r\n" + local + read, 405},
		{"OPTIONS", "OPTIONS /api/v1/server HTTP/1.1\r\n" + local, 405},
		{"OPTIONS of all", "OPTIONS * HTTP/1.1\r\n" + local, 404},
		{"CONNECT", "CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example:80\r\n", 421},
		{"CONNECT with a path", "CONNECT /api/v1/server HTTP/1.1\r\n" + local, 405},
		{"a method of one's own", "EAT /api/v1/server HTTP/1.1\r\n" + local + read, 405},
		{"a change by HEAD", "HEAD /api/v1/jobs/1/kick HTTP/1.1\r\n" + local + operate, 405},

		{"a body where none is taken", "DELETE /api/v1/jobs/1 HTTP/1.1\r\n" + local + operate + "Content-Length: 2\r\n\r\n{}", 400},
		{"a body of a GET", "GET /api/v1/server HTTP/1.1\r\n" + local + read + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", 400},
		{"a header that is folded", "GET /api/v1/server HTTP/1.1\r\n" + local + "X: a\r\n Authorization: Bearer " + readToken + "\r\n", 401},
	} {
		conn := w.dial()
		method, _, _ := strings.Cut(tt.request, " ")
		fmt.Fprintf(conn, "%s\r\n", tt.request)
		resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
		if err != nil {
			t.Errorf("%s: %v", tt.what, err)
			continue
		}
		if resp.StatusCode != tt.status {
			b, _ := io.ReadAll(resp.Body)
			t.Errorf("%s: status %d, want %d: %s", tt.what, resp.StatusCode, tt.status, b)
		}
		at := resp.Header.Get("Location")
		expect(t, at == "" || strings.HasPrefix(at, "/") && !strings.HasPrefix(at, "//"), "%s: it leads to %q", tt.what, at)
		conn.Close()
	}
	w.do("GET", "/api/v1/jobs/1", ask{token: readToken}).wants(t, 200, "")
}

// TestMissingBodiesAreNotWaitedFor: a client without the role, or with a wrong token, is answered at
// once, and the wait for other bodies has a timeout.
func TestMissingBodiesAreNotWaitedFor(t *testing.T) {
	long(t)
	w := newWorld(t, setup{})
	for _, tt := range []struct {
		what, request string
		status        int
	}{
		{"no token", "POST /api/v1/operations HTTP/1.1\r\nHost: localhost\r\n", 401},
		{"no such path", "POST /nowhere HTTP/1.1\r\nHost: localhost\r\n", 404},
		{"another method", "POST /api/v1/server HTTP/1.1\r\nHost: localhost\r\n", 405},
		{"another path", "POST //api/v1/operations HTTP/1.1\r\nHost: localhost\r\n", 307},
		{"none is taken", "GET /livez HTTP/1.1\r\nHost: localhost\r\n", 400},
		{"the way in", "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n", 400},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			conn := w.dial()
			// Before the test's deadline, and before the timeout of a body.
			status := asks(t, conn, tt.request+"Content-Length: 100\r\n\r\n{")
			expect(t, status == tt.status, "status %d", status)
			expect(t, isClosed(conn), "the connection stays open")
		})
	}
}

// TestZippedAnswersNeedAcceptEncoding, and no weight of zero.
func TestZippedAnswersNeedAcceptEncoding(t *testing.T) {
	w := newWorld(t, setup{anonymous: "read"})
	for accepts, want := range map[string]bool{"gzip": true, "br, gzip;q=0.5": true, "GZIP": true, "*": true, "gzip;q=0": false, "gzip; q=0.0": false, "identity": false, "x-gzip-not": false, "gzip;q=x": false} {
		a := w.do("GET", "/metrics/tubes", ask{header: map[string]string{"Accept-Encoding": accepts}})
		got := a.header.Get("Content-Encoding") == "gzip"
		expect(t, got == want, "%q: zipped: %v", accepts, got)
	}
}

// TestRulesChangeWhileRequestsRun: each request is judged by the old or the new rules and tokens.
func TestRulesChangeWhileRequestsRun(t *testing.T) {
	w := newWorld(t, setup{})
	change := func(rules Rules, text string) {
		apply, err := w.web.Prepare(rules)
		noErr(t, err)
		apply()
		w.reload(text)
	}
	var clients sync.WaitGroup
	for range 3 {
		clients.Go(func() {
			for range 5 {
				for _, r := range []struct {
					method, target string
					a              ask
					may            []int
				}{
					{"GET", "/api/v1/server", ask{host: "queue.example"}, []int{401, 421}},
					{"GET", "/api/v1/server", ask{token: readToken}, []int{200, 401}},
					{"DELETE", "/api/v1/jobs/1", ask{token: readToken}, []int{401, 403, 404}}, // 404: the token goes between two checks
					{"DELETE", "/api/v1/jobs/1", ask{token: operateToken, header: map[string]string{"Origin": "https://ops.example"}}, []int{403, 404}},
				} {
					got := w.do(r.method, r.target, r.a)
					expect(t, slices.Contains(r.may, got.status), "%s %s: %d %s", r.method, r.target, got.status, got.body)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { clients.Wait(); close(over) }()
	for {
		change(Rules{Hosts: []string{"queue.example"}}, accessText())
		change(Rules{Origins: []string{"https://ops.example"}}, accessText("reader", "looker"))
		select {
		case <-over:
			return
		default:
		}
	}
}
