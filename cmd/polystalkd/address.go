package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// An address is one place to listen.
type address struct {
	given string // as the user wrote it
	host  string // for TCP; without brackets; empty: all there are
	port  string // for TCP
	path  string // for a unix socket; then host and port are empty

	v6only bool // an address of IPv6 takes no clients of IPv4

	// For messages: where it was given, where its port was (empty: with it), and
	// what would be right.
	from, portFrom, like string
}

// parseAddresses reads the addresses of both protocols. A bad one ends with the
// code of the reference, where it fails on binding.
func (c *Config) parseAddresses() (err error) {
	if c.Gearmand {
		if c.addresses, err = c.pairs("listen", c.Listen, "127.0.0.1:11300", true); err != nil {
			return err
		}
		c.Gearman.addresses, err = c.hosts("gearman-listen", c.Gearman.Listen, "", "4730")
		for i := range c.Gearman.addresses {
			c.Gearman.addresses[i].v6only = true
		}
		return err
	}
	if c.addresses, err = c.hosts("listen", c.Listen, "0.0.0.0", "11300"); err != nil {
		return err
	}
	c.Gearman.addresses, err = c.pairs("gearman-listen", c.Gearman.Listen, "127.0.0.1:4730", false)
	return err
}

// once is a list of addresses without those that were given before: beanstalkd takes
// the last, so that to say one twice does no harm there.
func (c *Config) once(flag string, list []string) (out []string) {
	for _, given := range list {
		if slices.Contains(out, given) && given != "" {
			c.warnings = append(c.warnings, fmt.Sprintf("%s: %q was given twice; it is opened once", c.origin(flag), given))
			continue
		}
		out = append(out, given)
	}
	return out
}

// hosts reads a list of HOST or, where beanstalkd takes it, unix:PATH; the port is
// that of --port.
func (c *Config) hosts(flag string, list []string, all, port string) ([]address, error) {
	spelling := c.spellings[flag]
	pattern := address{port: c.Port, from: c.origin(flag), portFrom: c.origin("port"), like: spelling + " 0.0.0.0"}
	paths, kinds := all != "", "a name or an IP address"
	if paths {
		kinds = "a name, an IP address or unix:PATH"
	}
	var out []address
	portUsed := len(list) == 0
	for _, given := range c.once(flag, list) {
		a := pattern
		a.given, a.host = given, given
		if paths && strings.HasPrefix(given, "unix:") {
			if err := a.setPath(spelling); err != nil {
				return nil, err
			}
			out = append(out, a)
			continue
		}
		if strings.HasPrefix(given, "[") && strings.HasSuffix(given, "]") {
			a.host = given[1 : len(given)-1]
		}
		if a.host == "" {
			return nil, faultf(exitSystem, "%s: the address is empty: give %s, as in %s", a.from, kinds, a.like)
		}
		if h, p, err := net.SplitHostPort(given); err == nil {
			return nil, faultf(exitSystem, "%s: %q holds a port: give the address alone and the port with -p, as in %s %s -p %s", a.from, given, spelling, h, p)
		}
		out = append(out, a)
		portUsed = true
	}
	if len(list) == 0 {
		a := pattern
		a.given, a.host = all, all
		out = append(out, a)
	}
	if portUsed {
		if _, err := lookupPort(c.Port); err != nil {
			return nil, faultf(exitSystem, "%s: %q is not a port: give a number from 0 to 65535, as in -p %s", c.origin("port"), c.Port, port)
		}
	}
	return out, nil
}

// pairs reads a list of HOST:PORT or, with paths, unix:PATH.
func (c *Config) pairs(flag string, list []string, like string, paths bool) ([]address, error) {
	var out []address
	kinds := "HOST:PORT"
	if paths {
		kinds += " or unix:PATH"
	}
	for _, given := range c.once(flag, list) {
		a := address{given: given, from: c.origin(flag), like: c.spellings[flag] + " " + like}
		if paths && strings.HasPrefix(given, "unix:") {
			if err := a.setPath(c.spellings[flag]); err != nil {
				return nil, err
			}
			out = append(out, a)
			continue
		}
		var err error
		if a.host, a.port, err = net.SplitHostPort(given); err == nil {
			_, err = lookupPort(a.port)
		}
		if err != nil {
			return nil, faultf(exitUsage, "%s: %q is no address with a port: give %s, as in %s", a.from, given, kinds, like)
		}
		out = append(out, a)
	}
	return out, nil
}

// setPath makes a the unix socket that it is given as.
func (a *address) setPath(spelling string) error {
	a.host, a.port = "", ""
	if a.path = strings.TrimPrefix(a.given, "unix:"); a.path == "" {
		return faultf(exitSystem, "%s: %q has no path: give one, as in %s unix:/run/polystalkd.sock", a.from, a.given, spelling)
	}
	return nil
}

// lookupPort reads a port number or the name of a service.
func lookupPort(port string) (int, error) {
	if port == "" {
		return 0, errors.New("empty port")
	}
	return net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
}
