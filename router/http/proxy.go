package http

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httputil"
	"time"

	wire "polystalk/codec/admin"
)

// Elsewhere sends requests to the leader of the cluster, while this server is a follower.
type Elsewhere interface {
	// Ask sends the leader a request, and returns the answer and the leader's name. The caller
	// must close the body. A nil answer without an error: no leader is known, or this server
	// leads. The error is a *wire.Problem.
	Ask(r *http.Request) (res *http.Response, by string, err error)
	// AskStream is Ask for an answer that is a stream.
	AskStream(r *http.Request) (res *http.Response, by string, err error)
}

const (
	// askedWithin is the time for sending the leader a large body: somewhat longer than the leader
	// waits for it.
	askedWithin = bodyWithin + 3*time.Second
	// elsewhereWithin is the timeout for the answer to begin, without the time for a body. It is
	// somewhat longer than an operation of the leader, so that the leader itself reports a
	// timeout. The sum of both is less than answerWithin.
	elsewhereWithin = operationWithin + 5*time.Second
	// guardEvery is how often a stream's client is checked.
	guardEvery = time.Second
)

// private headers are not forwarded to the leader. httputil.ReverseProxy removes the hop-by-hop
// headers.
var private = []string{"Authorization", "Cookie", "Origin", "Referer", "Te", "Upgrade", "Expect"}

// A roundTripper is a function that implements http.RoundTripper.
type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// proxy forwards a request to the leader, and the leader's answer to the client.
func (a *API) proxy(c *call) error {
	if err := a.begin(); err != nil {
		return err
	}
	defer a.running.Done()
	parent, over := c.R.Context(), a.leaving
	if c.rt.flags&streams == 0 {
		if over = a.ended; c.rt.changes() {
			parent = context.WithoutCancel(parent)
		}
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	defer context.AfterFunc(over, func() { cancel(nil) })()
	c.Ctx = ctx
	if c.rt.flags&takesBody != 0 {
		leave, err := a.readBody(c)
		defer leave()
		if err != nil {
			return err
		}
	}
	within := elsewhereWithin
	if len(c.Body) > jsonMax {
		within += askedWithin
	}
	if len(c.Body) > 0 { // reading the body took a part of the time
		control := http.NewResponseController(c.W)
		control.SetReadDeadline(time.Now().Add(answerWithin))
		control.SetWriteDeadline(time.Now().Add(answerWithin))
	}
	late := time.AfterFunc(within, func() { cancel(context.DeadlineExceeded) })
	defer late.Stop()
	var failed error
	w := newPacedWriter(c.W)
	leader := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			about := &caller{name: c.By.Name(), method: c.By.By(), role: c.By.Role(), sees: c.Sees, client: c.client, id: c.ID}
			p.Out.Host, p.Out.URL.RawQuery = "localhost", p.In.URL.RawQuery
			p.Out.Header.Set(callerHeader, about.text())
		},
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			ask := a.opts.Elsewhere.Ask
			if c.rt.flags&streams != 0 {
				ask = a.opts.Elsewhere.AskStream
			}
			res, by, err := ask(r)
			late.Stop()
			if res != nil || wire.Uncertain.Is(err) {
				c.Detail = "forwarded to server " + by
			}
			if err == nil && res == nil {
				if err = a.op.Ready(); err == nil {
					err = wire.Following.With("", "this server has just become the leader", "try again")
				}
			}
			if res != nil {
				res.Header.Set(wire.ServerHeader, by)
			}
			return res, err
		}),
		ModifyResponse: func(res *http.Response) error {
			h := c.W.Header()
			closes := h.Get("Connection")
			clear(h) // the leader has set all of them
			res.Header.Del("Date")
			if c.rt.flags&streams != 0 && res.StatusCode == http.StatusOK {
				closes = "close" // as in eventStream
				w.start(c)
				go a.guard(ctx, func() { cancel(nil) }, *c)
			}
			if closes != "" {
				h.Set("Connection", closes)
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
		ErrorLog:     a.http.ErrorLog,
	}
	in := c.R.Clone(ctx)
	for _, name := range private {
		in.Header.Del(name)
	}
	in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(c.Body)), int64(len(c.Body))
	defer func() {
		w.end()
		// A client that reconnects gets the full state, so a stream may be cut anywhere.
		if v := recover(); v != nil && (v != http.ErrAbortHandler || w.ctx == nil) {
			panic(v)
		}
	}()
	leader.ServeHTTP(w, in)
	return failed
}

// guard ends the stream of c when the client's permissions change, until ctx ends.
func (a *API) guard(ctx context.Context, end func(), c call) {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	saw := c.Sees
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !a.mayStill(&c) || c.Sees != saw {
			end()
			return
		}
	}
}
