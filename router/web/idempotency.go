package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	wire "polystalk/codec/admin"
)

const (
	keysMax   = 1000
	keyFor    = 10 * time.Minute
	keyLength = 255 // bytes
	// keptMax is the largest answer that is kept; all that have keys are smaller.
	keptMax = 64 << 10
)

// A keyStore keeps the answers to requests that have named themselves, so that one that is
// sent again, because its answer was lost, is not done again.
// Source: draft-ietf-httpapi-idempotency-key-header-07.
type keyStore struct {
	mu    sync.Mutex
	kept  map[keyOf]*keptAnswer
	order []keyOf // the oldest first
}

// keyOf is a key and who has chosen it.
type keyOf struct{ name, key string }

// A keptAnswer is what was answered, once done is closed.
type keptAnswer struct {
	request [sha256.Size]byte
	at      time.Time
	done    chan struct{}
	status  int // 0: it came to nothing, and the request may be tried again
	header  http.Header
	body    []byte
	problem *wire.Problem // instead: it is not known what came of it, so it is not to be tried again
}

// isAnswered reports whether it is, or came to nothing.
func (a *keptAnswer) isAnswered() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// begin finds the answer to a request, or makes a new one, which is first to be filled.
func (k *keyStore) begin(key keyOf, request [sha256.Size]byte, now time.Time) (a *keptAnswer, first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := 0
	for old < len(k.order) && now.Sub(k.kept[k.order[old]].at) >= keyFor {
		delete(k.kept, k.order[old])
		old++
	}
	k.order = k.order[old:]
	if a = k.kept[key]; a != nil {
		return a, false
	}
	if len(k.order) >= keysMax {
		// There is one: no more are under way than there are connections.
		if i := slices.IndexFunc(k.order, func(o keyOf) bool { return k.kept[o].isAnswered() }); i >= 0 {
			delete(k.kept, k.order[i])
			k.order = slices.Delete(k.order, i, i+1)
		}
	}
	if k.kept == nil {
		k.kept = make(map[keyOf]*keptAnswer)
	}
	a = &keptAnswer{request: request, at: now, done: make(chan struct{})}
	k.kept[key] = a
	k.order = append(k.order, key)
	return a, true
}

// forget takes an answer away that came to nothing.
func (k *keyStore) forget(key keyOf, a *keptAnswer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept[key] == a {
		delete(k.kept, key)
		i := slices.Index(k.order, key)
		k.order = slices.Delete(k.order, i, i+1)
	}
}

// copied writes an answer, and keeps a copy.
type copied struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *copied) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find what it needs.
func (w *copied) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *copied) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.body.Len() <= keptMax {
		w.body.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// keysOf are the keys by which a request has named itself; nil: it has not, or need not.
func keysOf(rt *Route, r *http.Request) []string {
	if rt.Method() != http.MethodPost {
		return nil
	}
	return r.Header.Values("Idempotency-Key")
}

// operationOf returns the context of the operation that a request asks for. A change goes on when
// the client has closed its half of the connection, which net/http takes for the client's end:
// the client may still read, and what is submitted takes place in any case. A read ends.
func operationOf(rt *Route, r *http.Request) context.Context {
	if rt.Changes() {
		return context.WithoutCancel(r.Context())
	}
	return r.Context()
}

// once has a request handled, unless it is a POST with a key that was handled before: that
// is answered as it was then. What was refused may be tried again with the same key.
func (s *Server) once(rt *Route, c *Call) error {
	keys := keysOf(rt, c.R)
	if len(keys) == 0 {
		return rt.Handler(c)
	}
	if len(keys) > 1 || keys[0] == "" || len(keys[0]) > keyLength {
		return wire.BadRequest.With("Idempotency-Key", "it is empty, too long, or given twice", "give one of 1 to 255 characters")
	}
	h := sha256.New()
	h.Write([]byte(c.R.URL.RequestURI() + "\n" + c.R.Header.Get("Content-Type") + "\n"))
	h.Write(c.Body)
	var request [sha256.Size]byte
	h.Sum(request[:0])
	key := keyOf{c.Grant.Name, keys[0]}
	for {
		a, first := s.keys.begin(key, request, time.Now())
		if a.request != request {
			return wire.KeyInUse.With("Idempotency-Key", "", wire.KeyInUse.Remedy)
		}
		if first {
			return s.fill(rt, c, key, a)
		}
		select {
		case <-a.done:
		case <-c.Ctx.Done():
			return wire.Busy.Problem("the first request with this key is under way")
		}
		switch {
		case a.problem != nil:
			return a.problem
		case a.status != 0:
			c.Detail = "replayed"
			maps.Copy(c.W.Header(), a.header)
			c.W.Header().Set("Idempotency-Replayed", "true")
			c.W.WriteHeader(a.status)
			c.W.Write(a.body)
			return nil
		}
	}
}

// fill has the first request of a key handled.
func (s *Server) fill(rt *Route, c *Call, key keyOf, a *keptAnswer) (err error) {
	w := &copied{ResponseWriter: c.W}
	defer func() {
		switch p, _ := errors.AsType[*wire.Problem](err); {
		case isUncertain(p):
			a.problem = p
		case w.status == 0, w.body.Len() > keptMax:
			s.keys.forget(key, a)
		default:
			a.body = w.body.Bytes()
			a.header = http.Header{}
			for _, name := range []string{"Content-Type", "Location"} {
				if v := w.Header().Values(name); len(v) > 0 {
					a.header[name] = v
				}
			}
			a.status = w.status
		}
		close(a.done)
	}()
	c.W = w
	return rt.Handler(c)
}

// isUncertain reports whether a problem, which may be nil, says that something was perhaps
// done.
func isUncertain(p *wire.Problem) bool {
	return p != nil && p.Type == wire.ProblemPath+wire.Uncertain.Slug
}
