// Package client asks a server and shows its answers.
//
//	Find (which server) → Dial → Server.Ask, List or Body → a document → Printer (by a View)
//
// Requests and documents belong to polystalkd's API: see router/http/openapi.json. By HTTP the
// client sends them unchanged. Beanstalk translates the requests that beanstalkd's protocol can
// express; its documents lack the members that the protocol does not report. A Request is not sent
// again if a server may have acted on it.
package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"polystalk/codec/admin"
)

// A Server is a connection to one server, used by one goroutine at a time. A call ends when its
// context ends. Errors other than *Error come from the operating system.
type Server interface {
	// Ask sends a request and returns the answer.
	Ask(ctx context.Context, r Request) (Answer, error)
	// List passes the parts of a list to page until it has r.Limit rows. The last component of
	// r.Path is the name of the member with the rows.
	List(ctx context.Context, r Request, page func(document []byte) error) error
	// Body writes the body of a job unchanged.
	Body(ctx context.Context, job uint64, w io.Writer) error
	// PutMany puts jobs in their order, with all of them in flight. It returns what became of the
	// first ones, and why nothing is known of the others: these were not put if Unchanged(err), and
	// may have been otherwise. The caller bounds the number of jobs and bytes.
	PutMany(ctx context.Context, jobs []admin.LineJob) ([]PutResult, error)
	// HasAPI reports whether all requests work, not only the ones of the beanstalkd protocol.
	HasAPI() bool
	Close()
}

// Options configures a Server.
type Options struct {
	Token   string        // empty: none
	TLS     *tls.Config   // see ReadTLS; nil: the system's authorities
	Timeout time.Duration // of each answer, and of each 64 kB of a body
	// AnsweredBy is called when another server has answered: the leader of the cluster. It may be
	// nil.
	AnsweredBy func(server string)
}

// Dial returns a connection to a server. With beanstalkd's protocol it connects at once.
func Dial(ctx context.Context, t Target, o Options) (Server, error) {
	if t.Base != nil {
		return newHTTP(t, o), t.checkSecrecy(o)
	}
	b, err := dialBeanstalk(ctx, t, o)
	if err != nil {
		return nil, err // not a nil *Beanstalk, which would be a non-nil Server
	}
	return b, nil
}

// checkSecrecy refuses to send a token where others can read it: a server could refuse it only then.
func (t Target) checkSecrecy(o Options) error {
	host, _, _ := net.SplitHostPort(t.Address)
	ip := net.ParseIP(host)
	if o.Token == "" || t.Network == "unix" || t.tls || t.Base != nil && t.Base.Scheme == "https" || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return Errorf(Usage, "the token is not sent to %s: there is no TLS, and others could read it: name the server by https:// or beanstalk+tls://, or leave --token-file and POLYSTALK_TOKEN_FILE out", t.Name)
}

// A Request is a request of polystalkd's API.
type Request struct {
	Method string
	Path   string // below /api/v1 in the form of openapi.json, such as /jobs/{id}/kick
	Tube   string // for {tube}: its name, byte for byte
	ID     uint64 // for {id}
	Node   string // for {node} and {name}, and unchanged for {match}
	Query  url.Values
	Limit  int // rows of a List; 0: all

	JSON    any    // the content to send, or
	Octets  []byte // the content unchanged; nil: none
	Type    string // the media type of Octets; empty: application/octet-stream
	IfMatch string // the tag that the job must still have; empty: any

	Probe bool // Path is not below /api/v1, and status 503 is an answer
}

// An Answer is a server's answer.
type Answer struct {
	Status   int    // of HTTP
	Document []byte // JSON; nil: none
	Tag      string // of HTTP: the version of a job, for IfMatch
}

// A PutResult is what became of a job.
type PutResult struct {
	ID  uint64 // zero: it was not put
	Err error  // why it was not put; or why it is delayed, and not buried
}

// Read decodes the document into v.
func (a Answer) Read(v any) error { return Read(a.Document, v) }

// Read decodes a document into v.
func Read(document []byte, v any) error {
	if json.Unmarshal(document, v) != nil {
		return Errorf(System, "the server's answer cannot be read: use the polystalk of its version")
	}
	return nil
}

// address returns the path and query of a request. A proxy or the server would resolve tube names
// such as "..", so these become a query parameter.
func (r *Request) address() string {
	segment, query := admin.PathName(r.Tube), r.Query
	if strings.Contains(r.Path, "{tube}") && (r.Tube == "." || r.Tube == ".." || r.Tube == "/") {
		query = url.Values{"tube": {r.Tube}}
		maps.Copy(query, r.Query)
		segment = "-"
	}
	path := strings.NewReplacer("{tube}", segment, "{id}", strconv.FormatUint(r.ID, 10), "{node}", url.PathEscape(r.Node), "{name}", url.PathEscape(r.Node), "{match}", r.Node).Replace(r.Path)
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// rows returns the name of the member that holds the rows of a list.
func (r *Request) rows() string { return r.Path[strings.LastIndexByte(r.Path, '/')+1:] }

// Unsupported returns the error of a request that beanstalkd's protocol does not have. what
// completes the sentence after "cannot".
func Unsupported(what string) error {
	return Errorf(Usage, "beanstalkd's protocol cannot %s: use polystalkd with --http, as in --server http://HOST:PORT", what)
}

// A Target names one server.
type Target struct {
	// Base is the address of polystalkd's API without /api/v1 and without a trailing slash; nil:
	// the server speaks beanstalkd's protocol. For a unix socket it is http://localhost.
	Base *url.URL

	Network string // tcp or unix
	Address string // HOST:PORT or a path
	tls     bool   // of beanstalkd's protocol
	Name    string // as given to --server
}

// The places in which an operator names the server.
const (
	serverFlag = "--server"
	Variable   = "POLYSTALK_SERVER"
)

const forms = "give http://HOST:PORT, https://HOST:PORT, unix:PATH, beanstalk://HOST:PORT, beanstalk+tls://HOST:PORT or beanstalk+unix:PATH"

// parseTarget reads the name of a server.
func parseTarget(name string) (Target, error) {
	bad := func(why string) (Target, error) {
		return Target{}, Errorf(Usage, "%s %q %s: %s", serverFlag, name, why, forms)
	}
	for prefix, http := range map[string]bool{"unix:": true, "beanstalk+unix:": false} {
		if path, ok := strings.CutPrefix(name, prefix); ok {
			if strings.HasPrefix(path, "///") {
				path = path[2:] // unix:///run/… is as good as unix:/run/…
			}
			if path == "" || strings.HasPrefix(path, "//") {
				return bad("has no socket path")
			}
			t := Target{Network: "unix", Address: path, Name: name}
			if http {
				t.Base = &url.URL{Scheme: "http", Host: "localhost"}
			}
			return t, nil
		}
	}
	u, err := url.Parse(name)
	if err != nil || u.Host == "" {
		return bad("is not an address")
	}
	switch {
	case u.User != nil:
		return bad("has a user or password, which polystalkd does not take; a token is given by --token-file")
	case u.RawQuery != "" || u.Fragment != "":
		return bad("has more than an address")
	}
	ports := map[string]string{"http": "11380", "https": "443", "beanstalk": "11300", "beanstalk+tls": "11301"}
	port := u.Port()
	switch standard, ok := ports[u.Scheme]; {
	case !ok:
		return bad("has an unknown scheme")
	case u.Hostname() == "":
		return bad("has no host")
	case port == "":
		port = standard
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return bad("has an invalid port")
	}
	t := Target{Network: "tcp", Address: net.JoinHostPort(u.Hostname(), port), Name: name}
	if strings.HasPrefix(u.Scheme, "beanstalk") {
		t.tls = u.Scheme != "beanstalk"
		if strings.Trim(u.Path, "/") != "" {
			return bad("has more than an address")
		}
		return t, nil
	}
	t.Base = &url.URL{Scheme: u.Scheme, Host: t.Address, Path: strings.TrimRight(u.Path, "/")}
	if u.Scheme == "https" && port == "443" {
		t.Base.Host = u.Host // as in the certificate and proxies
	}
	return t, nil
}

// Places lists the servers to try, in this order, if none is named.
var Places = []string{"unix:/run/polystalkd/http.sock", "http://127.0.0.1:11380", "beanstalk://127.0.0.1:11300"}

// BeanstalkPlaces is like Places, for verbs that need beanstalkd's protocol.
var BeanstalkPlaces = []string{"beanstalk+unix:/run/polystalkd/polystalkd.sock", "beanstalk://127.0.0.1:11300"}

// Find returns the server with this name. If the name is empty, it returns the first of places that
// accepts a connection.
func Find(ctx context.Context, name string, places []string) (Target, error) {
	if name != "" {
		return parseTarget(name)
	}
	for _, place := range places {
		t, err := parseTarget(place)
		if err != nil {
			return t, err
		}
		if t.Network == "unix" {
			if _, err := os.Stat(t.Address); err != nil {
				continue
			}
		}
		d := net.Dialer{Timeout: time.Second}
		conn, err := d.DialContext(ctx, t.Network, t.Address)
		if err == nil {
			conn.Close()
			return t, nil
		}
	}
	return Target{}, Errorf(System, "there is no server at %s: start polystalkd with --http 127.0.0.1:11380, or name another one by %s or %s",
		strings.Join(places, ", "), serverFlag, Variable)
}

// Token reads a token from a file. Without a file it returns an empty token.
func Token(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", Errorf(Usage, "the file of the token cannot be read: %v: give the one that holds it by --token-file", err)
	}
	token := strings.TrimSpace(string(b))
	for _, c := range []byte(token) {
		if c <= ' ' || c >= 0x7F {
			return "", Errorf(Usage, "%s holds more than a token: put the token there alone, on one line", file)
		}
	}
	if token == "" {
		return "", Errorf(Usage, "%s holds no token: put one there, on one line", file)
	}
	return token, nil
}
