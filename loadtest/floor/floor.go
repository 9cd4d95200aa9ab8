// Package floor is a server that parses beanstalkd commands and answers them
// with constants: no tubes, no jobs, no state. What it costs is what any
// server built on the same event loop must pay for system calls and framing,
// so it is the lower bound that a comparison shows.
//
// It is part of the load tester, not of the job server, and is the one place
// besides the server's own event loops that imports gnet: the rule that nothing
// else does is about the server. main.go runs it in a process of its own.
package floor

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
)

// Options of the server.
type Options struct {
	Addr  string // host:port
	Loops int    // event loops
	Body  int    // bytes of the body of every RESERVED
}

// Run serves until ctx ends.
func Run(ctx context.Context, o Options) error {
	h := &handler{reserved: fmt.Appendf(nil, "RESERVED 1 %d\r\n%s\r\n", o.Body, bytes.Repeat([]byte("x"), o.Body))}
	ended := make(chan error, 1)
	h.booted = make(chan gnet.Engine, 1)
	go func() {
		ended <- gnet.Run(h, "tcp://"+o.Addr, gnet.WithNumEventLoop(o.Loops), gnet.WithLogLevel(logging.ErrorLevel))
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case engine := <-h.booted:
		if err := engine.Stop(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		return <-ended
	}
}

type handler struct {
	gnet.BuiltinEventEngine
	reserved []byte
	booted   chan gnet.Engine
}

// A client is what the server keeps of a connection: the beginning of a
// command that is not complete yet, and a buffer for the replies of one event.
type client struct {
	partial []byte
	out     []byte
}

func (h *handler) OnBoot(e gnet.Engine) gnet.Action {
	h.booted <- e
	return gnet.None
}

func (h *handler) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	c.SetContext(new(client))
	return nil, gnet.None
}

// OnTraffic answers all complete commands of one readable event with one write.
func (h *handler) OnTraffic(c gnet.Conn) gnet.Action {
	k := c.Context().(*client)
	in, err := c.Next(-1)
	if err != nil {
		return gnet.Close
	}
	if len(k.partial) > 0 {
		k.partial = append(k.partial, in...)
		in = k.partial
	}
	out := k.out[:0]
	quit := false
	for len(in) > 0 && !quit {
		n := 0
		if out, n, quit = h.answer(out, in); n == 0 {
			break
		}
		in = in[n:]
	}
	k.partial = append(k.partial[:0], in...) // moves down within itself, or copies
	k.out = out
	if len(out) > 0 {
		if _, err := c.Write(out); err != nil {
			return gnet.Close
		}
	}
	if quit {
		return gnet.Close
	}
	return gnet.None
}

// answer parses one command at the start of in and appends its reply to out.
// n is what the command takes; 0 if it is not complete.
func (h *handler) answer(out, in []byte) (_ []byte, n int, quit bool) {
	end := bytes.IndexByte(in, '\r')
	if end < 0 || end+1 == len(in) {
		return out, 0, false
	}
	line, n := in[:end], end+2
	word, rest, _ := bytes.Cut(line, []byte{' '})
	switch string(word) {
	case "put":
		size, ok := putSize(rest)
		if !ok {
			return append(out, "BAD_FORMAT\r\n"...), n, false
		}
		if n += size + 2; n > len(in) {
			return out, 0, false
		}
		out = append(out, "INSERTED 1\r\n"...)
	case "reserve", "reserve-with-timeout":
		out = append(out, h.reserved...)
	case "delete":
		if _, err := strconv.ParseUint(string(rest), 10, 64); err != nil {
			return append(out, "BAD_FORMAT\r\n"...), n, false
		}
		out = append(out, "DELETED\r\n"...)
	case "use":
		out = append(append(append(out, "USING "...), rest...), "\r\n"...)
	case "watch", "ignore":
		out = append(out, "WATCHING 1\r\n"...)
	case "quit":
		return out, n, true
	default:
		out = append(out, "UNKNOWN_COMMAND\r\n"...)
	}
	return out, n, false
}

// putSize parses the four numbers of a put line and returns the last.
func putSize(b []byte) (size int, ok bool) {
	for i := range 4 {
		var f []byte
		f, b, _ = bytes.Cut(b, []byte{' '})
		v, err := strconv.ParseUint(string(f), 10, 32)
		if err != nil || v > 1<<30 {
			return 0, false
		}
		if i == 3 {
			return int(v), len(b) == 0
		}
	}
	return 0, false
}
