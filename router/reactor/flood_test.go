package reactor

import (
	"crypto/tls"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"
)

// dialFrom connects from an address of this machine.
func (s *running) dialFrom(ip string) (*net.TCPConn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}, Timeout: 20 * time.Second}
	c, err := d.Dial("tcp", s.addr.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// helloOf returns the first message of a client.
func helloOf(t *testing.T) []byte {
	t.Helper()
	a, b := net.Pipe()
	go tls.Client(a, &tls.Config{InsecureSkipVerify: true}).Handshake()
	hello := make([]byte, 4096)
	n, err := b.Read(hello)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	return hello[:n]
}

// TestFloodsLeaveOthersServed: first messages without an end from one address, and silent clients from
// many. Clients from another address are served, and the memory is bounded.
func TestFloodsLeaveOthersServed(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" { // other systems have one loopback address
		t.Skip("long")
	}
	s := startSecure(t, newReactor(t, Options{Loops: 2, TLS: true}), testConfig)
	connected := s.dialSecure(t, tls.VersionTLS13)
	honest := func() {
		t.Helper()
		for range 50 {
			c := s.dialSecure(t, tls.VersionTLS13)
			if !echoes(t, c) || !echoes(t, connected) {
				t.Fatal("a client is not served")
			}
			c.Close()
		}
	}
	hello, quit := helloOf(t), make(chan struct{})
	var flood sync.WaitGroup
	for range 100 {
		flood.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
				}
				if c, err := s.dialFrom("127.0.0.2"); err == nil {
					c.Write(hello)
					c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
					c.Read(make([]byte, 1))
					c.SetLinger(0)
					c.Close()
				}
			}
		})
	}
	honest()
	close(quit)
	flood.Wait()
	eventually(t, func() bool { return s.host.Handshakes.Pending.Load() == 0 })

	memory := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	const silents = 2000
	before := memory()
	var silent []*net.TCPConn
	for i := range silents {
		c, err := s.dialFrom(fmt.Sprintf("127.0.1.%d", 1+i%50))
		if err != nil {
			t.Fatal(err)
		}
		c.Write(hello[:i%len(hello)])
		silent = append(silent, c)
	}
	if n := s.host.Handshakes.Pending.Load(); n > pendingMax+1 {
		t.Errorf("%d handshakes are in progress", n)
	}
	if grown := int64(memory()-before) / pendingMax; grown > 60<<10 {
		t.Errorf("%d bytes for each silent client", grown)
	}
	honest()
	for _, c := range silent {
		c.Close()
	}
	connected.Close()
	s.stop(t)
}

// TestCrowdReconnects: a thousand clients of one address that connect at once all get in, if they try
// again.
func TestCrowdReconnects(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	s := startSecure(t, newReactor(t, Options{Loops: 2, TLS: true}), testConfig)
	const crowd = 1000
	var clients sync.WaitGroup
	var all sync.Map
	for range crowd {
		clients.Go(func() {
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				c, err := tls.Dial("tcp", s.addr.String(), &tls.Config{InsecureSkipVerify: true})
				if err != nil {
					continue
				}
				c.SetDeadline(time.Now().Add(20 * time.Second))
				if echoes(t, c) { // a client finishes before the server
					all.Store(c, true)
					return
				}
				c.Close()
			}
			t.Error("a client does not get in")
		})
	}
	began := time.Now()
	clients.Wait()
	t.Logf("after %v; %d were refused", time.Since(began), s.host.Handshakes.Results[4].Load())
	eventually(t, func() bool { open, _ := s.Connections(); return open == crowd })
	all.Range(func(c, _ any) bool {
		c.(*tls.Conn).Close()
		return true
	})
	s.stop(t)
}
