//go:build !linux

package again

import "os"

// program is the path of what this process runs.
func program() (string, error) { return os.Executable() }
