package http

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// A call is one request of an identified client.
type call struct {
	W        http.ResponseWriter
	R        *http.Request
	Ctx      context.Context // ends with the server, after operationWithin, and for a read with the client
	ID       string          // of the request
	Grant    access.Grant    // what the client may do
	Sees     access.Bodies   // how much of job bodies the client may see
	Query    url.Values      // checked against the route's parameters
	Body     []byte          // of a route with the flag takesBody
	Affected uint64          // number of jobs or other things that the handler changed, for the audit
	Detail   string          // what the handler did, for the audit; the path is there already

	caller *caller // the client as another server describes it; nil: the client sent R itself
	denied error   // the problem of the token; nil: the token is valid, or there is none
	client string  // address
	secure bool    // the client speaks TLS, to the server or to a proxy

	uncertain bool      // the request may have changed something
	begun     time.Time // start of a stream; zero: it has not started
	still     func() bool
	later     func(status int, affected uint64, detail string) // see server.auditor
}

// mayStill reads the client's grant again, and reports whether it still allows the request. A
// token may be removed while its stream is open.
func (c *call) mayStill() bool { return c.still() }

// encoding is a lock: one value at a time is encoded as JSON, which can take milliseconds. The
// event loops leave about one processor free.
var encoding = make(chan struct{}, 1)

// encoded returns a value as JSON.
func encoded(v any) ([]byte, error) {
	encoding <- struct{}{}
	defer func() { <-encoding }()
	return json.Marshal(v)
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
		c.Query = c.R.URL.Query()
		return nil
	}
	if c.Query, err = url.ParseQuery(c.R.URL.RawQuery); err != nil {
		return wire.BadRequest.With("", "the query cannot be read: "+err.Error(), "percent-encode everything except letters and digits")
	}
	for name, values := range c.Query {
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
