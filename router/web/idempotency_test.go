package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

func TestKeysAreForgotten(t *testing.T) {
	var k keyStore
	now := time.Unix(1e9, 0)
	for i := range 3 * keysMax {
		a, first := k.begin(keyOf{"", fmt.Sprint(i)}, [32]byte{}, now)
		if !first {
			t.Fatal("a new key is known")
		}
		close(a.done)
	}
	if len(k.kept) > keysMax || len(k.order) != len(k.kept) {
		t.Errorf("%d keys, %d in order", len(k.kept), len(k.order))
	}
	if _, first := k.begin(keyOf{"", fmt.Sprint(3*keysMax - 1)}, [32]byte{}, now.Add(keyFor-1)); first {
		t.Error("the newest is forgotten")
	}
	if _, first := k.begin(keyOf{"", fmt.Sprint(3*keysMax - 1)}, [32]byte{}, now.Add(keyFor)); !first || len(k.kept) != 1 {
		t.Errorf("an old one is known; %d are kept", len(k.kept))
	}
}

// TestKnownKeysPushNoneOut: as many as are kept can be sent again, the oldest too.
func TestKnownKeysPushNoneOut(t *testing.T) {
	var k keyStore
	now := time.Unix(1e9, 0)
	for round := range 2 {
		for i := range keysMax {
			a, first := k.begin(keyOf{"", fmt.Sprint(i)}, [32]byte{}, now)
			if first {
				close(a.done)
			}
			if first != (round == 0) {
				t.Fatalf("round %d: key %d is the first: %t", round, i, first)
			}
		}
	}
}

// TestKeysUnderWayAreNotPushedOut: else the same would be done twice at the same time.
func TestKeysUnderWayAreNotPushedOut(t *testing.T) {
	var k keyStore
	now := time.Unix(1e9, 0)
	slow := keyOf{"", "slow"}
	k.begin(slow, [32]byte{}, now)
	for i := range 2 * keysMax {
		a, _ := k.begin(keyOf{"", fmt.Sprint(i)}, [32]byte{}, now)
		close(a.done)
	}
	if _, first := k.begin(slow, [32]byte{}, now); first {
		t.Error("a key is forgotten before its request is answered")
	}
	if len(k.kept) != keysMax || len(k.order) != keysMax {
		t.Errorf("%d keys, %d in order", len(k.kept), len(k.order))
	}
}

// keyed serves POST / by a handler to everybody, until the test ends, and returns what sends
// a request with a key.
func keyed(t *testing.T, handler func(*Call) error) (send func(ctx context.Context, key string) (*http.Response, string, error)) {
	t.Helper()
	s, err := New(Options{
		Log: slog.New(slog.DiscardHandler), Ready: func() error { return nil },
		MaxJobSize: func() uint32 { return 1 << 16 }, Observe: func(string, string, int, time.Duration) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Handle([]Route{{Pattern: "POST /", Flags: TakesBody, Handler: handler}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l, access.Operate)
	t.Cleanup(s.Close)
	return func(ctx context.Context, key string) (*http.Response, string, error) {
		r, err := http.NewRequestWithContext(ctx, "POST", "http://"+l.Addr().String()+"/", bytes.NewReader([]byte("x")))
		if err != nil {
			return nil, "", err
		}
		r.Header.Set("Idempotency-Key", key)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return res, string(b), err
	}
}

// TestKeyOutlivesItsConnection: whoever sends a request again has often lost the connection on
// which he sent it first, before it was done.
func TestKeyOutlivesItsConnection(t *testing.T) {
	var calls atomic.Int32
	begun := make(chan struct{})
	send := keyed(t, func(c *Call) error {
		if calls.Add(1) == 1 {
			close(begun)
			<-c.R.Context().Done() // the connection is gone
		}
		if c.Ctx.Err() != nil {
			return wire.Busy.Problem("given up")
		}
		return c.Text(http.StatusCreated, "done")
	})
	ctx, cancel := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	go func() {
		_, _, err := send(ctx, "k")
		lost <- err
	}()
	<-begun
	cancel()
	if err := <-lost; err == nil {
		t.Fatal("the first request was answered")
	}
	res, body, err := send(t.Context(), "k")
	if err != nil || res.StatusCode != http.StatusCreated || body != "done" || res.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%v %q %v", res, body, err)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("it was done %d times", n)
	}
}

// TestUncertainAnswerIsKept: what may have been done is not done again, and nobody is told to
// try it again; what was refused may be tried.
func TestUncertainAnswerIsKept(t *testing.T) {
	var calls atomic.Int32
	kind := wire.Uncertain
	send := keyed(t, func(*Call) error {
		calls.Add(1)
		return kind.Problem("")
	})
	wants := func(key string, status int, again bool, n int32) {
		t.Helper()
		res, body, err := send(t.Context(), key)
		if err != nil || res.StatusCode != status || (res.Header.Get("Retry-After") != "") != again {
			t.Errorf("%v %q %v", res, body, err)
		}
		if got := calls.Load(); got != n {
			t.Errorf("%d calls, want %d", got, n)
		}
	}
	wants("k", 503, false, 1)
	wants("k", 503, false, 1)
	kind = wire.Busy
	wants("k", 503, false, 1)
	wants("other", 429, true, 2)
	wants("other", 429, true, 3)
}
