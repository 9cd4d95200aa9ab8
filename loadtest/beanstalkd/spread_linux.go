package beanstalkd

import "golang.org/x/sys/unix"

// spread binds a socket that is to connect to this machine to one of 250 of its
// loopback addresses: the 28,000 ports of one alone are used up within a second
// when each lingers for a minute.
func spread(fd int, round uint32) error {
	// The port is chosen by connect, which knows the other end too.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return err
	}
	return unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 1, 1 + byte(round%250)}})
}
