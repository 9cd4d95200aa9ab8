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
	Affected uint64          // jobs or other things that the handler changed, for the audit
	Detail   string          // the same in words, beyond the path

	caller *caller // the client as another server describes it; nil: R came from the client itself
	denied error   // the problem of the token; nil: the token is good, or there is none
	client string  // address
	secure bool    // the client speaks TLS, to the server or to a proxy

	uncertain bool      // the request may have changed something
	begun     time.Time // of a stream; zero: it has not begun
	still     func() bool
	later     func(status int, affected uint64, detail string) // see server.auditor
}

// mayStill reports whether the client is still allowed what it was at the start, and reads its
// grant again: a stream may outlive a token.
func (c *call) mayStill() bool { return c.still() }

// encoding is held while a value is encoded as JSON, which takes a processor for up to some
// milliseconds. There is about one processor more than event loops.
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

// send sends a body, but for HEAD.
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

// done answers that it was done. The answer is sent at once: after some changes the process
// restarts, which waits for calls and not for their answers.
func (c *call) done() error {
	c.W.WriteHeader(http.StatusNoContent)
	http.NewResponseController(c.W).Flush() // a test's writer has none
	return nil
}

// anyQuery is the parameters of a route that checks none.
const anyQuery = "*"

// readQuery reads the parameters of the request. Each must be one of known, and given once.
func (c *call) readQuery(known string) (err error) {
	if known == anyQuery {
		c.Query = c.R.URL.Query()
		return nil
	}
	if c.Query, err = url.ParseQuery(c.R.URL.RawQuery); err != nil {
		return wire.BadRequest.With("", "the query cannot be read: "+err.Error(), "percent-encode all but letters and digits")
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

// hashed returns a short digest of what an answer depends on.
func hashed(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// tagged sets the ETag of the answer. It returns true if the client has that answer already:
// the call is answered then. A weak tag allows insignificant differences.
// Source: RFC 9110, section 13.1.2.
func (c *call) tagged(tag string, weak bool) (had bool) {
	tag = `"` + tag + `"`
	h := c.W.Header()
	h.Set("ETag", tag)
	if weak {
		h.Set("ETag", "W/"+tag)
	}
	h.Set("Cache-Control", "private, no-cache") // the client may show the answer again after it has asked
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
