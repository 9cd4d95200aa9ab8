package reactor

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"polystalk/router/ops"
	"polystalk/router/session"
)

// An addressed is a connection with an invented address of its other end.
type addressed struct {
	net.Conn
	from net.Addr
}

func (a *addressed) RemoteAddr() net.Addr { return a.from }

// pipeFrom returns both ends of a connection whose client seems to have an address.
func pipeFrom(ip string) (client net.Conn, server net.Conn) {
	client, server = net.Pipe()
	return client, &addressed{server, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(ip), 9))}
}

func testHandshakes(t *testing.T, loops int) *handshakes {
	t.Helper()
	return newHandshakes(newHost(t, ops.SystemClock(), slog.New(slog.DiscardHandler)), loops, 1<<20)
}

// bareHandshakes returns handshakes in a bubble of synctest.
func bareHandshakes(slots int) *handshakes {
	hs := newHandshakes(new(session.Host), 1, 1<<20)
	hs.free = slots
	return hs
}

func TestWaitingHandshakesTakeTurnsByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := bareHandshakes(0)
		var order []string
		turn := make(chan bool)
		for i, ip := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.1", "2001:db8::1", "2001:db8::2", "192.0.2.9"} {
			_, server := pipeFrom(ip)
			h := hs.begin(server)
			go func() {
				ok := h.acquire()
				order = append(order, fmt.Sprint(i))
				turn <- ok
				h.finish()
			}()
			synctest.Wait()
		}
		_, server := pipeFrom("192.0.2.9")
		gone := hs.begin(server)
		go func() { turn <- gone.acquire() }()
		synctest.Wait()
		gone.end() // it does not get the slot that another waits for
		if <-turn {
			t.Error("a handshake that was ended has got a slot")
		}
		gone.finish()
		hs.mu.Lock()
		hs.next() // there is a slot
		hs.mu.Unlock()
		for range 6 {
			if !<-turn {
				t.Error("no slot")
			}
		}
		// The second and the fourth address are one network.
		if got := strings.Join(order, " "); got != "0 3 5 1 4 2" {
			t.Errorf("the order is %s", got)
		}
		synctest.Wait()
		hs.mu.Lock()
		defer hs.mu.Unlock()
		if hs.free != 1 || len(hs.peers) > 0 || len(hs.ring) > 0 || hs.open.Len() > 0 {
			t.Errorf("%d slots, %d addresses, %d in the ring, %d in progress", hs.free, len(hs.peers), len(hs.ring), hs.open.Len())
		}
	})
}

// TestSlotCoolsDown for three times the time of the computation, with an upper bound.
func TestSlotCoolsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := bareHandshakes(1)
		_, server := pipeFrom("192.0.2.1")
		h := hs.begin(server)
		for _, took := range []struct{ computed, cools time.Duration }{{time.Millisecond, 3 * time.Millisecond}, {time.Second, coolMax}} {
			h.acquire()
			time.Sleep(took.computed)
			h.release()
			h.release() // it has none any more
			began := time.Now()
			h.acquire()
			if got := time.Since(began); got != took.cools {
				t.Errorf("after %v the slot cools down for %v, want %v", took.computed, got, took.cools)
			}
			h.release()
			time.Sleep(time.Second)
		}
		h.finish()
	})
}

// TestWaitingHandshakesGetAProcessor, until none has waited for a while.
func TestWaitingHandshakesGetAProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.GOMAXPROCS(0)
		hs := bareHandshakes(1)
		hs.procs = 1
		wait := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := runtime.GOMAXPROCS(0); got != before+want {
				t.Errorf("%d processors more, want %d", got-before, want)
			}
		}
		_, a := pipeFrom("192.0.2.1")
		_, b := pipeFrom("192.0.2.2")
		first, second := hs.begin(a), hs.begin(b)
		first.acquire()
		wait(0)
		go second.acquire()
		wait(1)
		first.finish()
		time.Sleep(crowdTime - time.Second)
		wait(1)
		second.finish()
		time.Sleep(2 * time.Second)
		wait(0)
	})
}

func TestHandshakesAreBounded(t *testing.T) {
	hs := testHandshakes(t, 9)
	if hs.free != 3 {
		t.Errorf("%d slots for 9 loops", hs.free)
	}
	var all []*handshake
	begin := func(ip string) bool {
		_, server := pipeFrom(ip)
		h := hs.begin(server)
		if h != nil {
			all = append(all, h)
		}
		return h != nil
	}
	for i := range pendingEach {
		if !begin(fmt.Sprintf("2001:db8:1:2:%x::", i)) {
			t.Fatalf("handshake %d of a network is refused", i)
		}
	}
	if begin("2001:db8:1:2:ffff::1") {
		t.Error("one too many of a network")
	}
	if !begin("2001:db8:1:3::") || !begin("::ffff:192.0.2.1") {
		t.Error("another network is refused")
	}
	for i := len(all); i < pendingMax; i++ {
		if !begin(fmt.Sprintf("10.%d.%d.1", i>>8, i&255)) {
			t.Fatalf("handshake %d is refused", i)
		}
	}
	all[0].finish()
	if !begin("198.51.100.1") || all[1].ctx.Err() != nil {
		t.Error("one is refused or ended although there was room")
	}
	if !begin("198.51.100.1") || all[1].ctx.Err() == nil || all[2].ctx.Err() != nil || hs.open.Len() != pendingMax {
		t.Error("not the oldest is ended for a new one")
	}
	hs.stop()
	if all[2].finish(); begin("198.51.100.2") {
		t.Error("one is accepted after the end")
	}
	for _, h := range slices.Delete(all, 2, 3)[1:] {
		h.finish()
	}
	if n := hs.host.Handshakes.Pending.Load(); n != 0 || len(hs.peers) > 0 {
		t.Errorf("%d in progress, %d addresses", n, len(hs.peers))
	}
}

// TestSlowHandshakesEnd: each client has five seconds in all, whatever it sends, and no slot while
// the server waits for it.
func TestSlowHandshakesEnd(t *testing.T) {
	for name, client := range map[string]func(c net.Conn){
		"silent": func(net.Conn) {},
		"a byte per second": func(c net.Conn) {
			hello := []byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}
			for _, b := range hello {
				c.Write([]byte{b})
				time.Sleep(time.Second)
			}
		},
		"half of its last message": func(c net.Conn) {
			tls.Client(&halfWriter{Conn: c}, &tls.Config{InsecureSkipVerify: true}).Handshake()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hs := bareHandshakes(1)
				hs.host.Clock, hs.host.Log = ops.SystemClock(), slog.New(slog.DiscardHandler)
				c, server := pipeFrom("192.0.2.1")
				s := secureWith(hs, server, testConfig())
				began := time.Now()
				go client(c)
				done := make(chan error)
				go func() { done <- s.Handshake() }()
				time.Sleep(1500 * time.Millisecond) // between two bytes
				hs.mu.Lock()
				if hs.free != 1 {
					t.Error("it keeps a slot")
				}
				hs.mu.Unlock()
				if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != handshakeTime {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				if hs.host.Handshakes.Results[session.HandshakeTimeout].Load() != 1 {
					t.Error("it is not counted as a timeout")
				}
				c.Close()
				server.Close()
				time.Sleep(time.Minute)
			})
		})
	}
}

// secureWith returns a connection before its handshake.
func secureWith(hs *handshakes, nc net.Conn, config *tls.Config) *secure {
	s := &secure{link: link{Conn: nc, handshake: hs.begin(nc)}}
	s.Conn = tls.Server(&s.link, config)
	return s
}

// A halfWriter sends its first message, and half of the second.
type halfWriter struct {
	net.Conn
	wrote int
}

func (w *halfWriter) Write(p []byte) (int, error) {
	switch w.wrote++; {
	case w.wrote == 2:
		w.Conn.Write(p[:len(p)/2])
		fallthrough
	case w.wrote > 2:
		return len(p), nil
	}
	return w.Conn.Write(p)
}

// TestLargeHandshakesAreRefused: package tls accepts 256 KiB of certificates.
func TestLargeHandshakesAreRefused(t *testing.T) {
	hs := testHandshakes(t, 1)
	c, server := pipeFrom("192.0.2.1")
	defer c.Close()
	config := testConfig()
	config.ClientAuth = tls.RequestClientCert
	own := testCertificate()
	own.Certificate = slices.Repeat(own.Certificate, 200<<10/len(own.Certificate[0]))
	go func() {
		client := tls.Client(c, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{own}})
		client.Handshake()
		io.Copy(io.Discard, c)
	}()
	s := secureWith(hs, server, config)
	if err := s.Handshake(); !errors.Is(err, errLarge) {
		t.Errorf("%v, want %v", err, errLarge)
	}
	if n := s.link.handshake.received; n > handshakeBytes+64<<10 {
		t.Errorf("%d bytes were received", n)
	}
	s.Close()
}
