package http

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// streamPart is the size of the parts of a long answer, in bytes. After each part, other
// goroutines get the processor.
const streamPart = 32 << 10

// A longAnswer is sent in parts, so it is never in memory as a whole. The caller of flush and
// end must hold no lock and no slot, because a client may read slowly.
type longAnswer struct {
	to  io.Writer
	zip *gzip.Writer // nil: the client does not accept it
	buf []byte       // not sent yet
	err error        // of the connection: nothing more is sent
}

// begin begins a long answer.
func (c *call) begin(contentType string) *longAnswer {
	h := c.W.Header()
	h.Set("Content-Type", contentType)
	h.Add("Vary", "Accept-Encoding")
	s := &longAnswer{to: c.W}
	if acceptsGzip(c.R.Header) {
		h.Set("Content-Encoding", "gzip")
		s.zip, _ = gzip.NewWriterLevel(c.W, gzip.BestSpeed) // the level is valid
		s.to = s.zip
	}
	c.W.WriteHeader(http.StatusOK)
	if c.R.Method == http.MethodHead {
		s.to, s.zip = io.Discard, nil
	}
	return s
}

// acceptsGzip reports whether an answer may be compressed. Source: RFC 9110, section 12.5.3.
func acceptsGzip(h http.Header) (accepts bool) {
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		coding, parameters, _ := strings.Cut(part, ";")
		coding = strings.ToLower(strings.TrimSpace(coding))
		if coding != "gzip" && coding != "*" {
			continue
		}
		weight, weighs := strings.CutPrefix(strings.ToLower(strings.TrimSpace(parameters)), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		accepts = !weighs || err == nil && q > 0
		if coding == "gzip" {
			return accepts // it overrides *
		}
	}
	return accepts
}

// flush sends the buffer once it is full. It reports whether to continue.
func (s *longAnswer) flush() bool {
	if len(s.buf) >= streamPart && s.err == nil {
		_, s.err = s.to.Write(s.buf)
		s.buf = s.buf[:0]
		runtime.Gosched()
	}
	return s.err == nil
}

// Write implements io.Writer.
func (s *longAnswer) Write(p []byte) (int, error) {
	s.buf = append(s.buf, p...)
	s.flush()
	return len(p), s.err
}

// end sends the rest.
func (s *longAnswer) end() {
	if s.err == nil {
		_, s.err = s.to.Write(s.buf)
	}
	if s.zip != nil && s.err == nil {
		s.zip.Close()
	}
}

const (
	// pieceSize is the largest write of a stream, in bytes, and pieceWithin its timeout.
	pieceSize   = 16 << 10
	pieceWithin = 5 * time.Second
	// endWithin is the timeout for the end of a stream.
	endWithin = 100 * time.Millisecond
	// sentMax is the kernel's send buffer of a client, in bytes. With a larger buffer, a slow
	// client would get old events.
	sentMax = 64 << 10
	// bufferKept is the largest buffer that is reused for the next events.
	bufferKept = 64 << 10
)

// A pacedWriter writes a stream. Between start and end, each write has the timeout pieceWithin,
// and fails once the context of the stream has ended.
type pacedWriter struct {
	http.ResponseWriter
	rc     *http.ResponseController
	ctx    context.Context // nil: it has not started
	within time.Duration
	end    func()
}

func newPacedWriter(w http.ResponseWriter) *pacedWriter {
	return &pacedWriter{ResponseWriter: w, rc: http.NewResponseController(w), within: pieceWithin, end: func() {}}
}

// start begins the stream of c. The caller must call end.
func (w *pacedWriter) start(c *call) {
	c.begun, w.ctx = time.Now(), c.Ctx
	w.rc.SetReadDeadline(time.Time{}) // the deadline of the request would end the stream
	boundSent(c.R)
	ends := func() { w.rc.SetWriteDeadline(time.Now().Add(endWithin)) }
	unwatch := context.AfterFunc(c.Ctx, ends) // also ends a write that blocks
	w.end = func() { unwatch(); ends() }
}

func (w *pacedWriter) Write(p []byte) (int, error) {
	if w.ctx != nil {
		w.rc.SetWriteDeadline(time.Now().Add(w.within))
		if err := w.ctx.Err(); err != nil {
			return 0, err
		}
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find what it needs.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// boundSent bounds the kernel's send buffer of a request's connection.
func boundSent(r *http.Request) {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	if b, ok := transport(conn).(interface{ SetWriteBuffer(bytes int) error }); ok {
		b.SetWriteBuffer(sentMax)
	}
}

// An eventStream is an answer of server-sent events. It belongs to the handler's goroutine.
// Source: the HTML Standard, section 9.2.
type eventStream struct {
	w   *pacedWriter
	buf []byte
}

// eventStream begins a stream of events. retry is the delay before a client reconnects. The
// caller must close the stream. For HEAD, eventStream returns nil.
func (c *call) eventStream(retry time.Duration) *eventStream {
	h := c.W.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // else proxies delay events
	h.Set("Connection", "close")
	c.W.WriteHeader(http.StatusOK)
	if c.begun = time.Now(); c.R.Method == http.MethodHead {
		return nil
	}
	e := &eventStream{w: newPacedWriter(c.W)}
	e.w.start(c)
	e.buf = append(e.buf, "retry: "+strconv.FormatInt(retry.Milliseconds(), 10)+"\n\n"...)
	return e
}

// event adds an event. id, name and data, which is JSON, must not contain line ends.
func (e *eventStream) event(id, name string, data []byte) {
	e.buf = append(e.buf, "id: "+id+"\nevent: "+name+"\ndata: "...)
	e.buf = append(e.buf, data...)
	e.buf = append(e.buf, "\n\n"...)
}

// comment adds a keep-alive, which clients ignore.
func (e *eventStream) comment() { e.buf = append(e.buf, ": \n\n"...) }

// send sends what was added. The error says that the client has disconnected or reads too
// slowly, or that the context of the stream has ended.
func (e *eventStream) send() error {
	for left := e.buf; len(left) > 0; {
		n := min(len(left), pieceSize)
		if _, err := e.w.Write(left[:n]); err != nil {
			return err
		}
		if err := e.w.rc.Flush(); err != nil {
			return err
		}
		left = left[n:]
	}
	if e.buf = e.buf[:0]; cap(e.buf) > bufferKept {
		e.buf = nil
	}
	return nil
}

// close ends the stream.
func (e *eventStream) close() { e.w.end() }
