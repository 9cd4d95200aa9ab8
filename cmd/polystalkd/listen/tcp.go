package listen

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// opened maps each listener to its address on the command line.
type opened map[net.Listener]config.Address

// listen is like listenTCP. If another listener of this process uses the address, the error names
// both addresses, since there is no other server to stop.
func (o opened) listen(lc *net.ListenConfig, a config.Address) ([]net.Listener, error) {
	ls, err := listenTCP(lc, a)
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.InUse.IsValid() {
		for l, first := range o {
			if at, ok := l.Addr().(*net.TCPAddr); ok && overlap(at.AddrPort(), f.InUse) {
				return nil, fault.New(fault.System, "%s %s: %s is opened for %s %s already: leave one of the two out, or choose another port",
					a.From, strconv.Quote(a.Given), at, first.From, strconv.Quote(first.Given))
			}
		}
	}
	for _, l := range ls {
		o[l] = a
	}
	return ls, err
}

// overlap reports whether listening on both may be impossible.
func overlap(a, b netip.AddrPort) bool {
	ipA, ipB := a.Addr().Unmap(), b.Addr().Unmap()
	return a.Port() == b.Port() && (ipA == ipB || ipA.IsUnspecified() || ipB.IsUnspecified())
}

// listenTCP opens every IP address of a.Host. A name such as localhost often has two, and a
// client may try either; the reference opens the first that works. listenTCP skips addresses that
// this machine does not have, unless none is left.
func listenTCP(lc *net.ListenConfig, a config.Address) ([]net.Listener, error) {
	ctx, cancel := context.WithTimeout(context.Background(), resolveWait)
	defer cancel()
	port, err := config.LookupPort(a.Port)
	if err != nil {
		return nil, bindFault(a, netip.AddrPort{}, err)
	}
	if a.Host == "" && !a.V6Only {
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(port)))
		if err != nil {
			return nil, bindFault(a, netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)), err)
		}
		return []net.Listener{l}, nil
	}
	ips, err := resolve(ctx, a)
	if err != nil {
		return nil, err
	}
	var (
		ls     []net.Listener
		absent error
		seen   = make(map[netip.Addr]bool)
	)
	for _, ip := range ips {
		if ip = ip.Unmap(); seen[ip] {
			continue
		}
		seen[ip] = true
		l, err := lc.Listen(ctx, network(&a, ip), net.JoinHostPort(ip.String(), strconv.Itoa(port)))
		switch {
		case err == nil:
			ls = append(ls, l)
			if port == 0 {
				return ls, nil // the system chooses the port for this address only
			}
		case errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT):
			absent = err
		default:
			closeAll(ls)
			return nil, bindFault(a, netip.AddrPortFrom(ip, uint16(port)), err)
		}
	}
	if len(ls) == 0 {
		return nil, bindFault(a, netip.AddrPort{}, absent)
	}
	return ls, nil
}

// resolve returns the IP addresses of a TCP address.
func resolve(ctx context.Context, a config.Address) ([]netip.Addr, error) {
	if a.Host == "" {
		return []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}, nil
	}
	if ip, err := netip.ParseAddr(a.Host); err == nil {
		return []netip.Addr{ip}, nil // the resolver would add 0.0.0.0 to "::"
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", a.Host)
	if err != nil {
		return nil, fault.New(fault.System, "%s: %q is neither an IP address nor a name that resolves (%v): give an address of this machine, as in %s",
			a.From, a.Given, err, a.Like)
	}
	return ips, nil
}

// network restricts a listener to the family of its address: Go's "tcp" would extend 0.0.0.0 to
// IPv6. "::" includes IPv4 as in beanstalkd, but not in place of gearmand.
func network(a *config.Address, ip netip.Addr) string {
	switch {
	case ip.Is4():
		return "tcp4"
	case ip.IsUnspecified() && !a.V6Only:
		return "tcp"
	}
	return "tcp6"
}

// tcpConfig enables keep-alive with the system's timing, as the reference does. Accepted
// connections inherit the option from the listening socket. Go's default, a probe every 15
// seconds, would wake 50,000 idle connections for nothing.
var tcpConfig = net.ListenConfig{
	KeepAlive: -1,
	Control: func(_, _ string, raw syscall.RawConn) error {
		var setErr error
		err := raw.Control(func(fd uintptr) {
			setErr = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1)
		})
		return errors.Join(err, setErr)
	},
}

// bindFault explains why the system refused a, or at, which is one of its IP addresses.
func bindFault(a config.Address, at netip.AddrPort, err error) *fault.Fault {
	where := a.From + " " + strconv.Quote(a.Given)
	port := where
	if a.PortFrom != "" {
		port = a.PortFrom + " " + strconv.Quote(a.Port)
		switch {
		case a.Given == "":
			where = port
		default:
			port += " on " + where
		}
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		f := fault.New(fault.System, "%s: the port is in use: stop the server that has it, or choose another port", port)
		f.InUse = at
		return f
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fault.New(fault.System, "%s: this user may not open the port: choose one above 1023, or start as root and give -u", port)
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
		return fault.New(fault.System, "%s: this machine has no such address: give one that it has, as in %s", where, a.Like)
	}
	return fault.New(fault.System, "%s: %v: choose another address or port", port, fault.Cause(err))
}

// gearmanTCP returns tcpConfig with the keep-alive timing of c.
func gearmanTCP(c *config.Config) *net.ListenConfig {
	lc, k := tcpConfig, &c.KeepAlive
	// For systems on which connections do not inherit a listener's options.
	lc.KeepAliveConfig = net.KeepAliveConfig{
		Enable: k.Idle > 0 || k.Interval > 0 || k.Count > 0,
		Idle:   time.Duration(k.Idle) * time.Second, Interval: time.Duration(k.Interval) * time.Second, Count: k.Count,
	}
	lc.Control = func(network, address string, raw syscall.RawConn) error {
		errs := tcpConfig.Control(network, address, raw)
		err := raw.Control(func(fd uintptr) {
			for option, value := range map[int]int{keepIdle: k.Idle, unix.TCP_KEEPINTVL: k.Interval, unix.TCP_KEEPCNT: k.Count} {
				if value > 0 {
					errs = errors.Join(errs, syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, option, value))
				}
			}
		})
		return errors.Join(err, errs)
	}
	return &lc
}

// setBacklog sets the number of connections that may wait to be accepted. Go's default is the
// system's maximum.
func setBacklog(c *config.Config, ls []net.Listener) error {
	if c.Backlog == 0 {
		return nil
	}
	for _, l := range ls {
		raw, err := l.(*net.TCPListener).SyscallConn()
		var listenErr error
		if err == nil {
			err = raw.Control(func(fd uintptr) { listenErr = syscall.Listen(int(fd), c.Backlog) })
		}
		if err = errors.Join(err, listenErr); err != nil {
			return fault.New(fault.System, "%s: %v: give another number, or leave it out", c.Origin("backlog"), err)
		}
	}
	return nil
}
