package conversation

import (
	"io"
	"net"
	"testing"
)

func TestFreePortsAreFreeAndDistinct(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] || port < firstPort || port > lastPort {
			t.Errorf("port %d", port)
		}
		seen[port] = true
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if bind(l.Addr().(*net.TCPAddr).Port) == nil {
		t.Error("a port with a listener is free")
	}
}

// The server closes the connection after quit. A process that resets it is another one.
func TestGreetingMustNotBeReset(t *testing.T) {
	for _, reset := range []bool{false, true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		done := make(chan error, 1)
		go func() { done <- Beanstalk.greet("tcp", l.Addr().String()) }()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, len("quit\r\n"))); err != nil {
			t.Fatal(err)
		}
		if reset {
			if err := c.(*net.TCPConn).SetLinger(0); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		if err := <-done; (err != nil) != reset {
			t.Errorf("reset %v: %v", reset, err)
		}
	}
}
