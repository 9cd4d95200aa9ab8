package gearmand

import (
	"net"
	"testing"
)

// This machine is where the command shutdown is taken from.
func TestThisMachineIsItsAddresses(t *testing.T) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range own {
		if n, ok := o.(*net.IPNet); ok && !isHere(&net.TCPAddr{IP: n.IP, Port: 1}) {
			t.Errorf("%v is an address of this machine", n.IP)
		}
	}
	for ip, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"198.51.100.77": false, "2001:db8::1": false, "0.0.0.0": false, "::": false,
	} {
		if got := isHere(&net.TCPAddr{IP: net.ParseIP(ip), Port: 1}); got != want {
			t.Errorf("%s: %t", ip, got)
		}
	}
	if !isHere(&net.UnixAddr{Net: "unix"}) {
		t.Error("the client of a unix socket is on this machine")
	}
	if isHere(nil) {
		t.Error("nobody knows where that is")
	}
}
