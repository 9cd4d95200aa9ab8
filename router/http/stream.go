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

// streamPart is how many bytes of a long answer are made before they are sent, and before
// others get the processor.
const streamPart = 32 << 10

// A longAnswer is sent as it is made, so that it is never in memory as a whole. Its maker must
// hold nothing that others wait for: the client reads as slowly as it likes.
type longAnswer struct {
	to  io.Writer
	zip *gzip.Writer // nil: the client does not accept it
	buf []byte       // made, and not sent yet
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
	// pieceSize is how many bytes of a stream are written at a time, and pieceWithin how long
	// the client may take to accept them.
	pieceSize   = 16 << 10
	pieceWithin = 5 * time.Second
	// endWithin is how long the end of a stream may take.
	endWithin = 100 * time.Millisecond
	// sentMax bounds what the kernel holds for a client: with more, a slow client would be
	// shown the past.
	sentMax = 64 << 10
	// bufferKept is the largest buffer that is kept for the next events.
	bufferKept = 64 << 10
)

// A pacedWriter makes an answer a stream without an end of its own, from start to end: it gives
// the client pieceWithin for each write, and refuses writes once the stream is to end.
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

// start begins the stream of c, which end ends.
func (w *pacedWriter) start(c *call) {
	c.begun, w.ctx = time.Now(), c.Ctx
	w.rc.SetReadDeadline(time.Time{}) // the request's own would end the stream
	boundSent(c.R)
	ends := func() { w.rc.SetWriteDeadline(time.Now().Add(endWithin)) }
	unwatch := context.AfterFunc(c.Ctx, ends) // a write under way is not waited for
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

// boundSent bounds what the kernel holds of an answer that the client has not read.
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

// eventStream begins the answer of a route with the flag streams; retry is when a client that
// lost the stream is to come again. The caller must close it. It returns nil for HEAD.
func (c *call) eventStream(retry time.Duration) *eventStream {
	h := c.W.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies would hold events back
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

// event adds an event. Its id, name and data, which is JSON, hold no line ends.
func (e *eventStream) event(id, name string, data []byte) {
	e.buf = append(e.buf, "id: "+id+"\nevent: "+name+"\ndata: "...)
	e.buf = append(e.buf, data...)
	e.buf = append(e.buf, "\n\n"...)
}

// comment adds what clients ignore, to show that the connection is alive.
func (e *eventStream) comment() { e.buf = append(e.buf, ": \n\n"...) }

// send sends what was added. The error says that the client has gone or reads too slowly, or
// that the stream is to end.
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
