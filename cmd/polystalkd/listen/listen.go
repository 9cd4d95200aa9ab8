// Package listen opens the sockets of a Config, or adopts sockets of the service manager. It
// removes the files of unix sockets at the end.
package listen

import (
	"context"
	"log/slog"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	// activation reads LISTEN_FDS, LISTEN_FDNAMES and LISTEN_PID as
	// sd_listen_fds_with_names(3) does.
	"github.com/coreos/go-systemd/v22/activation"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// resolveWait bounds the lookup of a host name.
const resolveWait = 10 * time.Second

// The protocols of listeners. A socket unit sets the protocol of its sockets with these names
// (FileDescriptorName=). A socket with any other name, such as the unit's default name, speaks the
// protocol of the command line.
const (
	Beanstalkd = "beanstalkd"
	Gearman    = "gearman"
	HTTP       = "http"
	Cluster    = "cluster" // for other servers of the cluster; at most one listener

	BeanstalkdTLS = "beanstalkd-tls"
	GearmanTLS    = "gearman-tls"
)

// Sockets are the listeners to serve, and the files of unix sockets to remove.
type Sockets struct {
	// Of has the listeners of each protocol, each a *net.TCPListener or a *net.UnixListener.
	Of map[string][]net.Listener

	files []*socketFile
}

// All adopts the sockets of the service manager, and opens the addresses of c for each
// protocol without such a socket. On an error nothing stays open. Errors are faults with
// beanstalkd's exit codes.
func All(c *config.Config, owners []int, log *slog.Logger) (_ *Sockets, err error) {
	s := &Sockets{Of: make(map[string][]net.Listener)}
	defer func() {
		if err != nil {
			s.Close(log)
		}
	}()
	if err := s.inherit(c, log); err != nil {
		return nil, err
	}
	opened := make(opened)
	for _, p := range []struct {
		protocol  string
		addresses []config.Address
	}{
		{Beanstalkd, c.Addresses}, {Gearman, c.Gearman.Addresses}, {BeanstalkdTLS, c.TLS.Addresses}, {GearmanTLS, c.TLS.GearmanAddresses},
		{Cluster, c.ClusterAddresses()}, {HTTP, c.HTTP.Addresses},
	} {
		if len(s.Of[p.protocol]) > 0 {
			continue
		}
		for _, a := range p.addresses {
			if err := s.open(c, p.protocol, a, opened, owners); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// open opens the listeners of an address. It refuses an address of HTTP that other machines can
// reach if neither tokens nor anonymous access are configured.
func (s *Sockets) open(c *config.Config, protocol string, a config.Address, opened opened, owners []int) error {
	lc := &tcpConfig
	if protocol == Gearman || protocol == GearmanTLS {
		lc = gearmanTCP(c)
	}
	var ls []net.Listener
	if a.Path != "" {
		l, file, err := listenUnix(a.Path, owners)
		if err != nil {
			return fault.New(fault.System, "%s: %q: %v", a.From, a.Given, err)
		}
		ls, s.files = []net.Listener{l}, append(s.files, file)
	} else {
		var err error
		if ls, err = opened.listen(lc, a); err != nil {
			return err
		}
	}
	if protocol == Cluster { // other servers try all addresses of a name
		closeAll(ls[1:])
		ls = ls[:1]
	}
	s.Of[protocol] = append(s.Of[protocol], ls...)
	switch protocol {
	case Gearman, GearmanTLS:
		return setBacklog(c, ls)
	case HTTP:
		for _, l := range ls { // a name may resolve to any address
			if err := c.CheckExposed(l.Addr(), a.From, a.Given); err != nil {
				return err
			}
		}
	}
	return nil
}

// inherit adopts all sockets that LISTEN_FDS counts; the reference adopts only the first. No
// socket is not an error. If there are sockets for a protocol, its addresses in c have no effect,
// and inherit logs a warning.
func (s *Sockets) inherit(c *config.Config, log *slog.Logger) error {
	for _, f := range activation.Files(true) {
		l, err := listenerOf(f)
		if err != nil {
			return err
		}
		protocol := f.Name()
		f.Close()
		switch {
		case protocol == HTTP, protocol == Cluster && c.Cluster.Listen != "":
		case protocol == BeanstalkdTLS, protocol == GearmanTLS, protocol != Beanstalkd && c.TLS.Gearmand:
			if protocol != BeanstalkdTLS {
				protocol = GearmanTLS
			}
			if c.TLS.Cert == "" {
				return fault.New(fault.Usage, "FileDescriptorName=%s: clients cannot be served with TLS: give %s and %s", protocol, c.Spelling("tls-cert"), c.Spelling("tls-key"))
			}
		case protocol == Gearman, protocol != Beanstalkd && c.Gearmand:
			protocol = Gearman
		default:
			protocol = Beanstalkd
		}
		s.Of[protocol] = append(s.Of[protocol], l)
		if protocol == HTTP {
			if err := c.CheckExposed(l.Addr(), "FileDescriptorName="+HTTP, l.Addr().String()); err != nil {
				return err
			}
		}
	}
	if n := len(s.Of[Cluster]); n > 1 {
		return fault.New(fault.System, "variable LISTEN_FDS: there are %d sockets for other servers of the cluster: leave one in the socket unit", n)
	}
	flags := map[string][]string{Beanstalkd: {"listen"}, Gearman: {"gearman-listen"}, HTTP: {"http"}, BeanstalkdTLS: {"tls-listen"}, GearmanTLS: {"gearman-tls-listen"}}
	own := Beanstalkd
	switch {
	case c.TLS.Gearmand:
		own = GearmanTLS
		flags[own] = append(flags[own], "gearman-listen")
	case c.Gearmand:
		own = Gearman
	}
	flags[own] = append(flags[own], "port", "backlog", "keepalive-idle", "keepalive-interval", "keepalive-count")
	for protocol, names := range flags {
		for _, name := range names {
			if len(s.Of[protocol]) > 0 && c.IsSet(name) {
				log.Warn("sockets were passed in by the service manager; ignoring " + c.Origin(name))
			}
		}
	}
	return nil
}

// listenerOf returns the listener of an inherited descriptor. After an error the descriptors stay
// open, because with a wrong LISTEN_FDS some may belong to the Go runtime; the process is about
// to end.
func listenerOf(f *os.File) (net.Listener, error) {
	fd := int(f.Fd())
	kind, kindErr := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
	listening, listenErr := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
	if kindErr == nil && listenErr == nil && kind == syscall.SOCK_STREAM && listening != 0 {
		l, err := net.FileListener(f)
		switch l.(type) {
		case *net.TCPListener, *net.UnixListener:
			if err == nil {
				return l, nil
			}
		}
	}
	return nil, fault.New(fault.System, "variable LISTEN_FDS: inherited descriptor %d is not a listening TCP or unix stream socket: check ListenStream= in the socket unit", fd)
}

// Check looks up the names of all addresses, and opens nothing. It reports all faults.
func Check(c *config.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), resolveWait)
	defer cancel()
	var all fault.Faults
	for _, a := range slices.Concat(c.Addresses, c.Gearman.Addresses, c.TLS.Addresses, c.TLS.GearmanAddresses, c.HTTP.Addresses, c.ClusterAddresses()) {
		if a.Path != "" {
			continue
		}
		_, err := resolve(ctx, a)
		all = append(all, fault.All(err)...)
	}
	return all.Err()
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
	for _, ls := range s.Of {
		closeAll(ls)
	}
}

func closeAll(ls []net.Listener) {
	for _, l := range ls {
		l.Close()
	}
}
