package config

import (
	"context"
	"errors"
	"net"
	"strings"

	"polystalk/cmd/polystalkd/fault"
)

// everywhere is the default address of beanstalkd: every IPv4 address.
const everywhere = "0.0.0.0"

// An Address is an address to listen on.
type Address struct {
	Given string // as the user wrote it
	Host  string // for TCP; without brackets; empty: all addresses
	Port  string // for TCP
	Path  string // for a unix socket; then host and port are empty

	V6Only bool // an IPv6 address accepts no IPv4 clients

	// For messages: the origin of the address, the origin of its port (empty: the same),
	// and an example.
	From, PortFrom, Like string
}

// parseAddresses reads the addresses of both protocols. A bad address has the exit code of
// beanstalkd's failed bind.
func (c *Config) parseAddresses() {
	if c.Gearmand {
		c.Addresses = c.pairs("listen", c.Listen, "127.0.0.1:"+portDefault, true)
		c.Gearman.Addresses = c.hosts("gearman-listen", c.Gearman.Listen, "", gearmanPortDefault)
		for i := range c.Gearman.Addresses {
			c.Gearman.Addresses[i].V6Only = true
		}
		return
	}
	c.Addresses = c.hosts("listen", c.Listen, everywhere, portDefault)
	c.Gearman.Addresses = c.pairs("gearman-listen", c.Gearman.Listen, "127.0.0.1:"+gearmanPortDefault, false)
}

// addresses reads a list, with read for addresses of TCP. It accepts paths of unix sockets if kinds,
// the text for messages, names them. It returns nil after a fault.
func (c *Config) addresses(flag string, list []string, kinds, like string, read func(a *Address) error) (out []Address) {
	seen := make(map[string]bool)
	for _, given := range list {
		if seen[given] && given != "" { // beanstalkd uses the last address, so a repetition is harmless there too
			c.warn("%s: %q was given twice; it is opened once", c.Origin(flag), given)
			continue
		}
		seen[given] = true
		a := Address{Given: given, From: c.Origin(flag), Like: c.spellings[flag] + " " + like}
		path, isPath := strings.CutPrefix(given, "unix:")
		var err error
		switch {
		case !isPath || !strings.HasSuffix(kinds, "unix:PATH"):
			err = read(&a)
		case path == "":
			err = fault.New(fault.System, "%s: %q has no path: give one, as in %s unix:/run/polystalkd.sock", a.From, given, c.spellings[flag])
		default:
			a.Path = path
		}
		if err != nil {
			c.found(err)
			return nil
		}
		out = append(out, a)
	}
	return out
}

// hosts reads a list of HOST or, for beanstalkd's protocol, unix:PATH. All hosts get the given
// port. An empty list means the host all.
func (c *Config) hosts(flag string, list []string, all, port string) []Address {
	kinds := "a name or an IP address"
	if all != "" {
		kinds = "a name, an IP address or unix:PATH"
	}
	host := func(a *Address) error {
		a.Port, a.PortFrom, a.Host = c.Port, c.Origin("port"), a.Given
		if strings.HasPrefix(a.Given, "[") && strings.HasSuffix(a.Given, "]") {
			a.Host = a.Given[1 : len(a.Given)-1]
		}
		if a.Host == "" && len(list) > 0 {
			return fault.New(fault.System, "%s: the address is empty: give %s, as in %s", a.From, kinds, a.Like)
		}
		if h, p, err := net.SplitHostPort(a.Given); err == nil {
			return fault.New(fault.System, "%s: %q includes a port: give the address alone and the port with -p, as in %s %s -p %s", a.From, a.Given, c.spellings[flag], h, p)
		}
		if _, err := LookupPort(c.Port); err != nil {
			return fault.New(fault.System, "%s: %q is not a port: give a number from 0 to 65535, as in -p %s", c.Origin("port"), c.Port, port)
		}
		return nil
	}
	given := list
	if len(list) == 0 {
		given = []string{all}
	}
	return c.addresses(flag, given, kinds, "0.0.0.0", host)
}

// pairs reads a list of HOST:PORT or, with paths, unix:PATH.
func (c *Config) pairs(flag string, list []string, like string, paths bool) []Address {
	kinds := "HOST:PORT"
	if paths {
		kinds += " or unix:PATH"
	}
	return c.addresses(flag, list, kinds, like, func(a *Address) (err error) {
		if a.Host, a.Port, err = net.SplitHostPort(a.Given); err == nil {
			_, err = LookupPort(a.Port)
		}
		if err != nil {
			return fault.New(fault.Usage, "%s: %q is not an address with a port: give %s, as in %s", a.From, a.Given, kinds, like)
		}
		return nil
	})
}

// LookupPort reads a port number or a service name.
func LookupPort(port string) (int, error) {
	if port == "" {
		return 0, errors.New("empty port")
	}
	return net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
}
