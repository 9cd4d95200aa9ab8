package main

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/listen"
)

// An addressed is a listener that only has an address.
type addressed struct {
	net.Listener
	addr net.Addr
}

func (a addressed) Addr() net.Addr { return a.addr }

// TestRisksAreLogged: clients of other machines, on any protocol, and jobs in memory only.
func TestRisksAreLogged(t *testing.T) {
	const open, memory = "clients need no password", "in memory only"
	tcp := func(ip string) net.Listener { return addressed{addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 11300}} }
	unix := addressed{addr: &net.UnixAddr{Name: "/run/s", Net: "unix"}}
	for _, c := range []struct {
		beanstalkd, gearman []net.Listener
		dir                 string
		want                []string
	}{
		{[]net.Listener{tcp("127.0.0.1"), tcp("::1"), unix}, nil, "/d", nil},
		{[]net.Listener{tcp("127.0.0.1"), tcp("0.0.0.0")}, nil, "/d", []string{open}},
		{[]net.Listener{unix}, []net.Listener{tcp("10.0.0.1")}, "/d", []string{open}},
		{[]net.Listener{tcp("127.0.0.1")}, nil, "", []string{memory}},
		{[]net.Listener{tcp("::")}, nil, "", []string{open, memory}},
	} {
		var b bytes.Buffer
		socks := new(listen.Sockets)
		socks.Of = map[string][]net.Listener{listen.Beanstalkd: c.beanstalkd, listen.Gearman: c.gearman}
		warnOfRisks(&config.Config{BinlogDir: c.dir}, socks, slog.New(slog.NewTextHandler(&b, nil)))
		if n := strings.Count(b.String(), "level=WARN"); n != len(c.want) {
			t.Errorf("%d warnings, want %q: %s", n, c.want, &b)
		}
		warnOfRisks(&config.Config{BinlogDir: "/d", AccessFile: "/a"}, socks, slog.New(slog.NewTextHandler(&b, nil))) // nothing is open to everybody
		if n := strings.Count(b.String(), "level=WARN"); n != len(c.want) {
			t.Errorf("%d warnings with an access file: %s", n, &b)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("no warning %q: %s", want, &b)
			}
		}
	}
	for role, want := range map[string]int{"none": 0, "read": 0, "operate": 1} {
		var b bytes.Buffer
		socks := new(listen.Sockets)
		socks.Of = map[string][]net.Listener{listen.HTTP: {tcp("127.0.0.1"), unix, tcp("10.0.0.1")}}
		c := &config.Config{BinlogDir: "/d"}
		c.HTTP.Anonymous = role
		warnOfRisks(c, socks, slog.New(slog.NewTextHandler(&b, nil)))
		if n := strings.Count(b.String(), open); n != want {
			t.Errorf("%s: %d warnings: %s", role, n, &b)
		}
	}
	for want, change := range map[int]func(*config.Config){
		1: func(*config.Config) {},
		0: func(c *config.Config) { c.HTTP.Cert = "cert.pem" },
	} {
		var b bytes.Buffer
		socks := new(listen.Sockets)
		socks.Of = map[string][]net.Listener{listen.HTTP: {tcp("127.0.0.1"), unix, tcp("10.0.0.1")}}
		c := &config.Config{BinlogDir: "/d", AccessFile: "/a"}
		change(c)
		warnOfRisks(c, socks, slog.New(slog.NewTextHandler(&b, nil)))
		if n := strings.Count(b.String(), "HTTP has no TLS here"); n != want {
			t.Errorf("%d warnings about tokens, want %d: %s", n, want, &b)
		}
	}
}
