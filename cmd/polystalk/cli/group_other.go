//go:build !linux

package cli

import (
	"os"
	"syscall"
)

// apart keeps signals of the terminal from a command. Only Linux can end the command when this
// program is killed.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// nameless returns a file without a name. It stays empty in TMPDIR if this program is killed at once.
func nameless() (*os.File, error) {
	f, err := os.CreateTemp("", "polystalk")
	if err == nil {
		err = os.Remove(f.Name())
	}
	return f, err
}
