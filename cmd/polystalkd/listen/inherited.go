package listen

import (
	"log/slog"
	"net"
	"os"
	"syscall"

	// activation reads LISTEN_FDS, LISTEN_FDNAMES and LISTEN_PID as
	// sd_listen_fds_with_names(3) does.
	"github.com/coreos/go-systemd/v22/activation"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// Names by which a socket unit sets the protocol of its sockets (FileDescriptorName=). A socket
// with any other name, such as the unit's default name, speaks the protocol of the command line.
const (
	namedBeanstalkd = "beanstalkd"
	namedGearman    = "gearman"
	namedHTTP       = "http"
	namedCluster    = "cluster"
)

// inherit adopts all sockets that LISTEN_FDS counts; the reference adopts only the first. No
// socket is not an error. If there are sockets for a protocol, its addresses in c have no effect,
// and inherit logs a warning.
func (s *Sockets) inherit(c *config.Config, log *slog.Logger) error {
	for _, f := range activation.Files(true) {
		l, err := listenerOf(f)
		if err != nil {
			return err
		}
		switch name := f.Name(); {
		case name == namedHTTP:
			s.HTTP = append(s.HTTP, l)
		case name == namedCluster && c.Cluster.Listen != "":
			s.Cluster = append(s.Cluster, l)
		case name == namedGearman, name != namedBeanstalkd && c.Gearmand:
			s.Gearman = append(s.Gearman, l)
		default:
			s.Beanstalkd = append(s.Beanstalkd, l)
		}
		f.Close()
	}
	var replaced []string
	if len(s.Beanstalkd) > 0 {
		replaced = append(replaced, "listen")
		if !c.Gearmand {
			replaced = append(replaced, "port")
		}
	}
	if len(s.Gearman) > 0 {
		replaced = append(replaced, "gearman-listen")
		if c.Gearmand {
			replaced = append(replaced, "port", "backlog", "keepalive-idle", "keepalive-interval", "keepalive-count")
		}
	}
	if len(s.Cluster) > 1 {
		return fault.New(fault.System, "variable LISTEN_FDS: there are %d sockets for other servers of the cluster: leave one in the socket unit", len(s.Cluster))
	}
	if len(s.HTTP) > 0 {
		replaced = append(replaced, "http")
	}
	for _, name := range replaced {
		if c.IsSet(name) {
			log.Warn("sockets were passed in by the service manager; ignoring " + c.Origin(name))
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
