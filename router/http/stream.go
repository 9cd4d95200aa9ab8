package http

import (
	"compress/gzip"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
)

// StreamPart is how much of a long answer is made before it is sent, in bytes, and before
// others have the processor.
const StreamPart = 32 << 10

// A Stream is a long answer that is sent as it is made, so that all of it is never in
// memory. Whoever makes it must hold nothing that others wait for: the client reads as
// slowly as it likes.
type Stream struct {
	to  io.Writer
	zip *gzip.Writer // nil: the client does not take it
	Buf []byte       // what was made, and not sent yet
	err error        // of the connection: nothing is sent any more
}

// Stream begins an answer.
func (c *Call) Stream(contentType string) *Stream {
	h := c.W.Header()
	h.Set("Content-Type", contentType)
	h.Add("Vary", "Accept-Encoding")
	s := &Stream{to: c.W}
	if takesGzip(c.R.Header) {
		h.Set("Content-Encoding", "gzip")
		s.zip, _ = gzip.NewWriterLevel(c.W, gzip.BestSpeed) // the level is one
		s.to = s.zip
	}
	c.W.WriteHeader(http.StatusOK)
	if c.R.Method == http.MethodHead {
		s.to, s.zip = io.Discard, nil
	}
	return s
}

// takesGzip reports whether an answer may be zipped.
// Source: RFC 9110, section 12.5.3.
func takesGzip(h http.Header) (takes bool) {
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		coding, parameters, _ := strings.Cut(part, ";")
		coding = strings.ToLower(strings.TrimSpace(coding))
		if coding != "gzip" && coding != "*" {
			continue
		}
		weight, weighs := strings.CutPrefix(strings.ToLower(strings.TrimSpace(parameters)), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		takes = !weighs || err == nil && q > 0
		if coding == "gzip" {
			return takes // whatever is said of all others
		}
	}
	return takes
}

// Flush sends what was made once it is a part; it reports whether to go on.
func (s *Stream) Flush() bool {
	if len(s.Buf) >= StreamPart && s.err == nil {
		_, s.err = s.to.Write(s.Buf)
		s.Buf = s.Buf[:0]
		runtime.Gosched()
	}
	return s.err == nil
}

// End sends the rest.
func (s *Stream) End() {
	if s.err == nil {
		_, s.err = s.to.Write(s.Buf)
	}
	if s.zip != nil && s.err == nil {
		s.zip.Close()
	}
}
