package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"polystalk/cmd/internal/program"
	"polystalk/codec/admin"
)

// An httpServer is a polystalkd that the client asks by HTTP.
type httpServer struct {
	target  Target
	options Options
	http    *http.Client
	by      string // the server that answered last; empty: the server in target
}

func newHTTP(t Target, o Options) *httpServer {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if t.Network == "unix" {
				network, address = "unix", t.Address
			}
			return (&net.Dialer{Timeout: o.Timeout}).DialContext(ctx, network, address)
		},
		TLSHandshakeTimeout: o.Timeout,
		TLSClientConfig:     o.TLS,
		MaxIdleConns:        1,
	}
	if t.Network != "unix" {
		transport.Proxy = http.ProxyFromEnvironment
	}
	return &httpServer{target: t, options: o, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// HasAPI implements Server.
func (c *httpServer) HasAPI() bool { return true }

// Close implements Server.
func (c *httpServer) Close() { c.http.CloseIdleConnections() }

// Limits of the API's answers, in bytes: an answer without bodies, a part of a list with bodies,
// and a body (beanstalkd doc/beanstalkd.ronn, -z).
const (
	answerMax = 32 << 20
	listMax   = 256 << 20
	bodyMax   = 1 << 30
)

// Ask implements Server.
func (c *httpServer) Ask(ctx context.Context, r Request) (a Answer, err error) {
	err = c.ask(ctx, r, func(res *http.Response, body io.Reader) error {
		a.Status, a.Tag = res.StatusCode, res.Header.Get("ETag")
		if res.StatusCode == http.StatusNoContent {
			return nil
		}
		most := answerMax
		if r.Query.Get("body") == "full" {
			most = listMax
		}
		b, err := io.ReadAll(io.LimitReader(body, int64(most)+1))
		switch {
		case err != nil:
			return err
		case len(b) > most || mediaType(res) != "application/json" || !json.Valid(b):
			return c.foreign(res)
		}
		a.Document = b
		return nil
	})
	if err == nil && a.Document == nil && r.Method == "GET" {
		err = Errorf(System, "%s answers nothing: is it polystalkd's --http?", c.target.Name)
	}
	return a, err
}

// partMax is the largest number of rows in a part of a list.
const partMax = 1000

// List implements Server.
func (c *httpServer) List(ctx context.Context, r Request, page func(document []byte) error) error {
	query := url.Values{}
	maps.Copy(query, r.Query)
	for left := r.Limit; ; {
		part := partMax
		if r.Limit > 0 {
			part = min(left, partMax)
		}
		query.Set("limit", strconv.Itoa(part))
		r.Method, r.Query = "GET", query
		a, err := c.Ask(ctx, r)
		if err != nil {
			return err
		}
		n, next, err := c.part(a.Document, r.rows())
		if err != nil {
			return err
		}
		if err := page(a.Document); err != nil {
			return err
		}
		if left -= n; next == "" || r.Limit > 0 && left <= 0 {
			return nil
		}
		if next == query.Get("after") {
			return Errorf(System, "%s gives the same part of the list again: try again", c.target.Name)
		}
		query.Set("after", next)
	}
}

// part returns the number of rows in a part of a list, and the query value for the next part.
func (c *httpServer) part(document []byte, rows string) (n int, next string, err error) {
	var members map[string]json.RawMessage
	var list []json.RawMessage
	missing := rows
	if json.Unmarshal(document, &members) == nil && json.Unmarshal(members[rows], &list) == nil {
		missing = "next"
		if text, ok := members["next"]; !ok || json.Unmarshal(text, &next) == nil {
			return len(list), next, nil
		}
	}
	return 0, "", Errorf(System, "the server at %s answers without %q: use the polystalk of its version", c.target.Name, missing)
}

// Body implements Server.
func (c *httpServer) Body(ctx context.Context, job uint64, w io.Writer) error {
	return c.ask(ctx, Request{Method: "GET", Path: "/jobs/{id}/body", ID: job}, func(res *http.Response, body io.Reader) error {
		// A body without a length might never end. Proxies pass the length on.
		if mediaType(res) != "application/octet-stream" || res.ContentLength < 0 || res.ContentLength > bodyMax {
			return c.foreign(res)
		}
		_, err := io.Copy(w, body)
		return err
	})
}

// ask sends a request, and calls take to read the answer unless it is a failure. It retries only
// after status 429, which means that the server was busy and did nothing, and only within the
// timeout.
func (c *httpServer) ask(ctx context.Context, r Request, take func(*http.Response, io.Reader) error) error {
	if r.JSON != nil {
		var err error
		if r.Octets, err = json.Marshal(r.JSON); err != nil {
			return fmt.Errorf("the content of the request: %w", err)
		}
	}
	for until := time.Now().Add(c.options.Timeout); ; {
		wait, err := c.once(ctx, &r, take)
		if wait == 0 || time.Now().Add(wait).After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// once sends a request. If a busy server asks the client to wait, wait is the time.
func (c *httpServer) once(ctx context.Context, r *Request, take func(*http.Response, io.Reader) error) (wait time.Duration, err error) {
	patience := NewPatience(ctx, c.options.Timeout)
	defer patience.End()
	req, err := c.request(patience, r)
	if err != nil {
		return 0, err
	}
	var connected atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}))
	res, err := c.http.Do(req)
	if err != nil {
		err = c.unreachable(patience.Cause(err))
		if e, ok := errors.AsType[*Error](err); ok {
			e.Unchanged = !connected.Load()
		}
		return 0, err
	}
	defer res.Body.Close()
	if by := res.Header.Get(admin.ServerHeader); by != "" && by != c.by && c.options.AnsweredBy != nil {
		c.by = by
		c.options.AnsweredBy(by)
	}
	answer := patience.Reader(res.Body, r.Path == "/jobs/{id}/body")
	answer.fault = c.unreachable
	if res.StatusCode/100 == 2 || r.Probe && res.StatusCode == http.StatusServiceUnavailable {
		return 0, take(res, answer)
	}
	err = c.problem(patience.Ctx, r, res, answer)
	if res.StatusCode == http.StatusTooManyRequests {
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		wait = time.Duration(max(seconds, 1)) * time.Second
	}
	return wait, err
}

func (c *httpServer) request(p *Patience, r *Request) (*http.Request, error) {
	address := c.target.Base.String()
	if !r.Probe {
		address += "/api/v1"
	}
	req, err := http.NewRequestWithContext(p.Ctx, r.Method, address+r.address(), nil)
	if err != nil {
		return nil, fmt.Errorf("the request cannot be made: %w", err)
	}
	if r.Octets != nil {
		if req.ContentLength = int64(len(r.Octets)); req.ContentLength > 0 {
			req.Body = io.NopCloser(p.Reader(bytes.NewReader(r.Octets), true))
		}
		req.Header.Set("Content-Type", cmp.Or(r.Type, "application/octet-stream"))
		if r.JSON != nil {
			req.Header.Set("Content-Type", "application/json")
		}
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "polystalk/"+program.Version)
	if c.options.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	if r.IfMatch != "" {
		req.Header.Set("If-Match", r.IfMatch)
	}
	return req, nil
}

func mediaType(res *http.Response) string {
	t, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return t
}

// errSlow is the cause of a request that ended by timeout.
var errSlow = errors.New("it does not answer in time")

// progress is the number of bytes of a body that restart the timeout.
const progress = 64 << 10

// A Patience cancels a request after a timeout. Only the progress of bodies restarts it, so a
// server cannot extend it with a few bytes from time to time.
type Patience struct {
	Ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	wait   time.Duration
}

// NewPatience starts the timeout of a request. The caller must call End.
func NewPatience(ctx context.Context, d time.Duration) *Patience {
	p := &Patience{wait: d}
	p.Ctx, p.cancel = context.WithCancelCause(ctx)
	p.timer = time.AfterFunc(d, func() { p.cancel(errSlow) })
	return p
}

// End stops the timer.
func (p *Patience) End() {
	p.timer.Stop()
	p.cancel(nil)
}

// Cause returns why a request has failed: its timeout, the end of its context, or err.
func (p *Patience) Cause(err error) error {
	if cause := context.Cause(p.Ctx); cause != nil && p.Ctx.Err() != nil {
		return cause
	}
	return err
}

// Reader returns a reader of r. With bulk, r holds bodies, and their progress restarts the timeout.
func (p *Patience) Reader(r io.Reader, bulk bool) *patientReader {
	return &patientReader{p: p, r: r, bulk: bulk, fault: func(err error) error { return err }}
}

type patientReader struct {
	p     *Patience
	r     io.Reader
	bulk  bool
	n     int                   // bytes since the timeout was restarted
	fault func(err error) error // makes the error of a Read
}

func (r *patientReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if r.n += n; r.bulk && r.n >= progress {
		r.n = 0
		r.p.timer.Reset(r.p.wait)
	}
	if err != nil && err != io.EOF {
		err = r.fault(r.p.Cause(err))
	}
	return n, err
}
