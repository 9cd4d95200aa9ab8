package daemon

import (
	"os/exec"
	"testing"
	"time"

	"polystalk/codec/conversation"
)

// Reference finds the reference server, or skips the test.
func Reference(t *testing.T) (program, version string) {
	t.Helper()
	program, version, err := conversation.Beanstalk.Reference()
	if err != nil {
		t.Skip(err)
	}
	return program, version
}

// Tool finds a program that a test needs, or skips the test.
func Tool(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s: install Debian's %s", name, pkg)
	}
	return path
}

// ClientTime bounds one script; it is met only by one that hangs.
const ClientTime = time.Minute
