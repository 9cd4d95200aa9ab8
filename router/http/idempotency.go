package http

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"strconv"
	"sync"
	"time"

	wire "polystalk/codec/admin"
)

const (
	keyFor    = 10 * time.Minute
	keyLength = 255 // bytes
	// keysMax bounds the memory of all keys, in bytes. keyCost is the memory of one key without
	// its text and its answer.
	keysMax = 64 << 20
	keyCost = 512
)

// A keyStore keeps the answers to requests with an idempotency key. A retry gets the answer to
// the first request, and is not executed. Each answer is kept for keyFor, without eviction: when
// the memory is full, new keys are refused. A caller may hold at most as many bytes as are free
// after that, so a caller with many keys leaves space for the others.
// Source: draft-ietf-httpapi-idempotency-key-header-07.
type keyStore struct {
	mu    sync.Mutex
	kept  map[keyOf]*keptAnswer
	order []*keptAnswer  // the answered ones, the oldest first
	held  map[string]int // bytes by the caller's name
	all   int            // bytes
}

// keyOf is a key and the name of its caller.
type keyOf struct{ name, key string }

// A keptAnswer is the answer to the first request with a key. All fields except the first three
// are set just before done is closed.
type keptAnswer struct {
	key      keyOf
	request  [sha256.Size]byte
	done     chan struct{}
	at       time.Time // of the answer
	status   int       // 0: nothing was changed, and the request may be tried again
	kind     string    // the header Content-Type
	location string
	body     []byte
	problem  error // instead of an answer: the outcome is unknown, so a retry is not executed
}

// size is the memory that the answer takes, in bytes.
func (a *keptAnswer) size() int {
	return keyCost + len(a.key.name) + len(a.key.key) + len(a.location) + len(a.body)
}

// begin finds the answer to a request. For the first request it makes one, which the caller must
// keep or forget. If there is no memory for it, begin returns nil and the time until there is.
func (k *keyStore) begin(key keyOf, request [sha256.Size]byte, now time.Time) (a *keptAnswer, first bool, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.order) > 0 && now.Sub(k.order[0].at) >= keyFor {
		k.remove(k.order[0])
		k.order[0] = nil
		k.order = k.order[1:]
	}
	if a = k.kept[key]; a != nil {
		return a, false, 0
	}
	a = &keptAnswer{key: key, request: request, done: make(chan struct{})}
	if n := a.size(); k.held[key.name]+n > keysMax-k.all-n {
		if len(k.order) > 0 {
			wait = keyFor - now.Sub(k.order[0].at)
		}
		return nil, false, wait
	}
	if k.kept == nil {
		k.kept, k.held = make(map[keyOf]*keptAnswer), make(map[string]int)
	}
	k.kept[key] = a
	k.charge(key.name, a.size())
	return a, true, 0
}

// charge adds n bytes to the memory of a caller. The caller of charge must hold mu.
func (k *keyStore) charge(name string, n int) {
	k.all += n
	if k.held[name] += n; k.held[name] == 0 {
		delete(k.held, name)
	}
}

// remove removes an answer. The caller must hold mu.
func (k *keyStore) remove(a *keptAnswer) {
	delete(k.kept, a.key)
	k.charge(a.key.name, -a.size())
}

// forget removes the answer of a request that did nothing.
func (k *keyStore) forget(a *keptAnswer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(a)
	close(a.done)
}

// keep calls set, which fills the answer, and keeps the answer for keyFor.
func (k *keyStore) keep(a *keptAnswer, now time.Time, set func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := a.size()
	set()
	a.at = now
	k.charge(a.key.name, a.size()-before)
	k.order = append(k.order, a)
	close(a.done)
}

// keysOf returns the keys of a POST that needs a right; other requests have none. Each login is
// another session, and clients without rights must not take memory.
func keysOf(c *call) []string {
	if c.rt.method() != http.MethodPost || !c.rt.need.some {
		return nil
	}
	return c.R.Header.Values("Idempotency-Key")
}

// once handles a request. A POST with the key of an earlier request gets the earlier answer, and
// is not executed. A refused request may be tried again with the same key.
func (a *API) once(c *call) error {
	keys := keysOf(c)
	if len(keys) == 0 {
		return c.rt.run(c)
	}
	if len(keys) > 1 || keys[0] == "" || len(keys[0]) > keyLength {
		return wire.BadRequest.With("Idempotency-Key", "it is empty, too long, or given twice", "give one key of 1 to 255 bytes")
	}
	h := sha256.New()
	h.Write([]byte(c.R.URL.RequestURI() + "\n" + c.R.Header.Get("Content-Type") + "\n"))
	h.Write(c.Body)
	var request [sha256.Size]byte
	h.Sum(request[:0])
	for {
		kept, first, wait := a.keys.begin(keyOf{c.By.Name(), keys[0]}, request, time.Now())
		switch {
		case kept == nil:
			c.W.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			return wire.TooManyKeys.With("Idempotency-Key", "", wire.TooManyKeys.Remedy)
		case kept.request != request:
			return wire.KeyInUse.With("Idempotency-Key", "", wire.KeyInUse.Remedy)
		case first:
			return a.fill(c, kept)
		}
		select {
		case <-kept.done:
		case <-c.Ctx.Done():
			return wire.Busy.Problem("the first request with this key is still running")
		}
		switch {
		case kept.problem != nil:
			return kept.problem
		case kept.status != 0:
			c.Detail = "replayed"
			for name, v := range map[string]string{"Content-Type": kept.kind, "Location": kept.location, "Idempotency-Replayed": "true"} {
				if v != "" {
					c.W.Header().Set(name, v)
				}
			}
			c.W.WriteHeader(kept.status)
			c.W.Write(kept.body)
			return nil
		}
	}
}

// fill handles the first request with a key.
func (a *API) fill(c *call, kept *keptAnswer) (err error) {
	w := &held{ResponseWriter: c.W}
	defer w.send()
	defer func() {
		uncertain := wire.Uncertain.Is(err)
		if w.status == 0 && !uncertain {
			a.keys.forget(kept)
			return
		}
		a.keys.keep(kept, time.Now(), func() {
			if uncertain {
				kept.problem = err
				return
			}
			h := w.Header()
			kept.status, kept.kind, kept.location, kept.body = w.status, h.Get("Content-Type"), h.Get("Location"), bytes.Clone(w.body.Bytes())
		})
	}()
	c.W = w
	return c.rt.run(c)
}
