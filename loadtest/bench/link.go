package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// maxBody bounds the bytes buffered for one reply.
const maxBody = 1<<30 + 2

// A link is a connection to a server, used by one goroutine. Requests are appended to out, sent
// together, and answered in order.
type link struct {
	nc   net.Conn
	out  []byte // requests that are not sent yet
	body []byte // the template of a body: see stampBody
	at   int64  // when the bytes of the last reply arrived (Now)

	raw         syscall.RawConn
	step        func(fd uintptr) bool // attempt, bound once
	wrote, read int                   // what attempt did; wrote is -1 before the write

	in     []byte
	lo, hi int // unread bytes are in[lo:hi]
}

// dialLink connects to addr, host:port. Bodies have body bytes.
func dialLink(ctx context.Context, addr string, body int) (*link, error) {
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: -1}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	k := &link{nc: nc, in: make([]byte, 16<<10), body: newBody(body)}
	k.step = k.attempt
	if k.raw, err = nc.(syscall.Conn).SyscallConn(); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return k, nil
}

// ask sends out and waits for the first bytes of the answer. It saves one system call over Write
// and Read: Read first tries to read in vain, since the answer cannot be there yet. A load process
// has one core like the server and must not be the slower of the two, because an idle server looks
// more expensive than it is.
//
// The write happens inside the raw read, after the runtime has armed its poller, so the arrival of
// an answer cannot be missed. flush and receive handle the rest.
func (k *link) ask() error {
	if k.lo != k.hi {
		return k.flush()
	}
	k.lo, k.hi, k.wrote, k.read = 0, 0, -1, 0
	if err := k.raw.Read(k.step); err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	if k.read > 0 {
		k.hi, k.at = k.read, Now()
	}
	if wrote := max(k.wrote, 0); wrote < len(k.out) {
		k.out = k.out[:copy(k.out, k.out[wrote:])]
		return k.flush()
	}
	k.out = k.out[:0]
	return nil
}

// The poller calls attempt; true ends the wait.
func (k *link) attempt(fd uintptr) bool {
	if k.wrote < 0 {
		n, err := syscall.Write(int(fd), k.out)
		k.wrote = max(n, 0)
		return err != nil || k.wrote < len(k.out)
	}
	n, err := syscall.Read(int(fd), k.in)
	k.read = n
	return err != syscall.EAGAIN && err != syscall.EINTR
}

// flush writes out, in one system call if the kernel accepts all of it.
func (k *link) flush() error {
	_, err := k.nc.Write(k.out)
	k.out = k.out[:0]
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// unread returns the received bytes that were not used yet. They are valid until the next ask or
// receive.
func (k *link) unread() []byte { return k.in[k.lo:k.hi] }

var errClosed = errors.New("the server closed the connection while replies were due")

// receive reads once, after making room for want unread bytes.
func (k *link) receive(want int) error {
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
	n, err := k.nc.Read(k.in[k.hi:])
	if n > 0 {
		k.hi += n
		k.at = Now()
		return nil
	}
	if errors.Is(err, io.EOF) {
		return errClosed
	}
	return fmt.Errorf("receive: %w", err)
}

// shut closes the connection at once, so that a goroutine that waits for a reply returns.
// Any goroutine may call it.
func (k *link) shut() { k.nc.Close() }

// batch sends n requests, with up to depth of them in flight, and reads their replies. write
// appends request i to k.out; check judges reply i. l counts every request.
func batch[R any](k *link, l *lane, n, depth int, write func(i int), read func() (R, error), check func(i int, r R) error) error {
	for i := 0; i < n; i += depth {
		m := min(n, i+depth)
		for j := i; j < m; j++ {
			write(j)
		}
		t, err := l.begin(m - i)
		if err != nil {
			return err
		}
		if err := k.ask(); err != nil {
			return err
		}
		for j := i; j < m; j++ {
			r, err := read()
			if err != nil {
				return err
			}
			if err := check(j, r); err != nil {
				return err
			}
			l.answered(t, k.at)
		}
	}
	return nil
}

// StampLen is the length of a stamp: a sequence number or a time in hexadecimal at the beginning of
// a body. The rest of a body is a fixed text.
const StampLen = 16

func newBody(n int) []byte { return bytes.Repeat([]byte("polystalk-load-"), n/15+1)[:n] }

func (k *link) stampBody(stamp uint64) { PutStamp(k.body, stamp) }

// PutStamp overwrites the beginning of b with a stamp, cut to the length of b.
func PutStamp(b []byte, stamp uint64) {
	var raw [8]byte
	var text [StampLen]byte
	binary.BigEndian.PutUint64(raw[:], stamp)
	hex.Encode(text[:], raw[:])
	copy(b, text[:])
}

// Stamp returns the stamp at the beginning of b.
func Stamp(b []byte) (uint64, error) {
	var raw [8]byte
	if len(b) < StampLen {
		return 0, fmt.Errorf("body of %d bytes has no stamp", len(b))
	}
	if _, err := hex.Decode(raw[:], b[:StampLen]); err != nil {
		return 0, fmt.Errorf("body %.40q has no stamp: %w", b, err)
	}
	return binary.BigEndian.Uint64(raw[:]), nil
}
