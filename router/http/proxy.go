package http

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// Elsewhere is the server of a cluster that has the queue, as long as that is not this one.
type Elsewhere interface {
	// Ask sends it a request, and gives its answer, of which the body is to be closed, and its
	// name. A nil answer without an error: there is nobody to be asked. The error is a
	// *admin.Problem.
	Ask(r *http.Request) (res *http.Response, by string, err error)
	// AskStream is Ask for an answer that has no end of its own.
	AskStream(r *http.Request) (res *http.Response, by string, err error)
}

// elsewhereWithin is how long another server may take until it begins to answer: somewhat longer
// than its operations may, so that it is the one to say that one has taken too long.
const elsewhereWithin = operationWithin + 5*time.Second

// askedWithin is how long it may take until another server has been sent a request: somewhat longer
// than that one waits for a body. With elsewhereWithin it is less than answerWithin.
const askedWithin = bodyWithin + 3*time.Second

// follows reports whether another server has the queue, or may.
func (s *server) follows() bool { return s.opts.Follows != nil && s.opts.Follows() }

// hasElsewhere reports whether a request may be handed on: it was not before.
func (s *server) hasElsewhere(r *http.Request) bool {
	d := doorOf(r)
	return s.opts.Elsewhere != nil && !d.Last && !d.Callers
}

// nobody is the problem of a request that nobody was there to answer.
func (s *server) nobody() error {
	if err := s.opts.Ready(); err != nil {
		return err
	}
	return wire.Following.With("", "this server has just begun to lead", "try again")
}

// handOn has another server answer.
func (s *server) handOn(rt *Route, c *Call) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.running.Done()
	parent, over := operationOf(rt, c.R), s.ended
	if rt.Flags&Streams != 0 {
		parent, over = c.R.Context(), s.leaving
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	defer context.AfterFunc(over, func() { cancel(nil) })()
	c.Ctx = ctx
	if rt.Flags&TakesBody != 0 {
		leave, err := s.readBody(rt, c)
		defer leave()
		if err != nil {
			return err
		}
	}
	if len(c.Body) > 0 { // anew: the first part of them went by with the client's own sending
		control := http.NewResponseController(c.W)
		control.SetReadDeadline(time.Now().Add(answerWithin))
		control.SetWriteDeadline(time.Now().Add(answerWithin))
	}
	ctx, answered := impatient(ctx, cancel)
	defer answered()
	ask := s.opts.Elsewhere.Ask
	if rt.Flags&Streams != 0 {
		ask = s.opts.Elsewhere.AskStream
	}
	res, by, err := ask(handedOn(ctx, c))
	if p, _ := errors.AsType[*wire.Problem](err); res != nil || isUncertain(p) {
		c.Detail = "handed on to server " + by
	}
	switch {
	case err != nil:
		return err
	case res == nil:
		return s.nobody()
	}
	defer res.Body.Close()
	answered()
	if rt.Flags&Streams != 0 {
		c.W.Header().Set("Connection", "close") // as of an EventStream
		go s.guard(ctx, func() { cancel(nil) }, rt, c.R, c.Grant, c.Sees)
	}
	c.answerOf(res, by)
	if rt.Flags&Streams != 0 && res.StatusCode == http.StatusOK {
		passStream(c, res.Body)
		return nil
	}
	if _, err := io.Copy(c.W, res.Body); err != nil {
		panic(http.ErrAbortHandler) // what the client has is not all, or it has gone
	}
	return nil
}

// impatient ends a context when a request with it is not sent in askedWithin, or not answered in
// elsewhereWithin from then on, until answered is called.
func impatient(ctx context.Context, end context.CancelCauseFunc) (_ context.Context, answered func()) {
	var over atomic.Bool // the last of a body may be sent when the answer has come already
	late := time.AfterFunc(askedWithin, func() {
		if !over.Load() {
			end(context.DeadlineExceeded)
		}
	})
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { late.Reset(elsewhereWithin) },
	})
	return ctx, func() {
		over.Store(true)
		late.Stop()
	}
}

// private are headers of a request that are for the server it was sent to, and of none else's
// use; what is between two servers is not what is between a client and a server.
var private = []string{
	"Authorization", "Cookie", "Origin", "Referer", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
	"Connection", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
}

// handedOn is the request as another server gets it: with who asks, and what this server has let
// him do.
func handedOn(ctx context.Context, c *Call) *http.Request {
	to := &http.Request{Method: c.R.Method, URL: c.R.URL, Host: "localhost", Header: c.R.Header.Clone()}
	for _, name := range private {
		to.Header.Del(name)
	}
	about := &caller{grant: c.Grant, sees: c.Sees, client: c.client, id: c.ID}
	to.Header.Set(callerHeader, about.text())
	if len(c.Body) > 0 {
		to.Body, to.ContentLength = io.NopCloser(bytes.NewReader(c.Body)), int64(len(c.Body))
	}
	return to.WithContext(ctx)
}

// answerOf begins the answer as another server has made it.
func (c *Call) answerOf(res *http.Response, by string) {
	h := c.W.Header()
	closes := h.Get("Connection")
	clear(h) // the other one has set all of them
	maps.Copy(h, res.Header)
	for _, name := range []string{"Connection", "Keep-Alive", "Transfer-Encoding", "Trailer", "Upgrade", "Date"} {
		h.Del(name)
	}
	if closes != "" {
		h.Set("Connection", closes)
	}
	h.Set(wire.ServerHeader, by)
	c.W.WriteHeader(res.StatusCode)
}

// guardEvery is how often it is looked whether who has a stream may still have it.
const guardEvery = time.Second

// guard ends a stream once who asked for it may no longer do what he could then, or more: he is to
// come again, and be let in as what he is by then. It returns with ctx.
func (s *server) guard(ctx context.Context, end func(), rt *Route, r *http.Request, was access.Grant, saw access.Bodies) {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	now := &Call{R: r}
	s.watchOver(rt, now)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !now.StillMay() || now.Grant != was || now.Sees != saw {
			end()
			return
		}
	}
}

// passStream passes a stream on as it comes, a piece at a time, as an EventStream sends it. When it
// breaks the client comes again, and is told all.
func passStream(c *Call, from io.Reader) {
	rc := http.NewResponseController(c.W)
	c.begun = time.Now()
	rc.SetReadDeadline(time.Time{})
	boundSent(c.R)
	ends := func() { rc.SetWriteDeadline(time.Now().Add(endWithin)) }
	defer ends()
	defer context.AfterFunc(c.Ctx, ends)()
	piece := make([]byte, pieceSize)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			rc.SetWriteDeadline(time.Now().Add(pieceWithin))
			if c.Ctx.Err() != nil {
				return
			}
			if _, err := c.W.Write(piece[:n]); err != nil || rc.Flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
