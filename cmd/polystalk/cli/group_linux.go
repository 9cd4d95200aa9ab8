package cli

import "syscall"

// apart keeps signals of the terminal from a command. The kernel kills the command when the thread
// that has started it ends, even if this program is killed.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
