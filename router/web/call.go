package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// A call is one request, once it is known who asks for what.
type call struct {
	w        http.ResponseWriter
	r        *http.Request
	ctx      context.Context // ends with the client, with the server, or after operationWithin
	id       string          // of the request
	grant    access.Grant
	client   string // its address
	secure   bool   // the client speaks TLS, to us or to a proxy
	body     []byte // if it was read
	affected uint64 // jobs, or whatever was changed
}

// answer sends a value as JSON.
func (c *call) answer(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		c.w.Write(append(b, '\n'))
	}
	return nil
}

// done answers that something was done of which there is nothing to tell.
func (c *call) done() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// text sends a text.
func (c *call) text(status int, s string) error {
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		c.w.Write([]byte(s))
	}
	return nil
}

// query reads the parameters of a request. All of them must be among those that are known,
// and none given twice.
func (c *call) query(known ...string) (url.Values, error) {
	q, err := url.ParseQuery(c.r.URL.RawQuery)
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

// hashed is a short digest of what an answer depends on.
func hashed(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// tagged gives the answer a tag, and reports whether the client has it already: then it is
// answered so. A weak tag is that of an answer whose unimportant parts may differ.
// Source: RFC 9110, section 13.1.2.
func (c *call) tagged(tag string, weak bool) (had bool) {
	tag = `"` + tag + `"`
	h := c.w.Header()
	h.Set("ETag", tag)
	if weak {
		h.Set("ETag", "W/"+tag)
	}
	// Whoever has an answer may show it again once he has asked whether it still holds.
	h.Set("Cache-Control", "private, no-cache")
	for _, list := range c.r.Header.Values("If-None-Match") {
		for t := range strings.SplitSeq(list, ",") {
			t = strings.TrimSpace(t)
			if t == "*" || strings.TrimPrefix(t, "W/") == tag {
				c.w.WriteHeader(http.StatusNotModified)
				return true
			}
		}
	}
	return false
}
