package http

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// jsonMax is the largest body of JSON but for that of a job, and the largest of any that is
// read, or sent as JSON, beside others.
const jsonMax = 1 << 20

// LoginMax is the largest body of a request that everybody may send: it holds a token.
const LoginMax = 4 << 10

// BodyMax is the largest body of a request: a job's, as JSON writes it at worst.
func (s *server) BodyMax() int64 {
	return max(jsonMax, int64(s.opts.MaxJobSize())*4/3+64<<10)
}

// leftWithin is how long the rest of a body that nobody reads may take to come.
const leftWithin = 500 * time.Millisecond

// leaveBody has the connection end with the answer, unless the body is read. net/http would
// wait for it before it answers: who may do nothing could hold connections so.
func leaveBody(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(leftWithin)) // a test's writer has none
}

// readBody reads the body of a request. A large one takes a place, so that few of them are in
// memory at a time; leave gives the place back. The caller calls leave whatever the error is.
//
// On a route for everybody a body is small and comes soon, and takes no place: anybody may send it.
func (s *server) readBody(rt *Route, c *Call) (leave func(), err error) {
	leave = func() {}
	if e := c.R.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return leave, wire.NotJSON.With("Content-Encoding", fmt.Sprintf("the body is encoded as %q", e), "send it as it is")
	}
	most, within := s.BodyMax(), bodyWithin
	if rt.Need == access.Nobody {
		most, within = LoginMax, HeaderWithin
	}
	n := c.R.ContentLength
	if n > most {
		return leave, tooLarge(most)
	}
	if most > jsonMax && (n < 0 || n > jsonMax) {
		if err := s.uploads.enter(c.Ctx); err != nil {
			return leave, err
		}
		leave = s.uploads.leave
	}
	control := http.NewResponseController(c.W)
	control.SetReadDeadline(time.Now().Add(within))
	var b bytes.Buffer
	if n > 0 {
		b.Grow(int(min(n, jsonMax)) + bytes.MinRead)
	}
	_, err = io.Copy(&b, http.MaxBytesReader(bare(c.W), c.R.Body, most))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return leave, tooLarge(most)
	}
	if err != nil {
		control.SetReadDeadline(time.Now()) // nothing more is read
		return leave, wire.BadRequest.With("", "the body did not come whole: "+err.Error(), "send it again")
	}
	control.SetReadDeadline(time.Now().Add(bodyWithin)) // else to have read it would end the call
	c.W.Header().Del("Connection")
	c.Body = b.Bytes()
	return leave, nil
}

// bare is net/http's own writer, which MaxBytesReader has close the connection instead of
// waiting for the rest.
func bare(w http.ResponseWriter) http.ResponseWriter {
	for {
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = inner.Unwrap()
	}
}

func tooLarge(most int64) error {
	return wire.TooLarge.Problem(fmt.Sprintf("at most %d bytes are taken here", most))
}

// MediaType returns the media type of the body, without parameters. It is empty unless the
// request names exactly one.
func (c *Call) MediaType() string {
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

// Decode reads the body into v, as strictly as wire.Decode does. No member may be null.
func (c *Call) Decode(v any) error {
	if t := c.MediaType(); t != "application/json" {
		detail := "the header Content-Type is missing"
		if is := c.R.Header.Values("Content-Type"); len(is) > 0 {
			detail = fmt.Sprintf("it is %q", strings.Join(is, ", "))
		}
		return wire.NotJSON.With("Content-Type", detail, wire.NotJSON.Remedy)
	}
	if len(bytes.TrimSpace(c.Body)) == 0 {
		return wire.BadRequest.With("", "the body is empty", "send one JSON object; /api/v1/openapi.json says what it has")
	}
	if err := wire.Decode(c.Body, v); err != nil {
		return err
	}
	return wire.RefuseNull(c.Body)
}
