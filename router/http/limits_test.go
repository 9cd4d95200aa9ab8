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
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// dial connects without saying anything.
func (w *world) dial() net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	noErr(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(hangs))
	return conn
}

// isClosed waits until the server has closed a connection on which it says nothing. It reports
// false if it has not by the deadline.
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

// TestConnectionsThatSayNothingKeepNobodyOut: 200 of them, silent or idle, and a probe is
// answered all the same.
func TestConnectionsThatSayNothingKeepNobodyOut(t *testing.T) {
	w := newWorld(t, setup{})
	var conns []net.Conn
	for i := range 200 {
		conn := w.dial()
		conns = append(conns, conn)
		if i%2 == 0 {
			if status := asks(t, conn, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"); status != 200 {
				t.Fatalf("connection %d: status %d", i, status)
			}
		} else {
			io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost:")
		}
	}
	w.do("GET", "/readyz", ask{}).wants(t, 200, "")
	if n, dropped := w.web.connections.len(), w.web.connections.dropped.Load(); n > connectionsMax || dropped < 72 {
		t.Errorf("%d connections, and %d were dropped", n, dropped)
	}
	// The newest of them are served on.
	if status := asks(t, conns[198], "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"); status != 200 {
		t.Errorf("the newest idle one: status %d", status)
	}
	if !isClosed(conns[0]) {
		t.Error("the oldest one is still open")
	}
}

// TestStrangersKeepNobodyOut: not by answers that they do not read, and not by logins that do not
// come.
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

// TestAnswersForEverybodyAreNotWaitedForLong: other answers may take a minute.
func TestAnswersForEverybodyAreNotWaitedForLong(t *testing.T) {
	long(t)
	t.Parallel()
	w := newWorld(t, setup{})
	start := time.Now()
	io.WriteString(w.dial(), strings.Repeat("GET /console/app.mjs HTTP/1.1\r\nHost: localhost\r\n\r\n", 1000))
	for open := 1; open > 0; open = w.web.connections.len() {
		if time.Since(start) > 50*time.Second {
			t.Fatal("the connection is still open")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestRequestsWithoutATokenComeAtAPace: event loops need the processors.
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
		if status := asks(t, w.dial(), request); status != 431 {
			t.Errorf("status %d", status)
		}
	}
	if status := asks(t, w.dial(), "GET /livez HTTP/1.1\r\nHost: x\r\nX-Large: "+strings.Repeat("x", headerMax/2)+"\r\n\r\n"); status != 200 {
		t.Errorf("half of it: status %d", status)
	}
}

func TestLargeBodyIsRefused(t *testing.T) {
	w := newWorld(t, setup{maxJob: 1000})
	most := int(w.web.bodyMax())
	w.do("POST", "/api/v1/session", ask{json: true, body: strings.Repeat(" ", most+1)}).wants(t, 413, "too-large")
	// Whatever it says about itself.
	conn := w.dial()
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 100_000, strings.Repeat(" ", 100_000))
	var answer []byte
	var reading sync.WaitGroup
	reading.Go(func() {
		if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && resp.StatusCode == 413 && resp.Close {
			answer, _ = io.ReadAll(resp.Body)
		}
	})
	io.WriteString(conn, "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
	for range most/100_000 + 1 {
		if _, err := io.WriteString(conn, chunk); err != nil {
			break
		}
	}
	reading.Wait()
	if !strings.Contains(string(answer), "too-large") {
		t.Errorf("a body without a length: %q", answer)
	}
	// One that does not come whole.
	if status := asks(t, w.dial(), "POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n"); status != 400 {
		t.Errorf("a negative length: %d", status)
	}
}

// TestLoginsAreSmallAndTakeNoPlaceOfUploads: anybody may send one.
func TestLoginsAreSmallAndTakeNoPlaceOfUploads(t *testing.T) {
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
	if status := asks(t, w.dial(), put); status != 201 {
		t.Errorf("an upload beside them: status %d", status)
	}
}

// TestOneHeavyRequestAtATime: the next request waits for a while, then gets 429 and Retry-After. Scrapes have
// a place of their own.
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
			if took := time.Since(start); took < heavyWait || a.header.Get("Retry-After") == "" {
				t.Errorf("refused after %v, Retry-After %q", took, a.header.Get("Retry-After"))
			}
			time.AfterFunc(heavyWait/4, leave)
			w.do("GET", refused, ask{}).wants(t, 200, "")
			w.do("GET", refused, ask{}).wants(t, 200, "")
		})
	}
}

// TestPanicIsAnswered: the server lives on, and says which request it was.
func TestPanicIsAnswered(t *testing.T) {
	w := newWorld(t, setup{})
	w.web.metrics.handler = nil
	a := w.do("GET", "/metrics", ask{token: readToken}).wants(t, 500, "internal")
	if !strings.Contains(w.logged.String(), a.problem(t).RequestID) {
		t.Errorf("the log does not name the request: %s", w.logged)
	}
	w.do("GET", "/readyz", ask{}).wants(t, 200, "")
}

// TestAllTubesTakeAPlaceWhileTheyAreMade: and none while a client reads them slowly.
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
	if all := w.do("GET", "/metrics/tubes?family=age", ask{}).wants(t, 200, "").body; strings.Count(all, "\n") != 4001+2 {
		t.Errorf("%d lines", strings.Count(all, "\n"))
	}
}

// TestHalfClosedClientHearsWhatItsChangeHasDone: a client that has closed its half of the
// connection behind a request still reads, while the journal is waited for.
func TestHalfClosedClientHearsWhatItsChangeHasDone(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate, dir: t.TempDir()})
	const body = `{"body":"x"}`
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				conn := w.dial()
				fmt.Fprintf(conn, "POST /api/v1/tubes/half/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
					t.Error(err)
				}
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusCreated {
					t.Errorf("status %d: %s", res.StatusCode, text)
				}
			}
		})
	}
	all.Wait()
	if n := len(w.list("/api/v1/tubes/half/jobs", "")); n != 80 {
		t.Errorf("%d jobs are there", n)
	}
}

// TestWholeBodiesAreSentInPieces: however they are cut, they are the same, and clients that do not
// read cost no memory.
func TestWholeBodiesAreSentInPieces(t *testing.T) {
	const size = 16 << 20
	w := newWorld(t, setup{anonymous: access.Operate, maxJob: size})
	octets := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(octets)
	for id, body := range []string{"", "x", strings.Repeat("é日\"<\n", 300_000), string(octets), strings.Repeat("é", 1<<20) + "\xc3", strings.Repeat("x", size)} {
		if _, err := w.srv.Operator().Put(t.Context(), newJob("mail", body)); err != nil {
			t.Fatal(err)
		}
		j := get[wire.Job](w, fmt.Sprintf("/api/v1/jobs/%d?body=full", id+1))
		if want := wire.NewContent([]byte(body), len(body)); !reflect.DeepEqual(j.Content, want) {
			t.Errorf("body %d has %d bytes, and is another one", id, j.Size)
		}
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range 8 {
		conn := w.dial()
		fmt.Fprint(conn, "GET /api/v1/jobs/6?body=full HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", res, err)
		}
	}
	if more := int64(heap()) - int64(before); more > size {
		t.Errorf("8 clients that do not read a body of %d bytes cost %d", size, more)
	}
}
