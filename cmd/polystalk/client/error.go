package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"polystalk/codec/admin"
)

// Exit codes. Where polystalkd has a code for the same cause, the number is the same.
const (
	OK          = 0
	Damage      = 1   // a journal is damaged: durable data cannot be read
	NotDone     = 1   // some of it was not done, or the server is not healthy
	Nothing     = 2   // nothing has this name, or nothing matches
	Refused     = 3   // the server needs a token, or another one
	Unconfirmed = 4   // the operator did not confirm
	Usage       = 5   // a command, flag or argument is wrong, or the server does not have the operation
	Dir         = 10  // a directory cannot be used
	System      = 111 // the operating system refused something, or the server cannot be reached
)

// Codes is the list of exit codes in the help of verbs that talk to servers.
const Codes = `Exit codes:
  0    done
  1    some of it was not done; health: the server is not healthy
  2    there is nothing with this name, or nothing matches
  3    refused: the server needs a token, or one with more rights
  4    not confirmed
  5    unknown command or flag, bad argument, or the server does not have the operation
  10   a directory cannot be used: it is in use, missing, not empty, or holds no journal
  111  the server cannot be reached, or the operating system refused something
`

// An Error ends the program with one line on standard error and an exit code.
type Error struct {
	Code    int
	Line    string // the problem and its remedy
	Request string // the request's id in the server's log; empty: not useful
	// Unchanged reports that the request has changed nothing, although Code is System.
	Unchanged bool
}

// Error returns the line, with the request's id.
func (e *Error) Error() string {
	if e.Request == "" {
		return e.Line
	}
	return e.Line + " (request " + e.Request + ")"
}

// Errorf returns an error with an exit code.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Line: fmt.Sprintf(format, args...)}
}

// ExitCode returns the exit code for err: the code of an Error, else System.
func ExitCode(err error) int {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return System
}

// Unchanged reports that a request with this error has changed nothing.
func Unchanged(err error) bool {
	e, known := errors.AsType[*Error](err)
	return known && (e.Code != System || e.Unchanged)
}

// problem returns the error for an answer with a failure status.
func (c *httpServer) problem(ctx context.Context, r *Request, res *http.Response, body io.Reader) error {
	p := new(admin.Problem)
	b, err := io.ReadAll(io.LimitReader(body, 1<<20))
	if err != nil || mediaType(res) != "application/problem+json" || json.Unmarshal(b, p) != nil || p.Title == "" {
		return c.foreign(res)
	}
	if (p.Status == http.StatusNotFound || p.Status == http.StatusMethodNotAllowed) && !r.Probe && !c.knows(ctx, r) {
		return Errorf(Usage, "the server at %s is older than this program, and has no %s %s: upgrade it, or use the polystalk of its version", c.target.Name, r.Method, r.address())
	}
	if remedy := c.remedy(r, p); remedy != "" {
		p.Remedy = remedy
	}
	if p.Field != "" && strings.HasPrefix(r.Path, "/policies") {
		inWords(p)
	}
	return ProblemError(p)
}

const contractPath = "/openapi.json"

// knows reports whether the server's description of its API has the request. It returns true for a
// server without a description.
func (c *httpServer) knows(ctx context.Context, r *Request) bool {
	var contract struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if r.Path == contractPath {
		return true
	}
	a, err := c.Ask(ctx, Request{Method: "GET", Path: contractPath})
	if err != nil || a.Read(&contract) != nil || len(contract.Paths) == 0 {
		return true
	}
	_, ok := contract.Paths[r.Path][strings.ToLower(r.Method)]
	return ok
}

// remedy returns the remedy for a problem in the words of the command line. If it is empty, the
// server's own remedy is right.
func (c *httpServer) remedy(r *Request, p *admin.Problem) string {
	switch p.Type {
	case admin.ProblemPath + admin.NotPermitted.Slug:
		if c.options.Token == "" {
			return "give a token with --token-file; the file of the server's --access-file has its identities"
		}
		return "give another one by --token-file"
	case admin.ProblemPath + admin.NotChanged.Slug:
		if p.Remedy != admin.NotChanged.Problem("").Remedy {
			return ""
		}
		return "polystalk cluster status shows the servers"
	case admin.ProblemPath + admin.Changed.Slug:
		return map[string]string{"/policies": "apply the file again"}[r.Path]
	case admin.ProblemPath + admin.NotFound.Slug:
	default:
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
	switch {
	case r.Method == "POST" && first == "operations":
		first = "tubes" // the operation names a tube
	case first == "cluster" && p.Field == "node":
		return "polystalk cluster status lists the servers"
	}
	return listers[first]
}

// listers say what lists the things below the first component of a path.
var listers = map[string]string{
	"tubes":       "polystalk tubes lists the tubes",
	"jobs":        "polystalk jobs lists the jobs of a tube",
	"connections": "polystalk conns lists the connections",
	"cluster":     "polystalkd belongs to one if it is started with --cluster-listen",
	"identities":  "polystalk access list lists the identities",
	"policies":    "polystalk policy lists the policies",
	"operations":  "polystalk ops lists the operations that the server remembers",
}

// ProblemError returns a problem as an error.
func ProblemError(p *admin.Problem) error {
	what, remedy := p.Detail, p.Remedy
	if what == "" {
		what = p.Title
	}
	code := NotDone
	switch slug := strings.TrimPrefix(p.Type, admin.ProblemPath); {
	case slug == admin.NoToken.Slug:
		code, remedy = Refused, "give one by --token-file or POLYSTALK_TOKEN_FILE"
	case slug == admin.Draining.Slug:
		what, remedy = "the server is draining, and accepts no new jobs", "use another server, or end the drain with polystalk drain off"
	case p.Status == http.StatusForbidden || p.Status == http.StatusMisdirectedRequest:
		code = Refused
	case p.Status == http.StatusNotFound:
		code = Nothing
	case slug == admin.Uncertain.Slug || slug == admin.Busy.Slug || slug == admin.Starting.Slug || slug == admin.Following.Slug || slug == admin.Stopping.Slug || p.Status == http.StatusInternalServerError:
		code = System
	case p.Status/100 == 4 && p.Status != http.StatusConflict && p.Status != http.StatusGone && p.Status != http.StatusPreconditionFailed:
		code = Usage
	}
	e := Errorf(code, "%s: %s", what, remedy)
	if code == System {
		e.Request, e.Unchanged = p.RequestID, p.Status != http.StatusInternalServerError && p.Type != admin.ProblemPath+admin.Uncertain.Slug
	}
	return e
}

// foreign returns the error for an answer that does not come from a polystalkd.
func (c *httpServer) foreign(res *http.Response) error {
	what := "it answers " + res.Status
	if t := mediaType(res); t != "" {
		what += ", " + t
	}
	if to := res.Header.Get("Location"); res.StatusCode/100 == 3 && to != "" {
		what += ", and points to " + to
	}
	return Errorf(System, "%s is not polystalkd's --http: %s: give the address of its --http by %s", c.target.Name, what, serverFlag)
}

// untrusted is the remedy for a certificate that is not trusted.
const untrusted = "give the name that its certificate has, and its authority by --tls-ca"

// unreachable returns the error for a server that does not answer, or does not speak HTTP.
func (c *httpServer) unreachable(err error) error {
	if _, ok := errors.AsType[*Error](err); ok || errors.Is(err, context.Canceled) {
		return err
	}
	remedy := "is polystalkd running, with --http?"
	text := err.Error()
	if u, ok := errors.AsType[*url.Error](err); ok {
		text = u.Err.Error()
	}
	switch {
	case errors.Is(err, errSlow):
		remedy = "try again, or raise --timeout"
	case strings.Contains(text, "malformed HTTP"):
		remedy = "write a server of beanstalkd's protocol as beanstalk://HOST:PORT"
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
		remedy = "is that the address of polystalkd's --http? If so, try again"
	case strings.Contains(text, "HTTP response to HTTPS"):
		remedy = "write it as http://HOST:PORT"
	case errors.Is(err, fs.ErrPermission):
		remedy = "ask as root, or as the account that the server runs as"
	case c.target.Network == "unix":
		remedy = "is polystalkd running, with that socket? A server of a cluster that restarts opens it again in a moment"
	case strings.Contains(text, "x509:"):
		remedy = untrusted
	}
	return Errorf(System, "%s cannot be reached: %s: %s", c.target.Name, text, remedy)
}
