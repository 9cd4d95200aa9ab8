// Package listen opens the sockets of a Config, or adopts sockets of the service manager. It
// removes the files of unix sockets at the end.
package listen

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// resolveWait bounds the lookup of a host name.
const resolveWait = 10 * time.Second

// Sockets are the listeners to serve, and the files of unix sockets to remove.
type Sockets struct {
	// Each is a *net.TCPListener or a *net.UnixListener.
	Beanstalkd, Gearman, HTTP []net.Listener
	// Cluster is for other servers of the cluster. It has at most one listener.
	Cluster []net.Listener

	files []*socketFile
}

// All adopts the sockets of the service manager, and opens the addresses of c for each
// protocol without such a socket. On an error nothing stays open. Errors are faults with
// beanstalkd's exit codes.
func All(c *config.Config, owners []int, log *slog.Logger) (_ *Sockets, err error) {
	s := &Sockets{}
	defer func() {
		if err != nil {
			s.Close(log)
		}
	}()
	if err := s.inherit(c, log); err != nil {
		return nil, err
	}
	beanstalkd, gearman := c.Addresses, c.Gearman.Addresses
	if len(s.Beanstalkd) > 0 {
		beanstalkd = nil
	}
	if len(s.Gearman) > 0 {
		gearman = nil
	}
	opened := make(opened)
	for _, a := range beanstalkd {
		if a.Path != "" {
			l, file, err := listenUnix(a.Path, owners)
			if err != nil {
				return nil, fault.New(fault.System, "%s: %q: %v", a.From, a.Given, err)
			}
			s.Beanstalkd = append(s.Beanstalkd, l)
			s.files = append(s.files, file)
			continue
		}
		ls, err := opened.listen(&tcpConfig, a)
		if err != nil {
			return nil, err
		}
		s.Beanstalkd = append(s.Beanstalkd, ls...)
	}
	for _, a := range gearman {
		ls, err := opened.listen(gearmanTCP(c), a)
		if err != nil {
			return nil, err
		}
		s.Gearman = append(s.Gearman, ls...)
		if err := setBacklog(c, ls); err != nil {
			return nil, err
		}
	}
	if err := s.listenCluster(c, opened); err != nil {
		return nil, err
	}
	return s, s.listenHTTP(c, opened, owners, log)
}

// listenCluster opens the address for other servers. If a name resolves to several addresses,
// it opens one of them; other servers try all.
func (s *Sockets) listenCluster(c *config.Config, opened opened) error {
	if len(s.Cluster) > 0 || c.Cluster.Listen == "" {
		return nil
	}
	ls, err := opened.listen(&tcpConfig, c.Cluster.Address)
	if err != nil {
		return err
	}
	s.Cluster = ls[:1]
	closeAll(ls[1:])
	return nil
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
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", a.Host)
	if err != nil {
		return nil, fault.New(fault.System, "%s: %q is neither an IP address nor a name that resolves (%v): give an address of this machine, as in %s",
			a.From, a.Given, err, a.Like)
	}
	return ips, nil
}

// Check looks up the names of all addresses, and opens nothing. It reports all faults.
func Check(c *config.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), resolveWait)
	defer cancel()
	var all fault.Faults
	for _, a := range slices.Concat(c.Addresses, c.Gearman.Addresses, c.HTTP.Addresses, c.ClusterAddresses()) {
		if a.Path != "" {
			continue
		}
		_, err := resolve(ctx, a)
		all = append(all, fault.All(err)...)
	}
	return all.Err()
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

// Names lists the addresses in use, for the log.
func Names(ls []net.Listener) []string {
	names := []string{}
	for _, l := range ls {
		name := l.Addr().String()
		if l.Addr().Network() == "unix" {
			name = "unix:" + name
		}
		names = append(names, name)
	}
	return names
}

// RemoveFiles removes our unix socket files. It must run before the listeners are closed: see
// socketFile.
func (s *Sockets) RemoveFiles(log *slog.Logger) {
	for _, f := range s.files {
		if err := f.remove(); err != nil {
			log.Warn("unix socket file left behind", "path", f.path, "err", err)
		}
	}
	s.files = nil
}

func (s *Sockets) Close(log *slog.Logger) {
	s.RemoveFiles(log)
	closeAll(s.Beanstalkd)
	closeAll(s.Gearman)
	closeAll(s.HTTP)
	closeAll(s.Cluster)
}

func closeAll(ls []net.Listener) {
	for _, l := range ls {
		l.Close()
	}
}
