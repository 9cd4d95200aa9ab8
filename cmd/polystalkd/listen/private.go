package listen

import (
	"log/slog"
	"net"
	"os"
	"syscall"
)

// A Private is a listening unix socket that only the process's user may connect to.
type Private struct {
	net.Listener
	file *socketFile
}

// ListenPrivate opens a socket at path. It replaces a dead socket of the same user.
func ListenPrivate(path string) (*Private, error) {
	// The umask decides the mode of the new file. The process creates no other file meanwhile.
	mask := syscall.Umask(0o077)
	l, file, err := listenUnix(path, []int{os.Geteuid()})
	syscall.Umask(mask)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		file.remove()
		l.Close()
		return nil, err
	}
	return &Private{l, file}, nil
}

// End closes the socket and removes its file.
func (p *Private) End(log *slog.Logger) {
	if err := p.file.remove(); err != nil {
		log.Warn("unix socket file left behind", "path", p.file.path, "err", err)
	}
	p.Close()
}
