package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// MaxBody bounds what the load tester is ready to buffer for one reply.
const MaxBody = 1<<30 + 2

// A Link is one connection to the server, whatever is spoken on it, used by one
// goroutine: requests are appended to Out, written at once, and their replies
// read in order.
type Link struct {
	NC   net.Conn
	Out  []byte // requests that are not yet sent
	Body []byte // the template of a body: see StampBody
	At   int64  // when the bytes of the last reply had arrived (Now)

	exchange *exchange
	in       []byte
	lo, hi   int // unread bytes are in[lo:hi]
}

// Dial connects to addr: host:port, or unix:PATH. Bodies have body bytes.
func Dial(ctx context.Context, addr string, body int) (Link, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: -1}
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return Link{}, fmt.Errorf("connect: %w", err)
	}
	x, err := newExchange(nc)
	if err != nil {
		return Link{}, fmt.Errorf("connect: %w", err)
	}
	return Link{NC: nc, exchange: x, in: make([]byte, 16<<10), Body: NewBody(body)}, nil
}

// StampBody puts a stamp on Body.
func (k *Link) StampBody(stamp uint64) { PutStamp(k.Body, stamp) }

// Ask writes what has been appended and returns when the answer begins to
// arrive, or as soon as that is for Flush and Receive to sort out.
func (k *Link) Ask() error {
	if k.lo != k.hi {
		return k.Flush()
	}
	k.lo, k.hi = 0, 0
	written, read, err := k.exchange.run(k.Out, k.in)
	if err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	if read > 0 {
		k.hi, k.At = read, Now()
	}
	if written < len(k.Out) {
		k.Out = k.Out[:copy(k.Out, k.Out[written:])]
		return k.Flush()
	}
	k.Out = k.Out[:0]
	return nil
}

// Flush writes what has been appended, in one system call if the kernel takes it.
func (k *Link) Flush() error {
	_, err := k.NC.Write(k.Out)
	k.Out = k.Out[:0]
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// Unread returns the bytes that have come and were not used. They are valid
// until the next Ask or Receive.
func (k *Link) Unread() []byte { return k.in[k.lo:k.hi] }

// Use takes the first n bytes off Unread.
func (k *Link) Use(n int) { k.lo += n }

// ErrClosed is an end of the connection where a reply was due.
var ErrClosed = errors.New("the server closed the connection while replies were due")

// Receive reads once, after making room for Unread to hold want bytes.
func (k *Link) Receive(want int) error {
	if k.lo == k.hi {
		k.lo, k.hi = 0, 0
	}
	if k.lo+want > len(k.in) || k.hi == len(k.in) {
		to := k.in
		if want > len(to) {
			to = make([]byte, want+want/4)
		}
		k.hi = copy(to, k.in[k.lo:k.hi])
		k.in, k.lo = to, 0
	}
	n, err := k.NC.Read(k.in[k.hi:])
	if n > 0 {
		k.hi += n
		k.At = Now()
		return nil
	}
	if errors.Is(err, io.EOF) {
		return ErrClosed
	}
	return fmt.Errorf("receive: %w", err)
}

// Shut closes the connection at once, so that whoever waits on it returns. It
// may be called by any goroutine.
func (k *Link) Shut() { k.NC.Close() }
