package http

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"polystalk/router/access"
)

// TestHalfClosedClientHearsOfItsChangeWithoutALease: what a leader has to wait for before the change does
// not end with the client's half of the connection either.
func TestHalfClosedClientHearsOfItsChangeWithoutALease(t *testing.T) {
	confirming, confirmed := make(chan bool), make(chan bool)
	s, err := newServer(serverOptions{
		Log: slog.New(slog.DiscardHandler), Ready: func() error { return nil },
		Confirm: func(ctx context.Context) error {
			confirming <- true
			<-confirmed
			return ctx.Err()
		},
		MaxJobSize: func() uint32 { return 1 << 16 }, Observe: func(string, string, int, time.Duration) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	var request context.Context
	s.handle([]route{{pattern: "DELETE /", need: access.Operate, handler: (*call).done}})
	handler := s.http.Handler
	s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request = r.Context()
		handler.ServeHTTP(w, r)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l, access.Operate)
	t.Cleanup(s.close)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-confirming
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	<-request.Done() // net/http takes it for the end of the client
	confirmed <- true
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != http.StatusNoContent {
		t.Fatal(res, err)
	}
}
