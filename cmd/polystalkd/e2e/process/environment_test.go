package process

import (
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

func TestUnknownVariableIsInTheLog(t *testing.T) {
	cmd := daemon.UnixCommand(daemon.ShortDir(t) + "/s")
	cmd.Env = append(cmd.Env, "POLYSTALKD_LISTENS=127.0.0.1", "POLYSTALKD_SERVICE_HOST=10.0.0.1")
	s := daemon.Await(t, cmd)
	if !strings.Contains(s.LogText(), "variable POLYSTALKD_LISTENS is unknown") || strings.Contains(s.LogText(), "SERVICE_HOST") {
		t.Errorf("log: %s", s.LogText())
	}
}
