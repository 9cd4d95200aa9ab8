package http

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// pieceSize is how much of a stream is written at a time, in bytes, and pieceWithin how
	// long the client may take to make room for it.
	pieceSize   = 16 << 10
	pieceWithin = 5 * time.Second
	// endWithin is how long the end of a stream may take.
	endWithin = 100 * time.Millisecond
	// sentMax is how much the kernel holds of what was written: a client that is behind by
	// more would be shown the past.
	sentMax = 64 << 10
	// bufferKept is how large a buffer may be that is kept for the next events.
	bufferKept = 64 << 10
)

// An EventStream is an answer by server-sent events. It belongs to the handler's goroutine.
// Source: the HTML Standard, section 9.2.
type EventStream struct {
	c      *Call
	rc     *http.ResponseController
	buf    []byte
	within time.Duration // that a piece may take
	// unwatch ends the watch over c.Ctx.
	unwatch func() bool
}

// EventStream begins the answer of a route that Streams: a client that lost it is to come
// again after a time. It is to be closed. nil: only the header was asked for, and is sent.
func (c *Call) EventStream(again time.Duration) *EventStream {
	h := c.W.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy that collects parts would hold events back
	h.Set("Connection", "close")     // what is left of the connection is of no use
	c.W.WriteHeader(http.StatusOK)
	c.begun = time.Now()
	if c.R.Method == http.MethodHead {
		return nil
	}
	e := &EventStream{c: c, rc: http.NewResponseController(c.W), within: pieceWithin}
	e.rc.SetReadDeadline(time.Time{}) // that of the request, which would end the stream
	boundSent(c.R)
	// Whoever waits in Send is not waited for once the stream is to end.
	e.unwatch = context.AfterFunc(c.Ctx, func() { e.rc.SetWriteDeadline(time.Now().Add(endWithin)) })
	e.buf = append(e.buf, "retry: "+strconv.FormatInt(again.Milliseconds(), 10)+"\n\n"...)
	return e
}

// boundSent bounds how much of an answer the kernel holds that the client has not read.
func boundSent(r *http.Request) {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	if b, ok := transport(conn).(interface{ SetWriteBuffer(bytes int) error }); ok {
		b.SetWriteBuffer(sentMax)
	}
}

// Event adds an event, to be sent. Its id and name hold no line ends, nor does its data, which
// is JSON.
func (e *EventStream) Event(id, name string, data []byte) {
	e.buf = append(e.buf, "id: "+id+"\nevent: "+name+"\ndata: "...)
	e.buf = append(e.buf, data...)
	e.buf = append(e.buf, "\n\n"...)
}

// Comment adds what clients pass over, so that nobody takes the connection for dead.
func (e *EventStream) Comment() { e.buf = append(e.buf, ": \n\n"...) }

// Send sends what was added, if anything was. The error says that the client has gone, reads
// too slowly, or that the stream is to end.
func (e *EventStream) Send() error {
	for left := e.buf; len(left) > 0; {
		e.rc.SetWriteDeadline(time.Now().Add(e.within))
		if err := e.c.Ctx.Err(); err != nil {
			return err
		}
		n := min(len(left), pieceSize)
		if _, err := e.c.W.Write(left[:n]); err != nil {
			return err
		}
		if err := e.rc.Flush(); err != nil {
			return err
		}
		left = left[n:]
	}
	if e.buf = e.buf[:0]; cap(e.buf) > bufferKept {
		e.buf = nil
	}
	return nil
}

// Close ends the stream.
func (e *EventStream) Close() {
	e.unwatch()
	e.rc.SetWriteDeadline(time.Now().Add(endWithin))
}
