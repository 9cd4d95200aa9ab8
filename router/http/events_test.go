package http

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	wire "polystalk/codec/admin"
)

// A reading is a client of the event stream.
type reading struct {
	t    *testing.T
	conn net.Conn
	resp *http.Response
	body *bufio.Reader
}

// An event is an event as it was sent.
type event struct{ id, name, data string }

// stream opens an event stream, which must answer 200.
func (w *world) stream(query string, header ...string) *reading {
	w.t.Helper()
	r := w.streamed("GET", query, header...)
	if r.resp.StatusCode != 200 || r.resp.Header.Get("Content-Type") != "text/event-stream" || r.resp.Header.Get("X-Accel-Buffering") != "no" {
		b, _ := io.ReadAll(r.resp.Body)
		w.t.Fatalf("%v: %s", r.resp, b)
	}
	line := r.line()
	require(w.t, line == "retry: 3000" && r.line() == "", "it begins with %q", line)
	return r
}

// streamed requests a stream.
func (w *world) streamed(method, query string, header ...string) *reading {
	w.t.Helper()
	conn := w.dial()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(conn, "%s /api/v1/events?%s HTTP/1.1\r\nHost: localhost\r\n", method, query)
	for _, h := range header {
		fmt.Fprintf(conn, "%s\r\n", h)
	}
	fmt.Fprint(conn, "\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	noErr(w.t, err)
	return &reading{w.t.(*testing.T), conn, resp, bufio.NewReader(resp.Body)}
}

func (r *reading) line() string {
	r.t.Helper()
	line, err := r.body.ReadString('\n')
	noErr(r.t, err)
	return strings.TrimSuffix(line, "\n")
}

// next returns the next event; it skips comments.
func (r *reading) next() (e event) {
	r.t.Helper()
	for {
		line := r.line()
		switch field, value, _ := strings.Cut(line, ": "); field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e != (event{}) {
				return e
			}
		default:
			r.t.Fatalf("a line %q", line)
		}
	}
}

// want reads events of a name until one fits.
func want[T any](r *reading, name string, fits func(v *T) bool) *T {
	r.t.Helper()
	for range 200 {
		e := r.next()
		if e.name != name {
			continue
		}
		v := new(T)
		d := json.NewDecoder(strings.NewReader(e.data))
		d.DisallowUnknownFields()
		err := d.Decode(v)
		require(r.t, err == nil, "%v: %s", err, e.data)
		if fits == nil || fits(v) {
			return v
		}
	}
	r.t.Fatalf("no event %s fits", name)
	return nil
}

// ends returns the time until the stream ends without an error.
func (r *reading) ends() time.Duration {
	r.t.Helper()
	start := time.Now()
	_, err := io.Copy(io.Discard, r.body)
	expect(r.t, err == nil, "it ends with %v", err)
	return time.Since(start)
}

// open waits until n streams are open.
func (w *world) open(n int) {
	w.t.Helper()
	for range 1000 {
		if len(w.web.streams) == n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.t.Fatalf("%d streams are open, want %d", len(w.web.streams), n)
}

// TestTopicsAreFollowed in one stream: the server and its journal each second with growing ids,
// the tubes of a view, one tube of any name, and an operation, until each shows what was done.
func TestTopicsAreFollowed(t *testing.T) {
	long(t)
	t.Parallel()
	w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir()})
	w.put("mail-a", 1)
	w.put("mail-b", 1)
	w.put("other", 1)
	w.do("POST", "/api/v1/operations", ask{json: true, body: `{"action":"bury","select":{"tube":"other"}}`}).wants(t, 200, "")
	odd := "a,b%2F\xff/ü"
	topic := "tube:" + strings.ReplaceAll(wire.PathName(odd), "%", "%25") // encoded as a path, and again as a parameter
	r := w.stream("topics=server,journal,operation:1,"+topic+",tubes&match=mail-*&sort=-ready&limit=2", "Last-Event-ID: 99999999")
	first := make(map[string]event)
	for len(first) < 5 {
		e := r.next()
		id, err := strconv.Atoi(e.id)
		require(t, err == nil && id > 0 && id < 10 && first[e.name] == (event{}), "the first events have %+v after %v", e, first)
		first[e.name] = e
	}
	for name, part := range map[string]string{"server": `"version":"v1"`, "journal": `"enabled":true`, "operation": `"state":"done"`, "tube": `"tube":null`, "tubes": `"whole":true`} {
		expect(t, strings.Contains(first[name].data, part), "%s begins with %s", name, first[name].data)
	}
	w.put("mail-c", 3)
	last := want(r, "tubes", func(v *wire.TubesEvent) bool { return len(v.Gone) > 0 })
	expect(t, !last.Whole && last.Matching == 3 && last.Tubes[0].Name == "mail-c" && last.Tubes[0].Jobs.Ready == 3, "then there is %+v", last)
	is := func(there bool) func(v *wire.TubeEvent) bool {
		return func(v *wire.TubeEvent) bool {
			return v.Name == wire.ShownName(odd) && v.Path == wire.PathName(odd) && (v.Tube != nil) == there
		}
	}
	id, err := w.srv.Operator().Put(t.Context(), newJob(odd, "x"))
	noErr(t, err)
	want(r, "tube", is(true))
	w.do("DELETE", fmt.Sprintf("/api/v1/jobs/%d", id), ask{}).wants(t, 204, "")
	want(r, "tube", is(false))
	before := want[wire.Server](r, "server", nil).AsOf
	after := want[wire.Server](r, "server", nil).AsOf
	expect(t, after.Sub(before) >= time.Second/2, "the server is shown again after %v", after.Sub(before))
}

// TestTheSixtyFifthIsRefused, but served once another stream has ended.
func TestTheSixtyFifthIsRefused(t *testing.T) {
	w := newWorld(t, setup{anonymous: "read"})
	var all []*reading
	for range streamsMax {
		all = append(all, w.stream("topics=server"))
	}
	a := w.do("GET", "/api/v1/events?topics=server", ask{}).wants(t, 429, "busy")
	expect(t, a.header.Get("Retry-After") != "" && strings.Contains(a.problem(t).Remedy, "close"), "%v %s", a.header, a.body)
	got := w.do("GET", "/metrics", ask{}).body
	expect(t, strings.Contains(got, "\npolystalk_http_event_streams 64\n"), "the metric of streams has another value")
	all[7].conn.Close()
	w.open(streamsMax - 1)
	w.stream("topics=server").next()
	// Other requests are still served.
	w.do("GET", "/api/v1/server", ask{}).wants(t, 200, "")
}

// TestATokenThatIsGoneEndsItsStreams; other streams stay open.
func TestATokenThatIsGoneEndsItsStreams(t *testing.T) {
	long(t)
	t.Parallel()
	w := newWorld(t, setup{})
	gone := w.stream("topics=server", "Authorization: Bearer "+readToken)
	stays := w.stream("topics=server", "Authorization: Bearer "+operateToken)
	login := w.do("POST", "/api/v1/session", ask{json: true, body: fmt.Sprintf(`{"token": %q}`, readToken)}).wants(t, 200, "")
	cookie, _, _ := strings.Cut(login.header.Get("Set-Cookie"), ";")
	session := w.stream("topics=server", "Cookie: "+cookie)
	for _, r := range []*reading{gone, stays, session} {
		r.next()
	}
	w.reload(accessText("reader"))
	for _, r := range []*reading{gone, session} {
		r.ends()
	}
	w.open(1)
	stays.next()
}

// TestClientsThatReadNothing: their memory is bounded, clients that read are not delayed, and in
// the end the server closes their streams, so that other clients can open streams.
func TestClientsThatReadNothing(t *testing.T) {
	long(t)
	w := newWorld(t, setup{anonymous: "operate"})
	w.tubesOf(2000)
	reader := w.stream("topics=server")
	reader.next()
	before := heap()
	request := "GET /api/v1/events?topics=server,tubes&limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
	var conns []net.Conn
	for range 200 {
		conn := w.dial()
		io.WriteString(conn, request)
		conns = append(conns, conn)
	}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() { // all tubes change all the time
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				w.put(fmt.Sprintf("tube-%05d", n%2000), 1)
			}
		}
	})
	late, last := time.Duration(0), time.Now()
	most := 0
	for range 8 {
		reader.next()
		late, last = max(late, time.Since(last)), time.Now()
		most = max(most, heap())
	}
	close(stop)
	busy.Wait()
	expect(t, late <= hangs, "an event was late by %v", late)
	expect(t, most <= before+40<<20, "%d MB are in use, and %d before", most>>20, before>>20)
	w.open(1) // streams that are not read have ended
	w.stream("topics=server").next()
	for _, c := range conns {
		c.Close()
	}
}

// streaming starts a server with a stream at /test. Its timeouts of requests are so short that a
// stream soon outlives them.
func streaming(t *testing.T, handler func(c *call) error) *world {
	return newWorld(t, setup{anonymous: "read", prepare: func(a *API) {
		a.handle([]route{{pattern: "GET /test", need: readServer, flags: streams, handler: handler}})
		a.http.ReadTimeout, a.http.WriteTimeout, a.http.IdleTimeout = 200*time.Millisecond, 200*time.Millisecond, 200*time.Millisecond
	}})
}

// TestStreamsOutliveTheLimitsOfRequests: the timeouts for reading, answering and idling. In the
// metrics, the time of the request ends when the stream begins.
func TestStreamsOutliveTheLimitsOfRequests(t *testing.T) {
	long(t)
	w := streaming(t, func(c *call) error {
		e := c.eventStream(time.Second)
		defer e.close()
		for n := 0; e.send() == nil && n < 20; n++ {
			time.Sleep(50 * time.Millisecond)
			e.event(fmt.Sprint(n), "tick", []byte(`{}`))
			e.comment()
		}
		return nil
	})
	conn := w.dial()
	fmt.Fprint(conn, "GET /test HTTP/1.1\r\nHost: localhost\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require(t, err == nil && resp.StatusCode == 200 && resp.Close, "%v %v", resp, err)
	b, err := io.ReadAll(resp.Body)
	all := string(b)
	expect(t, err == nil && strings.Count(all, "event: tick") >= 19 && strings.HasPrefix(all, "retry: 1000\n\n") &&
		strings.Contains(all, "id: 18\nevent: tick\ndata: {}\n\n: \n\n"), "there is\n%s, %v", all, err)
	took := parseMetrics(t, w.do("GET", "/metrics", ask{}).body)[`polystalk_http_request_seconds_sum{route="GET /test"}`]
	s, err := strconv.ParseFloat(took, 64)
	expect(t, err == nil && s < 0.5, "the answer is said to have taken %s s", took)
}

// TestStopEndsAStreamThatIsNotRead in the middle of an event.
func TestStopEndsAStreamThatIsNotRead(t *testing.T) {
	full := make(chan struct{}, 1)
	w := streaming(t, func(c *call) error {
		e := c.eventStream(time.Second)
		defer e.close()
		e.w.within = time.Hour // so that it does not end the stream
		full <- struct{}{}
		e.event("1", "large", make([]byte, 64<<20))
		expect(t, e.send() != nil, "all of it was taken")
		return nil
	})
	fmt.Fprint(w.dial(), "GET /test HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-full
	time.Sleep(200 * time.Millisecond)
	w.web.Stop(context.Background()) // must not wait for the stream
	w.open(0)
}
