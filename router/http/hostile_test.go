package http

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"polystalk/router/access"
)

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
	w := newWorld(t, setup{anonymous: access.Read})
	for accepts, want := range map[string]bool{"gzip": true, "br, gzip;q=0.5": true, "GZIP": true, "*": true, "gzip;q=0": false, "gzip; q=0.0": false, "identity": false, "x-gzip-not": false, "gzip;q=x": false} {
		a := w.do("GET", "/metrics/tubes", ask{header: map[string]string{"Accept-Encoding": accepts}})
		got := a.header.Get("Content-Encoding") == "gzip"
		expect(t, got == want, "%q: zipped: %v", accepts, got)
	}
}

// TestRulesChangeWhileRequestsRun: each request is judged by the old or the new rules and tokens.
func TestRulesChangeWhileRequestsRun(t *testing.T) {
	var tokens *access.Tokens
	w := newWorld(t, setup{options: func(o *Options) { tokens = o.Tokens }})
	all := tokenLines()
	change := func(rules Rules, lines string) {
		apply, err := w.web.Prepare(rules)
		noErr(t, err)
		apply()
		next := w.tokens + ".next"
		noErr(t, errors.Join(os.WriteFile(next, []byte(lines), 0o600), os.Rename(next, w.tokens), tokens.Reload()))
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
					{"DELETE", "/api/v1/jobs/1", ask{token: readToken}, []int{401, 403}},
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
		change(Rules{Hosts: []string{"queue.example"}}, all)
		change(Rules{Origins: []string{"https://ops.example"}}, all[strings.Index(all, "worker "):]) // without the readers
		select {
		case <-over:
			return
		default:
		}
	}
}
