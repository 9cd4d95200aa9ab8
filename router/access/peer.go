package access

import "net"

// ConnUser is PeerUser for a connection; false: it is no unix socket, or the process has gone.
func ConnUser(c net.Conn) (uid uint32, ok bool) {
	u, isUnix := c.(*net.UnixConn)
	if !isUnix {
		return 0, false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, false
	}
	failed := raw.Control(func(fd uintptr) { uid, err = PeerUser(int(fd)) })
	return uid, err == nil && failed == nil
}
