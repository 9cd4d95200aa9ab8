package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"polystalk/cmd/internal/release"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/target"
	"polystalk/codec/admin"
)

// A Client asks one server. It may be used by one goroutine at a time.
type Client struct {
	target  target.Target
	token   string
	timeout time.Duration
	http    *http.Client
	by      string // who has answered last; empty: the server that was asked
	keyless bool   // the server takes no more Idempotency-Keys
	// Elsewhere, if it is not nil, hears of each server that answers in place of the one that is
	// asked, since it leads, when it is another one than before.
	Elsewhere func(server string)
}

// New makes a client; token may be empty. An answer must be complete within timeout. A body that
// comes or goes alone has that time for each part of it.
func New(t target.Target, token string, timeout time.Duration) *Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if t.Network == "unix" {
				network, address = "unix", t.Address
			}
			return (&net.Dialer{Timeout: timeout}).DialContext(ctx, network, address)
		},
		TLSHandshakeTimeout: timeout,
		MaxIdleConns:        1,
	}
	if t.Network != "unix" {
		transport.Proxy = http.ProxyFromEnvironment
	}
	return &Client{target: t, token: token, timeout: timeout, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close gives the connection up.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// A Request is one that the API has. Path stands below /api/v1 and is percent-encoded.
type Request struct {
	Method, Path string
	Query        url.Values
	JSON         any    // what is sent, or
	Octets       []byte // that, as it is, if it is not nil, or
	Large        *io.SectionReader
	IfMatch      string // the tag that a job must still have

	// Probe: Path stands at the top, and an answer of 503 is an answer.
	Probe bool
	// Bodies: the answer is a list with bodies, and may be larger than others.
	Bodies bool
	// Octet: the answer is a body. It has a length, and its progress gives it more time.
	Octet bool
}

// An Answer is what came back.
type Answer struct {
	Status   int
	Document []byte // JSON; nil: there is none
	Header   http.Header
}

// answerMax is more than any answer of the API has without bodies, and bodiesMax more than a
// part of a list with bodies. In bytes.
const (
	answerMax = 32 << 20
	bodiesMax = 256 << 20
)

// Do sends a request and reads the answer.
func (c *Client) Do(ctx context.Context, r Request) (Answer, error) {
	var a Answer
	err := c.ask(ctx, r, func(res *http.Response, body io.Reader) error {
		a.Status, a.Header = res.StatusCode, res.Header
		if res.StatusCode == http.StatusNoContent {
			return nil
		}
		most := answerMax
		if r.Bodies {
			most = bodiesMax
		}
		b, err := io.ReadAll(io.LimitReader(body, int64(most)+1))
		switch {
		case err != nil:
			return c.unreachable(err)
		case len(b) > most || mediaType(res) != "application/json" || !json.Valid(b):
			return c.foreign(res)
		}
		a.Document = b
		return nil
	})
	return a, err
}

// Get is Do for a document that is only looked at.
func (c *Client) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	a, err := c.Do(ctx, Request{Method: "GET", Path: path, Query: query})
	if err == nil && a.Document == nil {
		err = fault.New(fault.System, "%s answers nothing: is it polystalkd's --http?", c.target.Name)
	}
	return a.Document, err
}

// ask sends a request, and take reads the answer if it is no failure. It sends the request again
// while the server is busy, but begins that within the timeout only.
func (c *Client) ask(ctx context.Context, r Request, take func(*http.Response, io.Reader) error) error {
	body := r.Octets
	if r.JSON != nil {
		var err error
		if body, err = json.Marshal(r.JSON); err != nil {
			return fmt.Errorf("what is to be sent: %w", err)
		}
	}
	key := newKey()
	for until := time.Now().Add(c.timeout); ; {
		again, err := c.once(ctx, r, body, key, take)
		if again == 0 || time.Now().Add(again).After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(again):
		}
	}
}

// once sends a request. A time that is not zero is after which it may be sent again.
func (c *Client) once(ctx context.Context, r Request, body []byte, key string, take func(*http.Response, io.Reader) error) (again time.Duration, err error) {
	watch := NewPatience(ctx, c.timeout)
	defer watch.End()
	req, err := c.request(watch, r, body)
	if err != nil {
		return 0, err
	}
	if r.Method == "POST" && !c.keyless {
		// The server does it once, and the transport may send it again on a new connection.
		req.Header.Set("Idempotency-Key", key)
	}
	var connected atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}))
	res, err := c.http.Do(req)
	if err != nil {
		err = c.unreachable(watch.Cause(err))
		if f, ok := errors.AsType[*fault.Fault](err); ok {
			f.Unsent = !connected.Load()
		}
		return 0, err
	}
	defer res.Body.Close()
	if by := res.Header.Get(admin.ServerHeader); by != "" && by != c.by && c.Elsewhere != nil {
		c.by = by
		c.Elsewhere(by)
	}
	answer := watch.Reader(res.Body, r.Octet)
	if res.StatusCode/100 == 2 || r.Probe && res.StatusCode == http.StatusServiceUnavailable {
		return 0, take(res, answer)
	}
	p, err := c.problem(watch.Ctx, r, res, answer)
	if res.StatusCode == http.StatusTooManyRequests && p != nil {
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		again = time.Duration(max(seconds, 1)) * time.Second
		if p.Type == admin.ProblemPath+admin.TooManyKeys.Slug {
			c.keyless, again = true, time.Nanosecond // nothing was done, and a key is optional
		}
	}
	return again, err
}

func (c *Client) request(watch *Patience, r Request, body []byte) (*http.Request, error) {
	address := c.target.Base.String()
	if !r.Probe {
		address += "/api/v1"
	}
	address += r.Path
	if len(r.Query) > 0 {
		between := "?"
		if strings.Contains(r.Path, "?") {
			between = "&"
		}
		address += between + r.Query.Encode()
	}
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(watch.Ctx, r.Method, address, content)
	if err != nil {
		return nil, fmt.Errorf("the request cannot be made: %w", err)
	}
	if r.Large != nil {
		content = io.NewSectionReader(r.Large, 0, r.Large.Size()) // from its beginning, each time
		req.ContentLength = r.Large.Size()
	}
	if content != nil {
		req.Body = io.NopCloser(watch.Reader(content, true))
		req.Header.Set("Content-Type", "application/json")
		if r.JSON == nil {
			req.Header.Set("Content-Type", "application/octet-stream")
		}
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "polystalk/"+release.Version)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
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

// problem is the fault for an answer that says that something was not done. The Problem is
// nil if the server is not ours.
func (c *Client) problem(ctx context.Context, r Request, res *http.Response, body io.Reader) (*admin.Problem, error) {
	p := new(admin.Problem)
	b, err := io.ReadAll(io.LimitReader(body, 1<<20))
	if err != nil || mediaType(res) != "application/problem+json" || json.Unmarshal(b, p) != nil || p.Title == "" {
		return nil, c.foreign(res)
	}
	if (p.Status == http.StatusNotFound || p.Status == http.StatusMethodNotAllowed) && !r.Probe && !c.knows(ctx, r) {
		return p, fault.New(fault.Usage, "the server at %s is older than this program, and has no %s %s: upgrade it, or use the polystalk of its version", c.target.Name, r.Method, r.Path)
	}
	if own := remedyOf(r, p, c.token != ""); own != "" {
		p.Remedy = own
	}
	return p, ProblemFault(p)
}

// remedyOf is what to do, in the words of the command line, about what is not there or may
// not be done; known: a token was given. Empty: what the server says.
func remedyOf(r Request, p *admin.Problem, known bool) string {
	switch p.Type {
	case admin.ProblemPath + admin.ReadOnly.Slug:
		if !known {
			return "give a token by --token-file; a server has some if it was started with --http-tokens-file"
		}
		return "give another one by --token-file"
	case admin.ProblemPath + admin.NotChanged.Slug:
		if p.Remedy != admin.NotChanged.Problem("").Remedy {
			return ""
		}
		return "polystalk cluster status shows the servers"
	case admin.ProblemPath + admin.NotFound.Slug:
	default:
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
	switch {
	case first == "tubes", r.Method == "POST" && first == "operations":
		return "polystalk tubes lists those there are"
	case first == "jobs":
		return "polystalk jobs lists those of a tube"
	case first == "connections":
		return "polystalk conns lists those there are"
	case first == "cluster" && p.Field == "node":
		return "polystalk cluster status lists those there are"
	case first == "cluster":
		return "polystalkd belongs to one if it is started with --cluster-listen"
	case first == "operations":
		return "polystalk ops lists those that are remembered"
	}
	return ""
}

// ProblemFault is a problem as the end of the program.
func ProblemFault(p *admin.Problem) error {
	what, remedy := p.Detail, p.Remedy
	if what == "" {
		what = p.Title
	}
	code := fault.NotDone
	switch slug := strings.TrimPrefix(p.Type, admin.ProblemPath); {
	case slug == admin.NoToken.Slug:
		code, remedy = fault.Refused, "give one by --token-file or POLYSTALK_TOKEN_FILE"
	case slug == admin.Draining.Slug:
		what, remedy = "the server drains, and takes no new jobs", "put them on another one, or end it by polystalk drain off"
	case p.Status == http.StatusForbidden || p.Status == http.StatusMisdirectedRequest:
		code = fault.Refused
	case p.Status == http.StatusNotFound:
		code = fault.Nothing
	case slug == admin.Busy.Slug || slug == admin.Starting.Slug || slug == admin.Following.Slug || slug == admin.Stopping.Slug || p.Status == http.StatusInternalServerError:
		code = fault.System
	case p.Status/100 == 4 && p.Status != http.StatusConflict && p.Status != http.StatusGone && p.Status != http.StatusPreconditionFailed:
		code = fault.Usage
	}
	f := fault.New(code, "%s: %s", what, remedy)
	if code == fault.System {
		f.Request = p.RequestID
	}
	return f
}

// foreign is the fault for an answer that polystalkd does not give.
func (c *Client) foreign(res *http.Response) error {
	what := "it answers " + res.Status
	if t := mediaType(res); t != "" {
		what += ", " + t
	}
	if to := res.Header.Get("Location"); res.StatusCode/100 == 3 && to != "" {
		what += ", and points to " + to
	}
	return fault.New(fault.System, "%s is no polystalkd with --http: %s: give the address of its --http by %s", c.target.Name, what, target.Flag)
}

// unreachable is the fault for a server that does not answer, or no HTTP.
func (c *Client) unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if _, ok := errors.AsType[*fault.Fault](err); ok {
		return err
	}
	remedy := "is polystalkd running, with --http?"
	text := err.Error()
	if u, ok := errors.AsType[*url.Error](err); ok {
		text = u.Err.Error()
	}
	switch {
	case errors.Is(err, errSlow):
		remedy = "try again, or give it longer by --timeout"
	case strings.Contains(text, "malformed HTTP"):
		remedy = "a server that speaks beanstalkd's protocol is given as beanstalk://HOST:PORT"
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
		remedy = "is that the address of polystalkd's --http? If so, try again"
	case strings.Contains(text, "HTTP response to HTTPS"):
		remedy = "it is given as http://HOST:PORT"
	case errors.Is(err, fs.ErrPermission):
		remedy = "ask as root, or as the account that the server runs as"
	case c.target.Network == "unix":
		remedy = "is polystalkd running, with that socket? A server of a cluster that begins anew has it again in a moment"
	case strings.Contains(text, "x509:"):
		remedy = "give the name that its certificate has, and its authority by SSL_CERT_FILE"
	}
	return fault.New(fault.System, "%s cannot be asked: %s: %s", c.target.Name, text, remedy)
}
