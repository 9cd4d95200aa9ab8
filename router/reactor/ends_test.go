package reactor

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"polystalk/router/session"
)

// A burst is the input that a client sends at once, and the output that it receives before the end.
type burst struct {
	name       string
	says, gets []byte
}

var bursts = sync.OnceValue(func() []burst {
	all := []burst{{name: "short", says: bytes.Repeat([]byte("short "), 100)}}
	// More than the buffers of the sockets, the output queue and the held input together.
	long := make([]byte, 8<<20)
	for i := range long {
		long[i] = byte('a' + i%26 + i>>16%2)
	}
	all = append(all, burst{name: "stalls and is paused", says: long})
	for i := range all {
		all[i].gets = all[i].says
	}
	// Enough for a pause; the rest fits into any socket buffer, so that the server can notice the
	// half-close.
	held := long[:session.HeldMax+60_000]
	return append(all,
		burst{"is paused behind a wait", append([]byte("?"), held...), held},
		burst{"is refused", append([]byte("!"), long...), []byte(refusal)})
})

type halfCloser interface {
	net.Conn
	CloseWrite() error
}

func dialEnd(addr net.Addr) (halfCloser, error) {
	c, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	return c.(halfCloser), nil
}

// polite sends all of a burst, half-closes, and reads to the end after a delay.
func polite(addr net.Addr, b burst, rng *rand.Rand) error {
	c, err := dialEnd(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(b.says)
		if err == nil {
			err = c.CloseWrite()
		}
		sent <- err
	}()
	time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
	got, err := io.ReadAll(c)
	if err != nil {
		return fmt.Errorf("after %d bytes: %w", len(got), err)
	}
	if !bytes.Equal(got, b.gets) {
		return fmt.Errorf("got %d bytes, want %d, or not the same", len(got), len(b.gets))
	}
	return <-sent
}

// rude closes in the middle, with a reset if the network has resets.
func rude(addr net.Addr, b burst, rng *rand.Rand) error {
	c, err := dialEnd(addr)
	if err != nil {
		return err
	}
	if tcp, ok := c.(*net.TCPConn); ok && rng.IntN(2) == 0 {
		tcp.SetLinger(0)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		c.Write(b.says[:rng.IntN(len(b.says))])
	}()
	time.Sleep(20 * time.Millisecond)
	c.Close()
	<-sent
	return nil
}

// TestEveryEndLeavesNothing ends connections in every state, politely and not, over TCP and unix
// sockets. A client that half-closes gets every reply. Afterwards no counter, descriptor or
// goroutine is left.
func TestEveryEndLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	routines, files := runtime.NumGoroutine(), openDescriptors(t)
	s := start(t, newReactor(t, Options{Loops: 2}), "tcp", "127.0.0.1:0")
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l, s.front)
	nobody := func() bool { open, behind := s.Connections(); return open == 0 && behind == 0 }
	play := func(n int) {
		t.Helper()
		var clients sync.WaitGroup
		for i, addr := range []net.Addr{s.addr, l.Addr()} {
			for j := range n {
				clients.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
					for _, b := range bursts() {
						if err := polite(addr, b, rng); err != nil {
							t.Errorf("%s, a client that %s: %v", addr.Network(), b.name, err)
						}
						if err := rude(addr, b, rng); err != nil {
							t.Errorf("%s, a client that %s: %v", addr.Network(), b.name, err)
						}
					}
				})
			}
		}
		clients.Wait()
		eventually(t, nobody)
	}
	play(1) // after this, all loops serve all listeners
	served := openDescriptors(t)
	play(3)
	sums := func() *session.Sums { return s.host.Sums() }
	eventually(t, func() bool { return sums().Connections == 0 })
	eventually(t, func() bool { return openDescriptors(t) <= served })
	if n := sums().Counters; n[session.CountBehind] == 0 || n[session.CountPauses] == 0 {
		t.Errorf("%d times behind, %d pauses: the test is of no use", n[session.CountBehind], n[session.CountPauses])
	}
	if n := s.host.Account.Sum(); n > 64<<10 {
		t.Errorf("%d bytes are still charged", n)
	}
	for _, l := range s.loops {
		if n := l.placed.Load(); n != 0 {
			t.Errorf("loop %d has %d connections", l.Index, n)
		}
	}

	// The end of a paused connection is noticed.
	pauses := sums().Counters[session.CountPauses]
	paused, err := dialEnd(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	go paused.Write(bursts()[1].says)
	eventually(t, func() bool { return sums().Counters[session.CountPauses] > pauses })
	paused.Close()
	eventually(t, nobody)

	// A client that does not read delays the shutdown only for a limited time.
	slow, err := dialEnd(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	go slow.Write(bursts()[1].says)
	eventually(t, func() bool { _, behind := s.Connections(); return behind == 1 })
	s.stopWithin(t, 100*time.Millisecond)
	slow.Close()
	eventually(t, func() bool { return openDescriptors(t) <= files })
	// gnet and its pool leave a few goroutines.
	eventually(t, func() bool { return runtime.NumGoroutine() <= routines+8 })
}
