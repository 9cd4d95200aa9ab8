package forward

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// A listener is a *net.TCPListener, a *net.UnixListener, or one of clients with TLS.
type listener interface {
	net.Listener
	SetDeadline(time.Time) error
}

// acceptPause is the pause before a failed Accept is retried.
const acceptPause = 100 * time.Millisecond

// Serve forwards the clients of l, a *net.TCPListener or *net.UnixListener, until Release. A client
// with TLS has a method Handshake. Then it
// returns nil, and the caller owns l again, open, with its backlog. An error is about l.
func (f *Forwarder) Serve(l net.Listener, protocol string) error {
	in, ok := l.(listener)
	if !ok {
		return fmt.Errorf("clients cannot be forwarded from a listener of type %T", l)
	}
	f.mu.Lock()
	if f.released.Err() != nil {
		f.mu.Unlock()
		return nil
	}
	f.listeners[l] = struct{}{}
	f.mu.Unlock()
	err := f.accept(in, protocol)
	f.mu.Lock()
	delete(f.listeners, l)
	f.mu.Unlock()
	return errors.Join(err, in.SetDeadline(time.Time{}))
}

func (f *Forwarder) accept(l listener, protocol string) error {
	for f.awaitSeat(l) {
		c, err := l.Accept()
		if err == nil {
			f.work.Go(func() {
				defer func() { <-f.seats }()
				f.serve(c.(conn), protocol)
			})
			continue
		}
		<-f.seats
		switch {
		case f.released.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		}
		f.o.Log.Warn("cannot accept connections; trying again", "addr", l.Addr().String(), "err", err)
		select {
		case <-time.After(acceptPause):
		case <-f.released.Done():
		}
	}
	return nil
}

// awaitSeat waits until another client may be accepted. It reports false after Release.
func (f *Forwarder) awaitSeat(l listener) bool {
	select {
	case f.seats <- struct{}{}:
		return true
	default:
		f.o.Log.Warn("the limit of forwarded clients is reached: others wait to be accepted", "addr", l.Addr().String(), "limit", cap(f.seats))
	}
	select {
	case f.seats <- struct{}{}:
		return true
	case <-f.released.Done():
		return false
	}
}

// Release ends every Serve, also later ones. Accepted clients stay.
func (f *Forwarder) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release()
	for l := range f.listeners {
		l.(listener).SetDeadline(time.Unix(1, 0))
	}
}
