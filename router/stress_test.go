package router_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/router"
)

// serve starts a server on TCP and on a unix socket.
func serve(t *testing.T, cfg router.Config) (s *router.Server, addrs []net.Addr) {
	t.Helper()
	s, err := router.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct{ network, address string }{
		{"tcp", "127.0.0.1:0"}, {"unix", filepath.Join(t.TempDir(), "s")},
	} {
		l, err := net.Listen(at.network, at.address)
		if err != nil {
			t.Fatal(err)
		}
		go s.Serve(l)
		addrs = append(addrs, l.Addr())
	}
	return s, addrs
}

// openDescriptors counts this process's, listing excluded.
func openDescriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(all)
}

// A burst is what one client sends in one go, and what it gets before the end.
type burst struct{ name, commands, replies string }

// bursts need job 1 with a body of size bytes.
func bursts(size int) []burst {
	found := fmt.Sprintf("FOUND 1 %d\r\n%s\r\n", size, strings.Repeat("b", size))
	// Enough to be paused; what is left fits into any socket, else nobody could
	// tell the server behind its reserve that no more comes.
	many := heldMax/len("list-tube-used\r\n") + 4000
	behind := "watch empty\r\nignore default\r\nreserve\r\n"
	return []burst{
		{"short", strings.Repeat("list-tube-used\r\n", 100), strings.Repeat("USING default\r\n", 100)},
		{"waits", behind, "WATCHING 2\r\nWATCHING 1\r\nTIMED_OUT\r\n"},
		{"stalls", strings.Repeat("peek 1\r\n", 200), strings.Repeat(found, 200)},
		{"is paused behind a reserve", behind + strings.Repeat("list-tube-used\r\n", many),
			"WATCHING 2\r\nWATCHING 1\r\nTIMED_OUT\r\n" + strings.Repeat("USING default\r\n", many)},
		{"is paused and stalls", strings.Repeat("list-tube-used\r\n", many) + strings.Repeat("peek 1\r\n", 200),
			strings.Repeat("USING default\r\n", many) + strings.Repeat(found, 200)},
		{"puts half a body", "put 0 0 60 1000000\r\n" + strings.Repeat("h", 300_000), ""},
	}
}

type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// TestEveryEndLeavesNothing ends connections in every state, politely and
// not, over TCP and unix sockets. A client that half-closes gets every reply, and
// afterwards nothing is counted, open or running that was not before.
func TestEveryEndLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	routines, files := runtime.NumGoroutine(), openDescriptors(t)
	s, addrs := serve(t, router.Config{Shards: 4, Loops: 2, MaxJobSize: 2_000_000})
	const size = 50_000
	first, err := net.Dial(addrs[0].Network(), addrs[0].String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(first, "put 0 0 60 %d\r\n%s\r\n", size, strings.Repeat("b", size))
	if _, err := io.ReadFull(first, make([]byte, len("INSERTED 1\r\n"))); err != nil {
		t.Fatal(err)
	}
	first.Close()
	eventually(t, func() bool { return connections(s) == 0 })
	served := openDescriptors(t)

	var clients sync.WaitGroup
	for i, addr := range addrs {
		for j := range 3 {
			clients.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
				for _, b := range bursts(size) {
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
	awaitNothing(t, s)
	eventually(t, func() bool { return s.Host().Sums().Connections == 0 })
	eventually(t, func() bool { return openDescriptors(t) <= served })

	pauses := counted(s, "pauses")
	// A paused connection does not hold up the end, nor outlive it.
	paused, err := net.Dial(addrs[0].Network(), addrs[0].String())
	if err != nil {
		t.Fatal(err)
	}
	go io.WriteString(paused, bursts(size)[3].commands)
	eventually(t, func() bool { return connections(s) == 1 && counted(s, "pauses") > pauses })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("shutdown: %v, %v", err, ctx.Err())
	}
	paused.Close()
	eventually(t, func() bool { return openDescriptors(t) <= files })
	// gnet and its pool of goroutines leave a few of their own.
	eventually(t, func() bool { return runtime.NumGoroutine() <= routines+8 })
}

// polite sends all, half-closes and wants every reply; it begins to read early
// or late.
func polite(addr net.Addr, b burst, rng *rand.Rand) error {
	nc, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Minute))
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(nc, b.commands)
		sent <- errors.Join(err, nc.(halfCloser).CloseWrite())
	}()
	if rng.IntN(2) == 0 {
		time.Sleep(30 * time.Millisecond) // by then its replies are stuck
	}
	got, err := io.ReadAll(nc)
	if err := errors.Join(err, <-sent); err != nil {
		return err
	}
	if !bytes.Equal(got, []byte(b.replies)) {
		return fmt.Errorf("%d bytes of replies, want %d; the last are %q", len(got), len(b.replies), got[max(0, len(got)-60):])
	}
	return nil
}

// rude sends, reads a little perhaps, and is gone.
func rude(addr net.Addr, b burst, rng *rand.Rand) error {
	nc, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Duration(1+rng.IntN(60)) * time.Millisecond))
	io.WriteString(nc, b.commands)
	if rng.IntN(2) == 0 {
		io.CopyN(io.Discard, nc, int64(rng.IntN(2<<20)))
	}
	if tcp, ok := nc.(*net.TCPConn); ok && rng.IntN(2) == 0 {
		return tcp.SetLinger(0)
	}
	return nil
}

// counted is the server's counter of that name.
func counted(s *router.Server, name string) uint64 {
	for _, c := range counters(s) {
		if c.Name == name {
			return c.Value
		}
	}
	return 0
}

// connections is how many clients the server has, or is about to have.
func connections(s *router.Server) int {
	open, _ := s.Reactor().Connections()
	return open
}

// awaitNothing waits until no connection is counted any more.
func awaitNothing(t *testing.T, s *router.Server) {
	t.Helper()
	eventually(t, func() bool {
		open, behind := s.Reactor().Connections()
		return open == 0 && behind == 0
	})
	if open, behind := s.Reactor().Connections(); open != 0 || behind != 0 {
		t.Errorf("%d connections and %d behind are counted", open, behind)
	}
}
