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

// A Call is one request, once it is known who asks for what.
type Call struct {
	W        http.ResponseWriter
	R        *http.Request
	Ctx      context.Context // ends with the server, after operationWithin, and for a read with the client
	ID       string          // of the request
	Grant    access.Grant    // what who asks may do
	Sees     access.Bodies   // how much of the bodies of jobs he may see
	Body     []byte          // of a route that TakesBody
	Affected uint64          // jobs, or whatever was changed: the handler's word for the audit
	Detail   string          // what that was, beyond the path: the same
	note     func(status int, affected uint64, detail string)

	caller *caller // whom another server has let in, and says who he is; nil: c.R is a client's
	denied error   // the problem of the token that the request shows; nil: it shows a good one, or none
	client string  // its address
	secure bool    // the client speaks TLS, to us or to a proxy

	uncertain bool // the request may have changed something

	still func() bool
	begun time.Time // of a stream; zero: it has not begun
}

// Later is for what goes on after the answer: what it returns notes in the audit and in the
// log how that has ended, as another change of who has asked for it. It may be called by
// anyone, when the call is over.
func (c *Call) Later() func(status int, affected uint64, detail string) { return c.note }

// StillMay reports whether who asks may still do what he was let in for, and looks anew what
// else he may: a stream goes on longer than a token may.
func (c *Call) StillMay() bool { return c.still() }

// encoding is held by who turns a value into JSON, which takes a processor for up to some
// milliseconds, without a pause. There is about one processor more than event loops: were
// several such answers made at a time, loops would wait for one.
var encoding = make(chan struct{}, 1)

// Encoded returns a value as JSON.
func Encoded(v any) ([]byte, error) {
	encoding <- struct{}{}
	defer func() { <-encoding }()
	return json.Marshal(v)
}

// Answer sends a value as JSON.
func (c *Call) Answer(status int, v any) error {
	b, err := Encoded(v)
	if err != nil {
		return err
	}
	h := c.W.Header()
	h.Set("Content-Type", "application/json")
	c.W.WriteHeader(status)
	if c.R.Method != http.MethodHead {
		c.W.Write(append(b, '\n'))
	}
	return nil
}

// Done answers that something was done of which there is nothing to tell.
func (c *Call) Done() error {
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

// DoneAtLast is Done of what may make this process begin anew: it is sent before the call is over,
// since what waits for calls to be over does not wait for their answers.
func (c *Call) DoneAtLast() error {
	c.W.WriteHeader(http.StatusNoContent)
	http.NewResponseController(c.W).Flush() // a test's writer has none
	return nil
}

// Text sends a text.
func (c *Call) Text(status int, s string) error {
	c.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.W.WriteHeader(status)
	if c.R.Method != http.MethodHead {
		c.W.Write([]byte(s))
	}
	return nil
}

// Query reads the parameters of a request. All of them must be among those that are known,
// and none given twice.
func (c *Call) Query(known ...string) (url.Values, error) {
	q, err := url.ParseQuery(c.R.URL.RawQuery)
	if err != nil {
		return nil, wire.BadRequest.With("", "the query cannot be read: "+err.Error(), "percent-encode what is no letter or digit")
	}
	for name, values := range q {
		found := false
		for _, k := range known {
			found = found || k == name
		}
		switch {
		case !found && len(known) == 0:
			return nil, wire.BadRequest.With(name, "the parameter is unknown", "leave it out: this path takes none")
		case !found:
			return nil, wire.BadRequest.With(name, "the parameter is unknown", "give one of "+strings.Join(known, ", "))
		case len(values) > 1:
			return nil, wire.BadRequest.With(name, "the parameter is given more than once", "give it once")
		}
	}
	return q, nil
}

// Hashed is a short digest of what an answer depends on.
func Hashed(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// Tagged gives the answer a tag, and reports whether the client has it already: then it is
// answered so. A weak tag is that of an answer whose unimportant parts may differ.
// Source: RFC 9110, section 13.1.2.
func (c *Call) Tagged(tag string, weak bool) (had bool) {
	tag = `"` + tag + `"`
	h := c.W.Header()
	h.Set("ETag", tag)
	if weak {
		h.Set("ETag", "W/"+tag)
	}
	// Whoever has an answer may show it again once he has asked whether it still holds.
	h.Set("Cache-Control", "private, no-cache")
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
