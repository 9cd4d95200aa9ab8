package http

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	wire "polystalk/codec/admin"
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
		k.keep(a, now, func() { a.status, a.location, a.body = 201, "../../jobs/123456", make([]byte, 1<<10) })
		taken++
	}
	return taken
}

// TestKeysAreKeptForTenMinutes, however many other keys are added, and no longer.
func TestKeysAreKeptForTenMinutes(t *testing.T) {
	var k keyStore
	now := time.Now()
	first := keyOf{"a", "00000000-1234-5678-9abc-def012345678"}
	answerKept(t, &k, "a", 1, now)
	k.begin(keyOf{"a", "under way"}, [32]byte{}, now)
	for _, name := range []string{"b", "a ", "c"} {
		answerKept(t, &k, name, 25_000, now.Add(time.Second))
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
	if n := answerKept(t, &k, "many", 40_000, now); n < 15_000 || n > 30_000 {
		t.Errorf("%d keys of one caller fit", n)
	}
	n := answerKept(t, &k, "few", 5000, now)
	expect(t, n == 5000, "of another's 5000 keys %d fit", n)
}

// TestKeysTakeAsMuchMemoryAsIsCounted, or less.
func TestKeysTakeAsMuchMemoryAsIsCounted(t *testing.T) {
	var k keyStore
	before := heap()
	answerKept(t, &k, "many", 40_000, time.Now())
	n := heap() - before
	expect(t, n <= k.all, "%d keys take %d bytes, and %d are counted", len(k.kept), n, k.all)
	runtime.KeepAlive(&k)
}

// keyed serves POST /test with a handler. It returns a function that sends a request with a key, if
// the key is not empty.
func keyed(t *testing.T, handler func(*call) error) (w *world, send func(key string) *answer) {
	w = newWorld(t, setup{anonymous: "operate", prepare: func(a *API) {
		a.handle([]route{{pattern: "POST /test", need: manage, flags: takesBody, handler: handler}})
	}})
	return w, func(key string) *answer {
		a := ask{body: "x"}
		if key != "" {
			a.header = map[string]string{"Idempotency-Key": key}
		}
		return w.do("POST", "/test", a)
	}
}

// TestKeyOutlivesItsConnection: a client often retries because it lost the connection before
// the request was done.
func TestKeyOutlivesItsConnection(t *testing.T) {
	var calls atomic.Int32
	begun := make(chan struct{})
	w, send := keyed(t, func(c *call) error {
		if calls.Add(1) == 1 {
			close(begun)
			<-c.R.Context().Done() // the connection is closed
		}
		if c.Ctx.Err() != nil {
			return wire.Busy.Problem("given up")
		}
		return c.text(http.StatusCreated, "done")
	})
	conn := w.dial()
	io.WriteString(conn, "POST /test HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nIdempotency-Key: k\r\n\r\nx")
	<-begun
	conn.Close()
	a := send("k").wants(t, 201, "")
	expect(t, a.body == "done" && a.header.Get("Idempotency-Replayed") == "true" && calls.Load() == 1, "%+v, done %d times", a, calls.Load())
}

// TestUncertainAnswerIsKept: a request that may have been executed is not executed again, and the
// answer does not suggest a retry. A refused request may be retried.
func TestUncertainAnswerIsKept(t *testing.T) {
	var calls atomic.Int32
	kind := wire.Uncertain
	_, send := keyed(t, func(*call) error {
		calls.Add(1)
		return kind.Problem("")
	})
	wants := func(key string, status int, again bool, n int32) {
		t.Helper()
		a := send(key).wants(t, status, "")
		expect(t, (a.header.Get("Retry-After") != "") == again && calls.Load() == n, "%+v after %d calls, want %d", a, calls.Load(), n)
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
	w, send := keyed(t, func(c *call) error { return c.text(http.StatusCreated, fmt.Sprint(calls.Add(1))) })
	send("known").wants(t, 201, "").has(t, "1")
	w.web.keys.charge("", keysMax-w.web.keys.all)
	after := send("new").wants(t, 429, "too-many-keys").header.Get("Retry-After")
	n, err := strconv.Atoi(after)
	expect(t, err == nil && n >= 500 && n <= 600, "Retry-After is %q", after)
	for key, want := range map[string]string{"known": "1", "": "2"} {
		send(key).wants(t, 201, "").has(t, want)
	}
}
