package http

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
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
			w := newWorld(t, setup{anonymous: access.Read})
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
	w := newWorld(t, setup{anonymous: access.Operate})
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
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir()})
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
	w := newWorld(t, setup{anonymous: access.Operate, maxJob: size})
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
