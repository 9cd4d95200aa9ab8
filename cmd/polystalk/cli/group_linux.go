package cli

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// apart keeps signals of the terminal from a command. The kernel kills the command when the thread
// that has started it ends, even if this program is killed.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// nameless returns a file in memory. It leaves nothing, even if this program is killed.
func nameless() (*os.File, error) {
	fd, err := unix.MemfdCreate("job", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "job"), nil
}
