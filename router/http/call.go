package http

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// A call is one request of an identified client.
type call struct {
	W        http.ResponseWriter
	R        *http.Request
	Ctx      context.Context    // ends with the server, after operationWithin, and for a read with the client
	ID       string             // of the request
	By       *access.Credential // what the client may do; never nil
	Sees     access.Bodies      // how much of job bodies the client may see
	Query    query              // checked against the route's parameters
	Body     []byte             // of a route with the flag takesBody
	Affected uint64             // number of jobs or other things that the handler changed, for the audit
	Detail   string             // what the handler did, for the audit; the path is there already

	rt     *route
	caller *caller // the client as another server describes it; nil: the client sent R itself
	denied error   // the problem of the token; nil: the token is valid, or there is none
	client string  // address
	secure bool    // the client speaks TLS, to the server or to a proxy

	operates bool // it stands for an operation that runs: the client may know its tubes

	uncertain bool      // the request may have changed something
	begun     time.Time // start of a stream; zero: it has not started
}

// encoding is a lock: one value at a time is encoded as JSON, which can take milliseconds. The
// event loops leave about one processor free.
var encoding = make(chan struct{}, 1)

// encoded returns a value as JSON.
func encoded(v any) ([]byte, error) {
	encoding <- struct{}{}
	defer func() { <-encoding }()
	return json.Marshal(v)
}

// result sends a value as JSON, or returns err.
func (c *call) result(v any, err error) error {
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, v)
}

// answer sends a value as JSON.
func (c *call) answer(status int, v any) error {
	b, err := encoded(v)
	if err != nil {
		return err
	}
	return c.send(status, "application/json", append(b, '\n'))
}

// send sends an answer; for HEAD, without the body.
func (c *call) send(status int, contentType string, body []byte) error {
	c.W.Header().Set("Content-Type", contentType)
	c.W.WriteHeader(status)
	if c.R.Method != http.MethodHead {
		c.W.Write(body)
	}
	return nil
}

// text sends plain text.
func (c *call) text(status int, s string) error {
	return c.send(status, "text/plain; charset=utf-8", []byte(s))
}

// done answers 204 No Content, and flushes the answer. After some changes the process restarts,
// and the restart waits for calls but not for buffered answers.
func (c *call) done() error {
	c.W.WriteHeader(http.StatusNoContent)
	http.NewResponseController(c.W).Flush() // a test's writer has none
	return nil
}

// anyQuery marks a route that does not check its parameters.
const anyQuery = "*"

// readQuery reads the parameters of the request. Each must be in known, and given once.
func (c *call) readQuery(known string) (err error) {
	if known == anyQuery {
		c.Query.Values = c.R.URL.Query()
		return nil
	}
	if c.Query.Values, err = url.ParseQuery(c.R.URL.RawQuery); err != nil {
		return wire.BadRequest.With("", "the query cannot be read: "+err.Error(), "percent-encode everything except letters and digits")
	}
	for name, values := range c.Query.Values {
		switch {
		case known == "":
			return wire.BadRequest.With(name, "the parameter is unknown", "omit it: this path has no parameters")
		case !strings.Contains(" "+known+" ", " "+name+" ") || strings.Contains(name, " "):
			return wire.BadRequest.With(name, "the parameter is unknown", "use one of "+strings.ReplaceAll(known, " ", ", "))
		case len(values) > 1:
			return wire.BadRequest.With(name, "the parameter is given more than once", "give it once")
		}
	}
	return nil
}

// hashed returns a short digest of the values that an answer depends on.
func hashed(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// tagged sets the ETag of the answer. If the client already has this version, tagged answers
// 304 Not Modified and returns true. A weak tag allows insignificant differences.
// Source: RFC 9110, section 13.1.2.
func (c *call) tagged(tag string, weak bool) (had bool) {
	tag = `"` + tag + `"`
	h := c.W.Header()
	h.Set("ETag", tag)
	if weak {
		h.Set("ETag", "W/"+tag)
	}
	h.Set("Cache-Control", "private, no-cache") // the client may reuse the answer after revalidation
	for _, list := range c.R.Header.Values("If-None-Match") {
		for t := range strings.SplitSeq(list, ",") {
			t = strings.TrimSpace(t)
			if t == "*" || strings.TrimPrefix(t, "W/") == tag {
				c.W.WriteHeader(http.StatusNotModified)
				return true
			}
		}
	}
	return false
}

// A query is the parameters of a request. Its methods read one each, and return the default if it
// is absent. err is the first problem: the caller must check it before it uses the values.
type query struct {
	url.Values
	err error
}

// refuse sets err, unless it is set already.
func (q *query) refuse(name, detail, remedy string) {
	if q.err == nil {
		q.err = wire.BadRequest.With(name, detail, remedy)
	}
}

// number reads a number from least to most.
func (q *query) number(name string, without, least, most uint64) uint64 {
	if !q.Has(name) {
		return without
	}
	n, err := strconv.ParseUint(q.Get(name), 10, 64)
	if err != nil || n < least || n > most {
		remedy := fmt.Sprintf("give a whole number from %d on", least)
		if most < math.MaxUint64 {
			remedy = fmt.Sprintf("give a whole number from %d to %d", least, most)
		}
		q.refuse(name, fmt.Sprintf("%q is not a number in this range", q.Get(name)), remedy)
	}
	return n
}

// one reads one of words; the first is the default.
func (q *query) one(name string, words ...string) string {
	if !q.Has(name) {
		return words[0]
	}
	if !slices.Contains(words, q.Get(name)) {
		q.refuse(name, fmt.Sprintf("%q is unknown", q.Get(name)), fmt.Sprintf("give one of %q", words))
	}
	return q.Get(name)
}

// isTrue reads false or true; the default is false.
func (q *query) isTrue(name string) bool { return q.one(name, "false", "true") == "true" }

// withBody adapts a handler that takes a JSON body.
func withBody[T any](handler func(c *call, in *T) error) func(c *call) error {
	return func(c *call) error {
		in := new(T)
		if err := c.decode(in); err != nil {
			return err
		}
		return handler(c, in)
	}
}

// nameTube replaces the tube - of a path by the parameter tube. Browsers and proxies resolve
// the segments . and .. of a path, and http.ServeMux ends the path at the segment %2F.
func nameTube(c *call) {
	q, err := url.ParseQuery(c.R.URL.RawQuery)
	if c.R.PathValue("tube") != "-" || err != nil || len(q["tube"]) != 1 {
		return
	}
	name := q.Get("tube")
	c.R.SetPathValue("tube", name)
	// The audit shows the path, and must name the tube.
	const tubes = "/api/v1/tubes/"
	below := strings.TrimPrefix(c.R.URL.Path, tubes+"-")
	c.R.URL.Path, c.R.URL.RawPath = tubes+name+below, tubes+wire.PathName(name)+below
	q.Del("tube")
	c.R.URL.RawQuery = q.Encode()
}

// tubeOf returns the name of the tube in the path, byte for byte, before and after nameTube.
func tubeOf(c *call) string {
	name := c.R.PathValue("tube")
	if name == "-" {
		if tubes := c.R.URL.Query()["tube"]; len(tubes) == 1 {
			return tubes[0]
		}
	}
	return name
}

// idOf returns the id in the path. of is what the id belongs to, such as "a job", for problems.
func idOf(c *call, of, remedy string) (uint64, error) {
	text := c.R.PathValue("id")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, wire.BadRequest.With("id", fmt.Sprintf("%q is not the id of %s", text, of), remedy)
	}
	return n, nil
}

// newGlob returns a function that matches tube names, as they are shown, with a pattern: *
// matches any characters, ? one, and [a-z] one of a range. An empty pattern matches all names.
func newGlob(pattern string) (func(name string) bool, error) {
	if pattern == "" || pattern == "*" {
		return func(string) bool { return true }, nil
	}
	// In path.Match, * matches no slash, so slashes are replaced.
	pattern = strings.ReplaceAll(pattern, "/", "\x00")
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, wire.BadRequest.With("match", "the pattern cannot be read", `write \[ for a bracket; *, ? and [a-z] stand for characters`)
	}
	return func(name string) bool {
		ok, _ := path.Match(pattern, strings.ReplaceAll(wire.ShownName(name), "/", "\x00"))
		return ok
	}, nil
}

// anyGlob returns a function that matches the names that at least one pattern matches.
func anyGlob(patterns []string) (func(name string) bool, error) {
	match := func(string) bool { return false }
	for _, p := range patterns {
		glob, err := newGlob(p)
		if err != nil {
			return nil, err
		}
		before := match
		match = func(name string) bool { return before(name) || glob(name) }
	}
	return match, nil
}

const (
	// jsonMax is the largest JSON body except a job, and the largest body that is read without
	// a slot, in bytes.
	jsonMax = 1 << 20
	// unsizedMax is the largest body without a length that is read without a slot, in bytes.
	unsizedMax = 64 << 10
	// loginMax is the largest body on a route for everybody, in bytes: it has a token.
	loginMax = 4 << 10
	// leftWithin is the timeout for the rest of a body that is not read.
	leftWithin = 500 * time.Millisecond
)

// bodyMax returns the largest body of a request, in bytes: the largest job, in base64.
func (a *API) bodyMax() int64 {
	return max(jsonMax, int64(a.op.MaxJobSize())*4/3+64<<10)
}

// leaveBody lets the server close the connection after the answer; readBody undoes this once it
// has read the whole body. Without it, net/http would wait for the rest of an unread body before
// it answers, and clients without rights could hold connections.
func leaveBody(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(leftWithin)) // a test's writer has none
}

// readBody reads the body of a request. A large body takes a slot, which bounds the memory of
// all bodies. The caller must call leave, also after an error. On a route for everybody,
// the body must be small and arrive soon, because anybody may send it.
func (a *API) readBody(c *call) (leave func(), err error) {
	leave = func() {}
	if e := c.R.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return leave, wire.NotJSON.With("Content-Encoding", fmt.Sprintf("the body is encoded as %q", e), "send it without an encoding")
	}
	most, within := a.bodyMax(), bodyWithin
	if !c.rt.need.some {
		most, within = loginMax, headerWithin
	}
	if c.R.ContentLength > most {
		return leave, tooLarge(most)
	}
	control := http.NewResponseController(c.W)
	control.SetReadDeadline(time.Now().Add(within))
	first := int64(jsonMax) // that much is read without a slot
	switch n := c.R.ContentLength; {
	case n > jsonMax:
		first = 0
	case n < 0:
		first = unsizedMax
	}
	var b bytes.Buffer
	body := http.MaxBytesReader(unwrapped(c.W), c.R.Body, most)
	if first > 0 {
		b.Grow(int(max(c.R.ContentLength, 0)) + bytes.MinRead)
		_, err = io.CopyN(&b, body, first+1)
	}
	if err == nil { // it is large
		free, busy := a.uploads.take(c.Ctx)
		if busy != nil {
			control.SetReadDeadline(time.Now()) // nothing more is read
			return leave, busy
		}
		leave = free
		_, err = io.Copy(&b, body)
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return leave, tooLarge(most)
	}
	if err != nil && err != io.EOF {
		control.SetReadDeadline(time.Now())
		return leave, wire.BadRequest.With("", "the body is incomplete: "+err.Error(), "send it again")
	}
	control.SetReadDeadline(time.Now().Add(bodyWithin)) // the body's deadline would cancel the call
	c.W.Header().Del("Connection")
	c.Body = b.Bytes()
	return leave, nil
}

// unwrapped returns net/http's own writer, which MaxBytesReader needs to close the connection.
func unwrapped(w http.ResponseWriter) http.ResponseWriter {
	for {
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = inner.Unwrap()
	}
}

func tooLarge(most int64) error {
	return wire.TooLarge.Problem(fmt.Sprintf("the limit is %d bytes", most))
}

// mediaType returns the media type of the body, without parameters. It is empty unless the
// request names exactly one.
func (c *call) mediaType() string {
	types := c.R.Header.Values("Content-Type")
	if len(types) != 1 {
		return ""
	}
	t, _, err := mime.ParseMediaType(types[0])
	if err != nil {
		return ""
	}
	return t
}

// decode reads the body into v, as strictly as wire.Decode. No member may be null.
func (c *call) decode(v any) error {
	if t := c.mediaType(); t != "application/json" {
		detail := "the header Content-Type is missing"
		if is := c.R.Header.Values("Content-Type"); len(is) > 0 {
			detail = fmt.Sprintf("it is %q", strings.Join(is, ", "))
		}
		return wire.NotJSON.With("Content-Type", detail, wire.NotJSON.Remedy)
	}
	if len(bytes.TrimSpace(c.Body)) == 0 {
		return wire.BadRequest.With("", "the body is empty", "send one JSON object; /api/v1/openapi.json describes it")
	}
	if err := wire.Decode(c.Body, v); err != nil {
		return err
	}
	return wire.RefuseNull(c.Body)
}
