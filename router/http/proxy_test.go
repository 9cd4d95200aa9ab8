package http

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestASlowBodyTakesNoTimeFromTheAnswer: another server may take its time for both, one after the
// other, and as much as it likes for what follows the beginning of its answer.
func TestASlowBodyTakesNoTimeFromTheAnswer(t *testing.T) {
	tests := []struct {
		name         string
		sent, begins time.Duration // from the beginning, and from then on
		late         bool
	}{
		{"both take long", askedWithin - time.Second, elsewhereWithin - time.Second, false},
		{"it is not sent", askedWithin + time.Second, 0, true},
		{"it is not answered", askedWithin - time.Second, elsewhereWithin + time.Second, true},
		{"it is sent at once", 0, elsewhereWithin + time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				defer there.Close()
				transport := &http.Transport{
					DisableKeepAlives: true,
					DialContext:       func(context.Context, string, string) (net.Conn, error) { return here, nil },
				}
				ended := make(chan struct{})
				defer func() { <-ended }()
				go func() {
					defer close(ended)
					io.ReadFull(there, make([]byte, 1)) // the rest waits
					time.Sleep(tt.sent)
					drained := make(chan struct{})
					go func() {
						defer close(drained)
						io.Copy(io.Discard, there)
					}()
					time.Sleep(tt.begins)
					io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
					time.Sleep(2 * (askedWithin + elsewhereWithin))
					io.WriteString(there, "done")
					<-drained
				}()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				ctx, answered := impatient(ctx, cancel)
				defer answered()
				req, err := http.NewRequestWithContext(ctx, "POST", "http://leader/", strings.NewReader(strings.Repeat("x", 64<<10)))
				noErr(t, err)
				res, err := transport.RoundTrip(req)
				if tt.late {
					expect(t, errors.Is(context.Cause(ctx), context.DeadlineExceeded), "it is answered: %v, %v", res, err)
					return
				}
				noErr(t, err)
				defer res.Body.Close()
				answered()
				if b, err := io.ReadAll(res.Body); string(b) != "done" || err != nil {
					t.Errorf("%q, %v", b, err)
				}
			})
		})
	}
}

// TestAnAnswerBeforeTheEndOfABody bounds nothing that follows it.
func TestAnAnswerBeforeTheEndOfABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		ctx, answered := impatient(ctx, cancel)
		answered()
		httptrace.ContextClientTrace(ctx).WroteRequest(httptrace.WroteRequestInfo{})
		time.Sleep(2 * elsewhereWithin)
		if ctx.Err() != nil {
			t.Error(context.Cause(ctx))
		}
	})
}
