package http

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/router/access"
)

// streaming is a server with one route, which streams.
func streaming(t *testing.T, handler func(c *call) error) (s *server, addr string) {
	t.Helper()
	var lasted atomic.Int64 // nanoseconds: the last stream
	s, err := newServer(serverOptions{
		Log: slog.New(slog.DiscardHandler), Ready: func() error { return nil }, MaxJobSize: func() uint32 { return 0 },
		Observe: func(route, method string, status int, took time.Duration) {
			l := time.Duration(lasted.Load())
			expect(t, l <= 500*time.Millisecond || took < l, "%s is said to have been answered after %v, when the stream had ended", route, took)
		},
	})
	noErr(t, err)
	s.handle([]route{{pattern: "GET /events", need: access.Read, flags: streams, handler: func(c *call) error {
		start := time.Now()
		defer func() { lasted.Store(int64(time.Since(start))) }()
		return handler(c)
	}}})
	// Much shorter than they are, so that a stream outlives them soon.
	s.http.ReadTimeout, s.http.WriteTimeout, s.http.IdleTimeout = 200*time.Millisecond, 200*time.Millisecond, 200*time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l, Door{Anonymous: access.Read}) }()
	t.Cleanup(func() {
		s.close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, l.Addr().String()
}

// asked sends a request for the stream.
func asked(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	noErr(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(conn, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	return conn, bufio.NewReader(resp.Body)
}

// TestStreamsOutliveTheLimitsOfRequests: of reading, of answering, and of rest.
func TestStreamsOutliveTheLimitsOfRequests(t *testing.T) {
	long(t)
	_, addr := streaming(t, func(c *call) error {
		e := c.eventStream(time.Second)
		defer e.close()
		for n := 0; e.send() == nil && n < 20; n++ {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-c.Ctx.Done():
				return nil
			}
			e.event(fmt.Sprint(n), "tick", []byte(`{}`))
			e.comment()
		}
		return nil
	})
	_, r := asked(t, addr)
	var all strings.Builder
	_, err := r.WriteTo(&all)
	expect(t, err == nil, "it ends with %v", err)
	want := "id: 18\nevent: tick\ndata: {}\n\n: \n\n"
	expect(t, strings.Count(all.String(), "event: tick") >= 19 && strings.Contains(all.String(), want) && strings.HasPrefix(all.String(), "retry: 1000\n\n"), "there is\n%s", &all)
}

// TestStopEndsAStreamThatIsNotRead in the middle of an event.
func TestStopEndsAStreamThatIsNotRead(t *testing.T) {
	full := make(chan struct{}, 1)
	s, addr := streaming(t, func(c *call) error {
		e := c.eventStream(time.Second)
		defer e.close()
		e.w.within = time.Hour // so that it does not end the stream
		full <- struct{}{}
		e.event("1", "large", make([]byte, 64<<20))
		expect(t, e.send() != nil, "all of it was taken")
		return nil
	})
	conn, err := net.Dial("tcp", addr)
	noErr(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-full
	time.Sleep(200 * time.Millisecond)
	s.shutdown(context.Background()) // it would wait for ever
}
