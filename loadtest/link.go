package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// epoch is where this process's nanosecond clock starts; only differences
// count, and they come from the monotonic clock.
var epoch = time.Now()

func now() int64 { return int64(time.Since(epoch)) }

// A link is one connection to the server, whatever is spoken on it, used by one
// goroutine: requests are appended to a buffer, written at once and their
// replies read in order.
type link struct {
	nc       net.Conn
	exchange *exchange

	out    []byte
	in     []byte
	lo, hi int   // unread bytes are in[lo:hi]
	at     int64 // when the bytes of the last reply had arrived (now)

	body []byte // the template of a body: see stampBody
}

// dialLink connects to addr: host:port, or unix:PATH.
func dialLink(ctx context.Context, addr string, body int) (link, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: -1}
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return link{}, fmt.Errorf("connect: %w", err)
	}
	x, err := newExchange(nc)
	if err != nil {
		return link{}, fmt.Errorf("connect: %w", err)
	}
	return link{nc: nc, exchange: x, in: make([]byte, 16<<10), body: newBody(body)}, nil
}

// newBody is the template of a body of n bytes.
func newBody(n int) []byte { return bytes.Repeat([]byte("polystalk-load-"), n/15+1)[:n] }

// batch sends n requests over k, at most depth of them in flight, and reads
// their replies. write appends request i to k.out; check judges reply i. Every
// request is counted, with its latency from the time the pace gave for it.
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

// ask writes what has been appended and returns when the answer begins to
// arrive, or as soon as that is for flush and read to sort out.
func (k *link) ask() error {
	if k.lo != k.hi {
		return k.flush()
	}
	k.lo, k.hi = 0, 0
	written, read, err := k.exchange.run(k.out, k.in)
	if err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	if read > 0 {
		k.hi, k.at = read, now()
	}
	if written < len(k.out) {
		k.out = k.out[:copy(k.out, k.out[written:])]
		return k.flush()
	}
	k.out = k.out[:0]
	return nil
}

// flush writes what has been appended, in one system call if the kernel takes it.
func (k *link) flush() error {
	_, err := k.nc.Write(k.out)
	k.out = k.out[:0]
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// errClosed is an end of the connection where a reply was due.
var errClosed = errors.New("the server closed the connection while replies were due")

// fill reads once, after making room for want bytes from k.lo on.
func (k *link) fill(want int) error {
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
		k.at = now()
		return nil
	}
	if errors.Is(err, io.EOF) {
		return errClosed
	}
	return fmt.Errorf("receive: %w", err)
}

func (k *link) shut() { k.nc.Close() }

// Body layout: the first 16 bytes are the stamp in hexadecimal (cut to the
// body's length), the rest is a fixed text. A stamp is a sequence number or a
// time; whoever reserves the job knows which to expect.
const stampLen = 16

func (k *link) stampBody(stamp uint64) {
	var raw [8]byte
	var text [stampLen]byte
	binary.BigEndian.PutUint64(raw[:], stamp)
	hex.Encode(text[:], raw[:])
	copy(k.body, text[:])
}

// bodyStamp returns the stamp of a body of at least stampLen bytes.
func bodyStamp(body []byte) (uint64, error) {
	var raw [8]byte
	if len(body) < stampLen {
		return 0, fmt.Errorf("body of %d bytes has no stamp", len(body))
	}
	if _, err := hex.Decode(raw[:], body[:stampLen]); err != nil {
		return 0, fmt.Errorf("body %.40q has no stamp: %w", body, err)
	}
	return binary.BigEndian.Uint64(raw[:]), nil
}
