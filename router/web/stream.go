package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"runtime"
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
	if strings.Contains(c.R.Header.Get("Accept-Encoding"), "gzip") {
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
