package bench

import (
	"bytes"
	"context"
	"fmt"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
)

// serveFloor serves addr, host:port, until ctx ends, with a loop for each core. It parses
// beanstalkd's commands and answers them with constants; every RESERVED has body bytes. It has no
// tubes, no jobs and no state: its cost is the minimum that a server on the same event loop pays
// for system calls and framing.
func serveFloor(ctx context.Context, addr string, body int) error {
	h := &floor{reserved: fmt.Appendf(nil, "RESERVED 1 %d\r\n%s\r\n", body, bytes.Repeat([]byte("x"), body))}
	ended := make(chan error, 1)
	go func() {
		ended <- gnet.Run(h, "tcp://"+addr, gnet.WithNumEventLoop(max(1, len(allowedCPUs()))), gnet.WithLogLevel(logging.ErrorLevel),
			gnet.WithReuseAddr(true)) // the port may have connections in TIME_WAIT, as FreePort permits
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil // the loops end with the process
	}
}

type floor struct {
	gnet.BuiltinEventEngine
	reserved []byte
}

// A floorConn has the beginning of an incomplete command, and a buffer for the replies of one
// event.
type floorConn struct{ partial, out []byte }

func (h *floor) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	c.SetContext(new(floorConn))
	return nil, gnet.None
}

// OnTraffic answers all complete commands of one readable event with one write.
func (h *floor) OnTraffic(c gnet.Conn) gnet.Action {
	k := c.Context().(*floorConn)
	in, err := c.Next(-1)
	if err != nil {
		return gnet.Close
	}
	if len(k.partial) > 0 {
		k.partial = append(k.partial, in...)
		in = k.partial
	}
	k.out = k.out[:0]
	for {
		n := h.answer(k, in)
		if n < 0 {
			return gnet.Close
		}
		if n == 0 {
			break
		}
		in = in[n:]
	}
	k.partial = append(k.partial[:0], in...) // moves down within itself, or copies
	if len(k.out) > 0 {
		if _, err := c.Write(k.out); err != nil {
			return gnet.Close
		}
	}
	return gnet.None
}

// answer carries out the command at the start of in and appends its reply to k's output. It returns
// the length of the command; 0: it is incomplete; -1: it ends the connection.
func (h *floor) answer(k *floorConn, in []byte) int {
	n := bytes.IndexByte(in, '\n') + 1
	if n < 2 {
		return 0
	}
	word, rest, _ := bytes.Cut(in[:n-2], []byte{' '})
	switch string(word) {
	case "put":
		size, ok := parseUint(rest[bytes.LastIndexByte(rest, ' ')+1:], true)
		if !ok || size > maxBody {
			return -1
		}
		if n += int(size) + 2; n > len(in) {
			return 0
		}
		k.out = append(k.out, "INSERTED 1\r\n"...)
	case "reserve", "reserve-with-timeout":
		k.out = append(k.out, h.reserved...)
	case "delete":
		k.out = append(k.out, "DELETED\r\n"...)
	case "use":
		k.out = append(append(append(k.out, "USING "...), rest...), "\r\n"...)
	case "watch", "ignore":
		k.out = append(k.out, "WATCHING 1\r\n"...)
	default:
		return -1
	}
	return n
}
