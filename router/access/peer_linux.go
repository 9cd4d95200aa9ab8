package access

import "golang.org/x/sys/unix"

// PeerUser returns the user of the process that has connected to a unix socket.
func PeerUser(fd int) (uid uint32, err error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return c.Uid, nil
}
