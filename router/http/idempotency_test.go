package http

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// answer begins and answers n requests of a caller, and returns how many were not refused.
func answerKept(t *testing.T, k *keyStore, name string, n int, now time.Time) (taken int) {
	t.Helper()
	for i := range n {
		a, first, wait := k.begin(keyOf{name, fmt.Sprintf("%08d-1234-5678-9abc-def012345678", i)}, [32]byte{}, now)
		switch {
		case a == nil && wait > keyFor:
			t.Fatalf("key %d is to wait for %v", i, wait)
		case a == nil:
			continue
		case !first:
			t.Fatal("a new key is known")
		}
		k.keep(a, now, func() { a.status, a.location, a.body = 201, "../../jobs/123456", []byte("{\"id\":\"123456\"}\n") })
		taken++
	}
	return taken
}

// TestKeysAreKeptForTenMinutes: however many others come, and no longer.
func TestKeysAreKeptForTenMinutes(t *testing.T) {
	var k keyStore
	now := time.Now()
	first := keyOf{"a", "00000000-1234-5678-9abc-def012345678"}
	answerKept(t, &k, "a", 1, now)
	k.begin(keyOf{"a", "under way"}, [32]byte{}, now)
	for _, name := range []string{"b", "a ", "c"} {
		answerKept(t, &k, name, 100_000, now.Add(time.Second))
	}
	expect(t, k.all <= keysMax, "the keys take %d bytes", k.all)
	for _, key := range []keyOf{first, {"a", "under way"}} {
		a, first, _ := k.begin(key, [32]byte{}, now.Add(keyFor-1))
		expect(t, a != nil && !first, "%v is forgotten", key)
	}
	if a, first, _ := k.begin(first, [32]byte{}, now.Add(keyFor)); a == nil || !first {
		t.Error("an old key is known")
	} else {
		k.forget(a)
	}
	k.begin(first, [32]byte{}, now.Add(keyFor+time.Second))
	expect(t, len(k.kept) == 2 && len(k.held) == 1 && len(k.order) == 0 && k.all == k.held["a"], "%d keys, %d answered, of %v, take %d bytes", len(k.kept), len(k.order), k.held, k.all)
}

// TestKeysOfOneCallerLeaveRoomForOthers: the server refuses only the caller that sends more keys than fit.
func TestKeysOfOneCallerLeaveRoomForOthers(t *testing.T) {
	var k keyStore
	now := time.Now()
	if n := answerKept(t, &k, "many", 200_000, now); n < 50_000 || n > 100_000 {
		t.Errorf("%d keys of one caller fit", n)
	}
	n := answerKept(t, &k, "few", 10_000, now)
	expect(t, n == 10_000, "of another's 10000 keys %d fit", n)
}

// TestKeysTakeAsMuchMemoryAsIsCounted, at most.
func TestKeysTakeAsMuchMemoryAsIsCounted(t *testing.T) {
	var k keyStore
	before := heap()
	answerKept(t, &k, "many", 200_000, time.Now())
	n := heap() - before
	expect(t, n <= k.all, "%d keys take %d bytes, and %d are counted", len(k.kept), n, k.all)
	runtime.KeepAlive(&k)
}

// TestRefusedRequestsTakeNoMemory: they may be tried again with their keys.
func TestRefusedRequestsTakeNoMemory(t *testing.T) {
	var k keyStore
	for i := range 1000 {
		a, _, _ := k.begin(keyOf{"a", fmt.Sprint(i)}, [32]byte{}, time.Now())
		k.forget(a)
	}
	expect(t, len(k.kept) == 0 && len(k.order) == 0 && len(k.held) == 0 && k.all == 0, "%d keys of %v take %d bytes", len(k.kept), k.held, k.all)
}

// keyed serves POST / by a handler to everybody, until the test ends, and returns what sends
// a request with a key, if that is not empty.
func keyed(t *testing.T, handler func(*call) error) (s *server, send func(ctx context.Context, key string) (*http.Response, string, error)) {
	t.Helper()
	s, err := newServer(serverOptions{
		Log: slog.New(slog.DiscardHandler), Ready: func() error { return nil },
		MaxJobSize: func() uint32 { return 1 << 16 }, Observe: func(string, string, int, time.Duration) {},
	})
	noErr(t, err)
	s.handle([]route{{pattern: "POST /", need: access.Operate, flags: takesBody, handler: handler}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	go s.Serve(l, Door{Anonymous: access.Operate})
	t.Cleanup(s.close)
	return s, func(ctx context.Context, key string) (*http.Response, string, error) {
		r, err := http.NewRequestWithContext(ctx, "POST", "http://"+l.Addr().String()+"/", bytes.NewReader([]byte("x")))
		if err != nil {
			return nil, "", err
		}
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return res, string(b), err
	}
}

// TestKeyOutlivesItsConnection: a client often retries because it lost the connection before
// the request was done.
func TestKeyOutlivesItsConnection(t *testing.T) {
	var calls atomic.Int32
	begun := make(chan struct{})
	_, send := keyed(t, func(c *call) error {
		if calls.Add(1) == 1 {
			close(begun)
			<-c.R.Context().Done() // the connection is gone
		}
		if c.Ctx.Err() != nil {
			return wire.Busy.Problem("given up")
		}
		return c.text(http.StatusCreated, "done")
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
	expect(t, err == nil && res.StatusCode == http.StatusCreated && body == "done" && res.Header.Get("Idempotency-Replayed") == "true", "%v %q %v", res, body, err)
	n := calls.Load()
	expect(t, n == 1, "it was done %d times", n)
}

// TestUncertainAnswerIsKept: what may have been done is not done again, and the client is not told
// to retry; a refused request may be retried.
func TestUncertainAnswerIsKept(t *testing.T) {
	var calls atomic.Int32
	kind := wire.Uncertain
	_, send := keyed(t, func(*call) error {
		calls.Add(1)
		return kind.Problem("")
	})
	wants := func(key string, status int, again bool, n int32) {
		t.Helper()
		res, body, err := send(t.Context(), key)
		expect(t, err == nil && res.StatusCode == status && (res.Header.Get("Retry-After") != "") == again, "%v %q %v", res, body, err)
		got := calls.Load()
		expect(t, got == n, "%d calls, want %d", got, n)
	}
	wants("k", 503, false, 1)
	wants("k", 503, false, 1)
	kind = wire.Busy
	wants("k", 503, false, 1)
	wants("other", 429, true, 2)
	wants("other", 429, true, 3)
}

// TestNewKeysAreRefusedWhenTheMemoryIsFull: known keys and requests without a key are served.
func TestNewKeysAreRefusedWhenTheMemoryIsFull(t *testing.T) {
	var calls atomic.Int32
	s, send := keyed(t, func(c *call) error { return c.text(http.StatusCreated, fmt.Sprint(calls.Add(1))) })
	if _, body, err := send(t.Context(), "known"); err != nil || body != "1" {
		t.Fatal(body, err)
	}
	s.keys.charge("", keysMax-s.keys.all)
	res, body, err := send(t.Context(), "new")
	require(t, err == nil && res.StatusCode == http.StatusTooManyRequests && strings.Contains(body, "too-many-keys"), "%v %q %v", res, body, err)
	if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err != nil || n < 500 || n > 600 {
		t.Errorf("Retry-After is %q", res.Header.Get("Retry-After"))
	}
	for key, want := range map[string]string{"known": "1", "": "2"} {
		res, body, err := send(t.Context(), key)
		expect(t, err == nil && res.StatusCode == http.StatusCreated && body == want, "key %q: %v %q %v", key, res, body, err)
	}
}
