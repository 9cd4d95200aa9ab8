package listen

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/cmd/polystalkd/config"
)

// TestListenersKeepToTheirFamily: gearmand's IPv6 listeners accept no IPv4 clients; beanstalkd's ::
// accepts both.
func TestListenersKeepToTheirFamily(t *testing.T) {
	for _, tt := range []struct {
		ip     string
		v6only bool
		want   string
	}{
		{"0.0.0.0", false, "tcp4"}, {"0.0.0.0", true, "tcp4"}, {"127.0.0.1", true, "tcp4"},
		{"::", false, "tcp"}, {"::", true, "tcp6"}, {"::1", false, "tcp6"}, {"::1", true, "tcp6"},
	} {
		a := config.Address{V6Only: tt.v6only}
		if got := network(&a, netip.MustParseAddr(tt.ip)); got != tt.want {
			t.Errorf("%s, v6only %v: %s, want %s", tt.ip, tt.v6only, got, tt.want)
		}
	}
}

// TestUnspecifiedIPv6AddressIsOneListener: the resolver would return 0.0.0.0 as well, whose port
// is then in use.
func TestUnspecifiedIPv6AddressIsOneListener(t *testing.T) {
	for _, host := range []string{"::", "0.0.0.0", "::1", "fe80::1%eth0"} {
		ips, err := resolve(t.Context(), config.Address{Host: host})
		if err != nil || len(ips) != 1 || ips[0].String() != host {
			t.Errorf("%s: %v, %v", host, ips, err)
		}
	}
}

// gearmandConfig returns the Config of a gearmand command line, on a free port of 127.0.0.1.
func gearmandConfig(t *testing.T, args ...string) *config.Config {
	t.Helper()
	args = append([]string{"-L", "127.0.0.1", "-p", "0", "--config-file", os.DevNull}, args...)
	c, err := config.ParseGearmand(args, func(string) (string, bool) { return "", false }, "help")
	if err == nil {
		err = c.Validate()
	}
	must(t, err)
	return c
}

// file returns a copy of a listener's descriptor until the end of the test.
func file(t *testing.T, l interface{ File() (*os.File, error) }) *os.File {
	t.Helper()
	f, err := l.File()
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// TestKeepAliveReachesConnections: with the configured timing, or the system's.
func TestKeepAliveReachesConnections(t *testing.T) {
	fresh, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	must(t, err)
	defer syscall.Close(fresh)
	system := option(t, fresh, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)

	for args, want := range map[string]int{"--keepalive --keepalive-idle 50 --keepalive-interval 7": 7, "": system} {
		c := gearmandConfig(t, strings.Fields(args)...)
		ls, err := listenTCP(gearmanTCP(c), c.Gearman.Addresses[0])
		must(t, err)
		defer closeAll(ls)
		client, err := net.Dial("tcp", ls[0].Addr().String())
		must(t, err)
		defer client.Close()
		// Accepted as in the server: no option is set on the connection.
		l := file(t, ls[0].(*net.TCPListener))
		conn := -1
		for end := time.Now().Add(20 * time.Second); conn < 0; time.Sleep(time.Millisecond) {
			if conn, _, err = syscall.Accept(int(l.Fd())); err != nil && time.Now().After(end) {
				t.Fatal(err)
			}
		}
		defer syscall.Close(conn)
		if on := option(t, conn, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE); on == 0 {
			t.Errorf("%q: no keep-alive", args)
		}
		if got := option(t, conn, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL); got != want {
			t.Errorf("%q: a probe every %d seconds, want %d", args, got, want)
		}
	}
}

func option(t *testing.T, fd, level, name int) int {
	t.Helper()
	v, err := syscall.GetsockoptInt(fd, level, name)
	must(t, err)
	return v
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
