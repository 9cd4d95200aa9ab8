//go:build !linux

package cli

import "syscall"

// apart keeps signals of the terminal from a command. Only Linux can end the command when this
// program is killed.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
