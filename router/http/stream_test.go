package http

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/router/access"
)

// streaming starts a server with a stream at /test. Its timeouts of requests are so short that a
// stream soon outlives them.
func streaming(t *testing.T, handler func(c *call) error) *world {
	return newWorld(t, setup{anonymous: access.Read, prepare: func(a *API) {
		a.handle([]route{{pattern: "GET /test", need: access.Read, flags: streams, handler: handler}})
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
