package http

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// SecurityHeaders go with every answer. Nothing here is a page with scripts; should a
// browser show an answer as one all the same, it may load and do nothing.
var SecurityHeaders = map[string]string{
	"Content-Security-Policy":      "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Cache-Control":                "no-store",
}

// recorder notes the status of an answer.
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

// ServeHTTP implements http.Handler. It finds out who asks, and lets the mux find the route. It
// answers requests that have no route.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, err := callerOf(r)
	c := &Call{W: w, ID: newID(), caller: caller}
	if caller != nil {
		c.ID = caller.id
	}
	h := w.Header()
	for name, value := range SecurityHeaders {
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
	c.denied = s.identify(c)
	stranger := caller == nil && c.Grant.Name == ""
	if stranger {
		boundSent(r)
		time.Sleep(s.pace.next(time.Now()))
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(publicWithin)) // a test's writer has none
	}
	r = s.unprefixed(r)
	handler, pattern := s.mux.Handler(r)
	rt := s.routes[pattern]
	if stranger && (rt == nil || rt.Flags&Probe == 0) {
		if err = s.checkHost(r); err != nil && c.denied != nil {
			err = c.denied // the client has shown a token
		}
	}
	if err == nil && caller == nil { // else the server that passes the request on has checked it
		err = s.checkOrigin(r)
	}
	if err == nil && pattern != "" {
		s.mux.ServeHTTP(w, r)
		return
	}
	// The mux has a text of its own for a path that it does not know. Its header Allow is right.
	unknown := &discarded{header: make(http.Header)}
	handler.ServeHTTP(unknown, r)
	var p *wire.Problem
	if err != nil {
		p = err.(*wire.Problem)
	} else if allow := unknown.header.Get("Allow"); allow != "" {
		h.Set("Allow", allow)
		p = wire.MethodNotAllowed.Problem(fmt.Sprintf("%s is not one of %s", r.Method, allow))
	} else {
		remedy := "see /api/v1/openapi.json for the paths there are"
		if strings.HasPrefix(r.URL.Path, "/api/v1/tubes/") {
			remedy += "; in the name of a tube / is written %2F, and the tube / is /api/v1/tubes/-?tube=%2F"
		}
		p = wire.NotFound.With("", "the server has no such path", remedy)
	}
	sendProblem(w, r, c.ID, p)
	s.opts.Observe("other", r.Method, p.Status, 0)
}

// discarded is an answer that nobody gets.
type discarded struct{ header http.Header }

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarded) WriteHeader(int)             {}

// callKey finds the Call of a request.
type callKey struct{}

func newID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// serve serves a request on a route.
func (s *server) serve(rt *Route, rw http.ResponseWriter, r *http.Request) {
	start := time.Now()
	w := &recorder{ResponseWriter: rw}
	c := r.Context().Value(callKey{}).(*Call)
	c.W, c.R = w, r
	if c.client, c.secure = s.clientOf(r); c.caller != nil {
		c.client = c.caller.client
	}
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v) // a long answer that could not be completed
			}
			s.log.Error("a request has made the server fail", "request", c.ID, "route", rt.Pattern, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			if w.status != 0 {
				panic(http.ErrAbortHandler) // what the client has is not all
			}
			sendProblem(w, r, c.ID, wire.Failed.Problem(""))
		}
		took := time.Since(start)
		if !c.begun.IsZero() {
			took = c.begun.Sub(start)
		}
		s.opts.Observe(rt.Pattern, rt.Method(), w.status, took)
		if rt.Changes() && c.Grant.Role > access.Nobody { // others could push out what was changed
			s.noted(rt, c)(w.status, c.Affected, c.Detail)
		}
	}()
	if err := s.handle(rt, c); err != nil && w.status == 0 {
		p, ok := errors.AsType[*wire.Problem](err)
		if !ok {
			s.log.Error("a request could not be served", "request", c.ID, "route", rt.Pattern, "err", err)
			p = wire.Failed.Problem("")
		}
		c.uncertain = isUncertain(p)
		// Clients and proxies take the header for leave to send the same again.
		busy := p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable && !c.uncertain
		if busy && w.Header().Get("Retry-After") == "" {
			w.Header().Set("Retry-After", "2")
		}
		sendProblem(w, r, c.ID, p)
	}
}

// handle checks whether a request is allowed, and has its route handle it.
func (s *server) handle(rt *Route, c *Call) error {
	if c.denied != nil && rt.Need > access.Nobody {
		return c.denied
	}
	if !c.Grant.May(rt.Need) {
		return s.mayNot(rt, c)
	}
	if c.caller == nil {
		s.keep(rt, c)
	}
	c.Sees = s.sees(c)
	if rt.Flags&TakesBody == 0 && c.R.ContentLength != 0 {
		return wire.BadRequest.With("", "the request has a body, and this path takes none", "send it without a body")
	}
	for _, name := range []string{"If-Match", "If-Unmodified-Since"} {
		if rt.Changes() && c.R.Header.Get(name) != "" && (rt.Flags&Conditional == 0 || name != "If-Match") {
			return wire.BadRequest.With(name, "the request has a condition, which is not looked at here", "leave the header out")
		}
	}
	follows := s.follows()
	if follows && rt.Flags&Own == 0 && s.hasElsewhere(c.R) {
		return s.handOn(rt, c)
	}
	if rt.Flags&Early == 0 {
		if err := s.opts.Ready(); err != nil && !(follows && rt.Flags&Own != 0) {
			return err
		}
		if err := s.begin(); err != nil {
			return err
		}
		defer s.running.Done()
	}
	if rt.Flags&Own == 0 && s.opts.Confirm != nil {
		if err := s.confirm(rt, c); err != nil {
			return err
		}
	}
	if rt.Flags&Streams != 0 {
		return s.stream(rt, c)
	}
	ctx, cancel := context.WithTimeout(operationOf(rt, c.R), operationWithin)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	c.Ctx = ctx
	switch {
	case rt.Flags&Scrape != 0:
		return alone(rt, c, s.scrapes)
	case rt.Flags&Large != 0:
		return alone(rt, c, s.heavy)
	}
	c.note = s.noted(rt, c)
	if rt.Flags&TakesBody != 0 {
		leave, err := s.readBody(rt, c)
		defer leave()
		if err != nil {
			return err
		}
	}
	return s.once(rt, c)
}

// keep gives a request that is allowed the time of a long answer, unless everybody may send it, and
// claims a place for its connection.
func (s *server) keep(rt *Route, c *Call) {
	conn, _ := c.R.Context().Value(connKey{}).(net.Conn)
	of := noClaim
	switch {
	case c.Grant.Name != "":
		of = tokenClaim
	case rt.Flags&Streams != 0:
		of = streamClaim
	case rt.Need > access.Nobody:
		of = roleClaim
	case rt.Flags&Probe != 0:
		of = probeClaim
	}
	s.connections.request(conn, of)
	if of >= roleClaim {
		http.NewResponseController(c.W).SetWriteDeadline(time.Now().Add(answerWithin)) // a test's writer has none
	}
}

// confirm refuses a request that another server may have to answer.
func (s *server) confirm(rt *Route, c *Call) error {
	ctx, cancel := context.WithTimeout(operationOf(rt, c.R), operationWithin)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	return s.opts.Confirm(ctx)
}

// alone handles a heavy request, which is a GET, in a place for it. It answers once it has left the
// place.
func alone(rt *Route, c *Call, place places) error {
	w := &held{ResponseWriter: c.W}
	c.W = w
	if err := place.enter(c.Ctx); err != nil {
		return err
	}
	err := func() error {
		defer place.leave()
		return rt.Handler(c)
	}()
	w.send()
	return err
}

// stream handles a request that is answered as long as the client likes; it ends when the
// server stops.
func (s *server) stream(rt *Route, c *Call) error {
	ctx, cancel := context.WithCancel(c.R.Context())
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	c.Ctx = ctx
	s.watchOver(rt, c)
	return rt.Handler(c)
}

// watchOver makes what StillMay asks.
func (s *server) watchOver(rt *Route, c *Call) {
	c.still = func() bool {
		again := &Call{W: &discarded{header: make(http.Header)}, R: c.R, caller: c.caller}
		if s.identify(again) != nil || !again.Grant.May(rt.Need) {
			return false
		}
		c.Grant, c.Sees = again.Grant, s.sees(again)
		return true
	}
}

// sees is how much of the bodies of jobs who asks may see.
func (s *server) sees(c *Call) access.Bodies {
	if c.caller != nil {
		return c.caller.sees
	}
	return c.Grant.Sees(s.rules.Load().Bodies)
}

// identify finds out who asks: by a token, by a session, or by where he comes in.
func (s *server) identify(c *Call) error {
	if c.caller != nil {
		c.Grant = c.caller.grant
		return nil
	}
	if header := c.R.Header.Values("Authorization"); len(header) > 0 {
		scheme, token, _ := strings.Cut(header[0], " ")
		if len(header) > 1 || !strings.EqualFold(scheme, "Bearer") {
			return s.noToken(c, "the header Authorization is not of the form Bearer TOKEN")
		}
		if s.opts.Tokens != nil {
			if g, ok := s.opts.Tokens.Find(token); ok {
				c.Grant = g
				return nil
			}
		}
		return s.strangeToken(c)
	}
	if s.sessions != nil {
		if cookie, err := c.R.Cookie(s.cookie); err == nil {
			if g, ok := s.sessions.Find(cookie.Value, time.Now()); ok {
				c.Grant = g
				return nil
			}
		}
	}
	c.Grant.Role = doorOf(c.R).Anonymous
	return nil
}

// noToken is the problem of who is not known.
func (s *server) noToken(c *Call, detail string) error {
	c.W.Header().Set("WWW-Authenticate", `Bearer realm="polystalk"`)
	return wire.NoToken.Problem(detail)
}

// strangeToken is the problem of who shows a token that the server has no digest of.
func (s *server) strangeToken(c *Call) error {
	p := s.noToken(c, "the token is not one of the server's").(*wire.Problem)
	p.Remedy = "put the token's SHA-256 into the file of --http-tokens-file, and have the server read it again (SIGHUP)"
	return p
}

// mayNot is the problem of who has no sufficient role.
func (s *server) mayNot(rt *Route, c *Call) error {
	if c.Grant.Name == "" && c.Grant.Role == access.Nobody {
		return s.noToken(c, fmt.Sprintf("this takes the role %v, and the request shows no token", rt.Need))
	}
	who := "who shows no token here"
	if c.Grant.Name != "" {
		who = fmt.Sprintf("the token %q", c.Grant.Name)
	}
	remedy := fmt.Sprintf("use a token with the role %v", rt.Need)
	if c.Grant.Name == "" {
		remedy += ": a line of the file of --http-tokens-file"
	}
	return wire.ReadOnly.With("", fmt.Sprintf("this takes the role %v, and %s has the role %v", rt.Need, who, c.Grant.Role), remedy)
}
