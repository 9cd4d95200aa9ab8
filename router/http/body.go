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

const (
	// jsonMax is the largest JSON body except a job, and the largest body that is read without
	// a slot, in bytes.
	jsonMax = 1 << 20
	// unsizedMax is the largest body without a length that is read without a slot, in bytes.
	unsizedMax = 64 << 10
	// loginMax is the largest body of a request that needs no role, in bytes: it has a token.
	loginMax = 4 << 10
	// leftWithin is the timeout for the rest of a body that is not read.
	leftWithin = 500 * time.Millisecond
)

// bodyMax returns the largest body of a request, in bytes: the largest job, in base64.
func (s *server) bodyMax() int64 {
	return max(jsonMax, int64(s.op.MaxJobSize())*4/3+64<<10)
}

// leaveBody lets the server close the connection after the answer; readBody undoes this once it
// has read the whole body. Without it, net/http would wait for the rest of an unread body before
// it answers, and clients without a role could hold connections.
func leaveBody(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(leftWithin)) // a test's writer has none
}

// readBody reads the body of a request. A large body takes a slot, which bounds the memory of
// all bodies. The caller must call leave, also after an error. On a route that needs no role,
// the body must be small and arrive soon, because anybody may send it.
func (s *server) readBody(rt *route, c *call) (leave func(), err error) {
	leave = func() {}
	if e := c.R.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return leave, wire.NotJSON.With("Content-Encoding", fmt.Sprintf("the body is encoded as %q", e), "send it without an encoding")
	}
	most, within := s.bodyMax(), bodyWithin
	if rt.need == access.Nobody {
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
		free, busy := s.uploads.take(c.Ctx)
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
