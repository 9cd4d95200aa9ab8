package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	// activation reads LISTEN_FDS and LISTEN_PID as sd_listen_fds(3) does.
	"github.com/coreos/go-systemd/v22/activation"
)

// resolveWait is the longest that looking up the host names of -l may take.
const resolveWait = 10 * time.Second

// sockets are the listeners to serve and the unix socket files that are ours
// to remove.
type sockets struct {
	// Each is a *net.TCPListener or a *net.UnixListener.
	beanstalkd, gearman []net.Listener

	files []*socketFile
}

// listenAll opens what the service manager passed down or, where it passed
// nothing, every address of c for the protocol that the command line is about;
// and the addresses for the other one. On an error nothing stays open. Errors are
// faults with the code of the reference.
func listenAll(c *Config, owners []int, log *slog.Logger) (_ *sockets, err error) {
	s := &sockets{}
	defer func() {
		if err != nil {
			s.close(log)
		}
	}()
	inherited, err := inheritedListeners()
	if err != nil {
		return nil, err
	}
	beanstalkd, gearman := c.addresses, c.Gearman.addresses
	if len(inherited) > 0 {
		replaced := []string{"listen", "port"}
		if c.Gearmand {
			replaced = []string{"gearman-listen", "port", "backlog", "keepalive-idle", "keepalive-interval", "keepalive-count"}
			s.gearman, gearman = inherited, nil
		} else {
			s.beanstalkd, beanstalkd = inherited, nil
		}
		for _, name := range replaced {
			if c.isSet(name) {
				log.Warn("sockets were passed in by the service manager; ignoring " + c.origin(name))
			}
		}
	}
	opened := make(opened)
	for _, a := range beanstalkd {
		if a.path != "" {
			l, file, err := listenUnix(a.path, owners)
			if err != nil {
				return nil, faultf(exitSystem, "%s: %q: %v", a.from, a.given, err)
			}
			s.beanstalkd = append(s.beanstalkd, l)
			s.files = append(s.files, file)
			continue
		}
		ls, err := opened.listen(&tcpConfig, a)
		if err != nil {
			return nil, err
		}
		s.beanstalkd = append(s.beanstalkd, ls...)
	}
	for _, a := range gearman {
		ls, err := opened.listen(c.gearmanTCP(), a)
		if err != nil {
			return nil, err
		}
		s.gearman = append(s.gearman, ls...)
		if err := c.setBacklog(ls); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// listenTCP opens every IP address that a.host stands for. A name such as
// localhost often stands for two, and a client may try either; the reference
// takes the first that works. Addresses that this machine does not have are
// passed over as long as one is left.
func listenTCP(config *net.ListenConfig, a address) ([]net.Listener, error) {
	ctx, cancel := context.WithTimeout(context.Background(), resolveWait)
	defer cancel()
	port, err := lookupPort(a.port)
	if err != nil {
		return nil, bindFault(a, netip.AddrPort{}, err)
	}
	if a.host == "" && !a.v6only {
		l, err := config.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(port)))
		if err != nil {
			return nil, bindFault(a, netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)), err)
		}
		return []net.Listener{l}, nil
	}
	ips := []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	if a.host != "" {
		if ips, err = net.DefaultResolver.LookupNetIP(ctx, "ip", a.host); err != nil {
			return nil, faultf(exitSystem, "%s: %q is neither an IP address nor a name that resolves (%v): give an address of this machine, as in %s",
				a.from, a.given, err, a.like)
		}
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
		l, err := config.Listen(ctx, a.network(ip), net.JoinHostPort(ip.String(), strconv.Itoa(port)))
		switch {
		case err == nil:
			ls = append(ls, l)
			if port == 0 {
				return ls, nil // the system's choice of a port belongs to one address
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

// network keeps a listener to the family of its address: Go's "tcp" would widen
// 0.0.0.0 to IPv6. "::" means both, as beanstalkd has it, or not, as gearmand has.
func (a *address) network(ip netip.Addr) string {
	switch {
	case ip.Is4():
		return "tcp4"
	case ip.IsUnspecified() && !a.v6only:
		return "tcp"
	}
	return "tcp6"
}

// tcpConfig asks for keep-alive with the system's own timing, as the reference
// does: accepted connections take the option over from the listening socket.
// Go's default of a probe every 15 seconds would wake 50,000 idle connections
// for nothing.
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

// bindFault explains why the system refused an address, or at of those that it
// stands for.
func bindFault(a address, at netip.AddrPort, err error) *fault {
	where := a.from + " " + strconv.Quote(a.given)
	port := where
	if a.portFrom != "" {
		port = a.portFrom + " " + strconv.Quote(a.port)
		switch {
		case a.given == "":
			where = port
		default:
			port += " on " + where
		}
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		f := faultf(exitSystem, "%s: the port is in use: stop the server that has it, or choose another port", port)
		f.inUse = at
		return f
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return faultf(exitSystem, "%s: this user may not open the port: choose one above 1023, or start as root and give -u", port)
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
		return faultf(exitSystem, "%s: this machine has no such address: give one that it has, as in %s", where, a.like)
	}
	return faultf(exitSystem, "%s: %v: choose another address or port", port, cause(err))
}

// cause strips the operation and the address that net puts around an error.
func cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// inheritedListeners takes over the sockets named by LISTEN_FDS, all of them;
// the reference takes the first. None is not an error.
func inheritedListeners() ([]net.Listener, error) {
	var ls []net.Listener
	for _, f := range activation.Files(true) {
		fd := int(f.Fd())
		kind, kindErr := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
		listening, listenErr := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
		ok := kindErr == nil && listenErr == nil && kind == syscall.SOCK_STREAM && listening != 0
		var l net.Listener
		if ok {
			var err error
			l, err = net.FileListener(f)
			if err != nil {
				ok = false
			}
		}
		switch l.(type) {
		case *net.TCPListener, *net.UnixListener:
		default:
			ok = false
		}
		if !ok {
			// The descriptors stay as they are: a wrong LISTEN_FDS may name some of
			// the Go runtime's own, and the process is about to end.
			return nil, faultf(exitSystem, "variable LISTEN_FDS: inherited descriptor %d is not a listening TCP or unix stream socket: check ListenStream= in the socket unit", fd)
		}
		f.Close()
		ls = append(ls, l)
	}
	return ls, nil
}

// names lists the addresses in use, for the log.
func names(ls []net.Listener) []string {
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

// removeFiles removes our unix socket files. It comes before the listeners are
// closed: see socketFile.
func (s *sockets) removeFiles(log *slog.Logger) {
	for _, f := range s.files {
		if err := f.remove(); err != nil {
			log.Warn("unix socket file left behind", "path", f.path, "err", err)
		}
	}
	s.files = nil
}

func (s *sockets) close(log *slog.Logger) {
	s.removeFiles(log)
	closeAll(s.beanstalkd)
	closeAll(s.gearman)
}

func closeAll(ls []net.Listener) {
	for _, l := range ls {
		l.Close()
	}
}
