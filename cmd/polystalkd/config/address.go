package config

import (
	"context"
	"errors"
	"net"
	"slices"
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
	var err error
	if c.Gearmand {
		c.Addresses, err = c.pairs("listen", c.Listen, "127.0.0.1:"+portDefault, true)
		c.found(err)
		c.Gearman.Addresses, err = c.hosts("gearman-listen", c.Gearman.Listen, "", gearmanPortDefault)
		c.found(err)
		for i := range c.Gearman.Addresses {
			c.Gearman.Addresses[i].V6Only = true
		}
		return
	}
	c.Addresses, err = c.hosts("listen", c.Listen, everywhere, portDefault)
	c.found(err)
	c.Gearman.Addresses, err = c.pairs("gearman-listen", c.Gearman.Listen, "127.0.0.1:"+gearmanPortDefault, false)
	c.found(err)
}

// once returns list without repeated addresses, with a warning. In beanstalkd a repetition is
// harmless too: it uses the last address.
func (c *Config) once(flag string, list []string) (out []string) {
	for _, given := range list {
		if slices.Contains(out, given) && given != "" {
			c.warn("%s: %q was given twice; it is opened once", c.Origin(flag), given)
			continue
		}
		out = append(out, given)
	}
	return out
}

// hosts reads a list of HOST or, for beanstalkd's protocol, unix:PATH. All hosts get the given
// port.
func (c *Config) hosts(flag string, list []string, all, port string) ([]Address, error) {
	spelling := c.spellings[flag]
	pattern := Address{Port: c.Port, From: c.Origin(flag), PortFrom: c.Origin("port"), Like: spelling + " 0.0.0.0"}
	paths, kinds := all != "", "a name or an IP address"
	if paths {
		kinds = "a name, an IP address or unix:PATH"
	}
	var out []Address
	portUsed := len(list) == 0
	for _, given := range c.once(flag, list) {
		a := pattern
		a.Given, a.Host = given, given
		if paths && strings.HasPrefix(given, "unix:") {
			if err := a.setPath(spelling); err != nil {
				return nil, err
			}
			out = append(out, a)
			continue
		}
		if strings.HasPrefix(given, "[") && strings.HasSuffix(given, "]") {
			a.Host = given[1 : len(given)-1]
		}
		if a.Host == "" {
			return nil, fault.New(fault.System, "%s: the address is empty: give %s, as in %s", a.From, kinds, a.Like)
		}
		if h, p, err := net.SplitHostPort(given); err == nil {
			return nil, fault.New(fault.System, "%s: %q includes a port: give the address alone and the port with -p, as in %s %s -p %s", a.From, given, spelling, h, p)
		}
		out = append(out, a)
		portUsed = true
	}
	if len(list) == 0 {
		a := pattern
		a.Given, a.Host = all, all
		out = append(out, a)
	}
	if portUsed {
		if _, err := LookupPort(c.Port); err != nil {
			return nil, fault.New(fault.System, "%s: %q is not a port: give a number from 0 to 65535, as in -p %s", c.Origin("port"), c.Port, port)
		}
	}
	return out, nil
}

// pairs reads a list of HOST:PORT or, with paths, unix:PATH.
func (c *Config) pairs(flag string, list []string, like string, paths bool) ([]Address, error) {
	var out []Address
	kinds := "HOST:PORT"
	if paths {
		kinds += " or unix:PATH"
	}
	for _, given := range c.once(flag, list) {
		a := Address{Given: given, From: c.Origin(flag), Like: c.spellings[flag] + " " + like}
		if paths && strings.HasPrefix(given, "unix:") {
			if err := a.setPath(c.spellings[flag]); err != nil {
				return nil, err
			}
			out = append(out, a)
			continue
		}
		var err error
		if a.Host, a.Port, err = net.SplitHostPort(given); err == nil {
			_, err = LookupPort(a.Port)
		}
		if err != nil {
			return nil, fault.New(fault.Usage, "%s: %q is not an address with a port: give %s, as in %s", a.From, given, kinds, like)
		}
		out = append(out, a)
	}
	return out, nil
}

// setPath makes a the address of a unix socket.
func (a *Address) setPath(spelling string) error {
	a.Host, a.Port = "", ""
	if a.Path = strings.TrimPrefix(a.Given, "unix:"); a.Path == "" {
		return fault.New(fault.System, "%s: %q has no path: give one, as in %s unix:/run/polystalkd.sock", a.From, a.Given, spelling)
	}
	return nil
}

// LookupPort reads a port number or a service name.
func LookupPort(port string) (int, error) {
	if port == "" {
		return 0, errors.New("empty port")
	}
	return net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
}
