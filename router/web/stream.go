package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"runtime"
	"strings"
)

// streamPart is how much of a long answer is made before it is sent, in bytes, and before
// others have the processor.
const streamPart = 32 << 10

// A stream is a long answer that is sent as it is made, so that all of it is never in
// memory. Whoever makes it must hold nothing that others wait for: the client reads as
// slowly as it likes.
type stream struct {
	to  io.Writer
	zip *gzip.Writer // nil: the client does not take it
	buf []byte
	err error // of the connection: nothing is sent any more
}

// stream begins an answer.
func (c *call) stream(contentType string) *stream {
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	h.Add("Vary", "Accept-Encoding")
	s := &stream{to: c.w}
	if strings.Contains(c.r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		s.zip, _ = gzip.NewWriterLevel(c.w, gzip.BestSpeed) // the level is one
		s.to = s.zip
	}
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method == http.MethodHead {
		s.to, s.zip = io.Discard, nil
	}
	return s
}

// flush sends what was made once it is a part; it reports whether to go on.
func (s *stream) flush() bool {
	if len(s.buf) >= streamPart && s.err == nil {
		_, s.err = s.to.Write(s.buf)
		s.buf = s.buf[:0]
		runtime.Gosched()
	}
	return s.err == nil
}

// end sends the rest.
func (s *stream) end() {
	if s.err == nil {
		_, s.err = s.to.Write(s.buf)
	}
	if s.zip != nil && s.err == nil {
		s.zip.Close()
	}
}
