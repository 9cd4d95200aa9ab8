package daemon

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// SmallDisk is a file system of its own with so many bytes, of memory. The test is skipped where
// there can be none.
func SmallDisk(t *testing.T, bytes int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a file system takes root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skip("no tmpfs here: ", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}
