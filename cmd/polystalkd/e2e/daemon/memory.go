package daemon

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"polystalk/codec/conversation"
)

// Memory is the resident size of a process in bytes, or 0 where the system
// does not tell.
func Memory(s *conversation.Server) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kB, _ := strconv.Atoi(fields[0])
	return kB << 10
}

// Bounded fails if the server has grown by more than most since it had was.
func Bounded(t *testing.T, s *conversation.Server, was, most int) {
	t.Helper()
	if now := Memory(s); now > was+most {
		t.Errorf("resident memory grew from %d to %d kB", was>>10, now>>10)
	}
}
