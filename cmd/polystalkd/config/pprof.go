package config

import (
	"net"
	"net/netip"
	"strconv"

	"polystalk/cmd/polystalkd/fault"
)

// parsePprof reads Pprof, a HOST:PORT, into PprofAddr. Profiles show what the
// program does and slow it down while they are taken, and there is no
// password: only those who are on the machine get them.
func (c *Config) parsePprof() error {
	if c.Pprof == "" {
		return nil
	}
	bad := func(what string) error {
		return fault.New(fault.Usage, "%s: %q %s: give one of this machine's own, as in --pprof 127.0.0.1:6060", c.Origin("pprof"), c.Pprof, what)
	}
	host, port, err := net.SplitHostPort(c.Pprof)
	if err != nil {
		return bad("is not an address with a port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return bad("has no port from 0 to 65535")
	}
	if host == "localhost" {
		// By itself, since what a resolver makes of it is not ours to know.
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsLoopback() {
		return bad("is not a loopback address")
	}
	c.PprofAddr = net.JoinHostPort(host, port)
	return nil
}
