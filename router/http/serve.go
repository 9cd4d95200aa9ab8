package http

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	wire "polystalk/codec/admin"
)

// securityHeaders are in every answer. If a browser shows an answer as a page, the page can
// load and run nothing.
var securityHeaders = map[string]string{
	"Content-Security-Policy":      "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Cache-Control":                "no-store",
}

// recorder records the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find what it needs.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// callKey is the context key of a request's call.
type callKey struct{}

func newID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// ServeHTTP implements http.Handler. It identifies the client, checks Host and origin, and
// lets the mux find the route. It answers requests without a route.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, err := callerOf(r)
	c := &call{W: w, ID: newID(), caller: caller}
	if c.client, c.secure = a.clientOf(r); caller != nil {
		c.ID, c.client = caller.id, caller.client
	}
	h := w.Header()
	for name, value := range securityHeaders {
		h.Set(name, value)
	}
	h.Set("X-Request-Id", c.ID)
	if r.ContentLength != 0 {
		leaveBody(w)
	}
	if err != nil {
		sendProblem(w, r, c.ID, err.(*wire.Problem))
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	c.R = r
	c.denied = a.identify(c)
	stranger := caller == nil && !c.proven()
	if stranger {
		boundSent(r)
		time.Sleep(a.rate.Reserve().Delay())
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(publicWithin)) // a test's writer has none
	}
	r = a.unprefixed(r)
	handler, pattern := a.mux.Handler(r)
	rt := a.routes[pattern]
	if stranger && (rt == nil || rt.flags&probe == 0) {
		if err = a.checkHost(r); err != nil && c.denied != nil {
			err = c.denied // the client has sent a token: report what is wrong with it
		}
	}
	if err == nil && caller == nil { // else the server that forwards it has checked it
		err = a.checkOrigin(r)
	}
	if err == nil && pattern != "" {
		a.mux.ServeHTTP(w, r)
		return
	}
	var p *wire.Problem
	if err != nil {
		p = err.(*wire.Problem)
	} else {
		p = unrouted(handler, w, r)
	}
	sendProblem(w, r, c.ID, p)
	a.metrics.served("other", r.Method, p.Status, 0)
}

// unrouted returns the problem of a request without a route. It takes the header Allow from the
// mux's handler, and drops the rest of the handler's answer.
func unrouted(handler http.Handler, w http.ResponseWriter, r *http.Request) *wire.Problem {
	handler.ServeHTTP(&held{ResponseWriter: w}, r)
	w.Header().Del("Location")
	if allow := w.Header().Get("Allow"); allow != "" {
		return wire.MethodNotAllowed.Problem(fmt.Sprintf("the method %s is not one of %s", r.Method, allow))
	}
	remedy := "see /api/v1/openapi.json for all paths"
	if strings.HasPrefix(r.URL.Path, "/api/v1/tubes/") {
		remedy += "; write %2F for / in the name of a tube; the tube / is /api/v1/tubes/-?tube=%2F"
	}
	return wire.NotFound.With("", "the server has no such path", remedy)
}

// sendProblem answers with a problem.
func sendProblem(w http.ResponseWriter, r *http.Request, id string, p *wire.Problem) {
	about := *p
	about.RequestID = id
	b, _ := json.Marshal(about) // never fails: strings and a number
	h := w.Header()
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="polystalk"`)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Del("ETag")
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		w.Write(append(b, '\n'))
	}
}

// serve serves a request on a route. It turns panics and errors into problems, and observes
// and audits the answer.
func (a *API) serve(rt *route, rw http.ResponseWriter, r *http.Request) {
	start := time.Now()
	w := &recorder{ResponseWriter: rw}
	c := r.Context().Value(callKey{}).(*call)
	c.W, c.R, c.rt = w, r, rt
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v) // a long answer that could not be completed
			}
			a.opts.Log.Error("a request panicked", "request", c.ID, "route", rt.pattern, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			if w.status != 0 {
				panic(http.ErrAbortHandler) // the client has a part of the answer
			}
			sendProblem(w, r, c.ID, wire.Failed.Problem(""))
		}
		took := time.Since(start)
		if !c.begun.IsZero() {
			took = c.begun.Sub(start)
		}
		a.metrics.served(rt.pattern, rt.method(), w.status, took)
		if rt.changes() && !c.By.IsEmpty() { // else anybody could fill the audit
			a.record(c, w.status, c.Affected, c.Detail)
		}
	}()
	if err := a.check(c); err != nil && w.status == 0 {
		p, ok := errors.AsType[*wire.Problem](err)
		if !ok && c.R.Context().Err() != nil {
			p = wire.Failed.Problem("") // the client has gone and reads no answer
		} else if !ok {
			a.opts.Log.Error("a request failed", "request", c.ID, "route", c.rt.pattern, "err", err)
			p = wire.Failed.Problem("")
		}
		c.uncertain = wire.Uncertain.Is(p)
		// Clients and proxies retry a request after this header.
		busy := p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable && !c.uncertain
		if busy && w.Header().Get("Retry-After") == "" {
			w.Header().Set("Retry-After", "2")
		}
		sendProblem(w, r, c.ID, p)
	}
}

// check checks that a request is allowed, and lets its route or the leader handle it.
func (a *API) check(c *call) error {
	if err := a.permits(c); err != nil {
		return err
	}
	if c.caller == nil {
		a.keep(c)
	}
	c.Sees = a.sees(c)
	if c.rt.flags&takesBody == 0 && c.R.ContentLength != 0 {
		return wire.BadRequest.With("", "the request has a body, but this path takes none", "send it without a body")
	}
	for _, name := range []string{"If-Match", "If-Unmodified-Since"} {
		if c.rt.changes() && c.R.Header.Get(name) != "" && (c.rt.flags&conditional == 0 || name != "If-Match") {
			return wire.BadRequest.With(name, "this path ignores conditions", "omit the header")
		}
	}
	follows := a.op.Follows()
	if door := doorOf(c.R); follows && c.rt.flags&own == 0 && a.opts.Elsewhere != nil && !door.Last && !door.Callers {
		return a.proxy(c)
	}
	if c.rt.flags&early == 0 {
		if err := a.op.Ready(); err != nil && !(follows && c.rt.flags&own != 0) {
			return err
		}
		if err := a.begin(); err != nil {
			return err
		}
		defer a.running.Done()
	}
	if c.rt.flags&own == 0 {
		ctx, cancel := a.timeLimited(c)
		err := a.op.Confirm(ctx)
		if cancel(); err != nil {
			return err
		}
	}
	if c.rt.flags&streams != 0 {
		ctx, cancel := context.WithCancel(c.R.Context())
		defer cancel()
		defer context.AfterFunc(a.leaving, cancel)()
		c.Ctx = ctx
		return c.rt.run(c)
	}
	ctx, cancel := a.timeLimited(c)
	defer cancel()
	c.Ctx = ctx
	switch {
	case c.rt.flags&scrape != 0:
		return alone(c, a.scrapes)
	case c.rt.flags&large != 0:
		return alone(c, a.heavy)
	}
	if c.rt.flags&takesBody != 0 {
		leave, err := a.readBody(c)
		defer leave()
		if err != nil {
			return err
		}
	}
	return a.once(c)
}

// timeLimited returns the context of an operation, which ends after operationWithin and with the
// server. A read also ends when the client disconnects. A change does not: a client that has
// closed only its half of the connection seems disconnected to net/http, but may still read.
func (a *API) timeLimited(c *call) (context.Context, context.CancelFunc) {
	parent := c.R.Context()
	if c.rt.changes() {
		parent = context.WithoutCancel(parent)
	}
	ctx, cancel := context.WithTimeout(parent, operationWithin)
	unwatch := context.AfterFunc(a.ended, cancel)
	return ctx, func() { unwatch(); cancel() }
}

// keep sets the place of an allowed request's connection. If the request has a token or needs a
// right, keep also extends the time for the answer.
func (a *API) keep(c *call) {
	conn, _ := c.R.Context().Value(connKey{}).(net.Conn)
	of := noClaim
	switch {
	case c.proven():
		of = tokenClaim
	case c.rt.flags&streams != 0:
		of = streamClaim
	case c.rt.need.some:
		of = rightClaim
	case c.rt.flags&probe != 0:
		of = probeClaim
	}
	a.connections.request(conn, of)
	if of >= rightClaim {
		http.NewResponseController(c.W).SetWriteDeadline(time.Now().Add(answerWithin)) // a test's writer has none
	}
}

// mayStill identifies the client again, and reports whether it is the same one and still has the
// rights for the request. A reload may remove a token or rights while a stream is open.
func (a *API) mayStill(c *call) bool {
	now := &call{R: c.R, caller: c.caller, rt: c.rt, client: c.client, secure: c.secure}
	if a.identify(now) != nil || now.By.By() != c.By.By() || now.By.Name() != c.By.Name() || now.By.Role() != c.By.Role() || a.permits(now) != nil {
		return false
	}
	c.Sees = a.sees(now)
	return true
}
