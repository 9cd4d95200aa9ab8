package main

import (
	"strings"
	"testing"
)

func TestUnknownVariableIsInTheLog(t *testing.T) {
	cmd := unixCommand(shortDir(t) + "/s")
	cmd.Env = append(cmd.Env, "POLYSTALKD_LISTENS=127.0.0.1", "POLYSTALKD_SERVICE_HOST=10.0.0.1")
	s := startServer(t, cmd)
	if !strings.Contains(s.logText(), "variable POLYSTALKD_LISTENS is unknown") || strings.Contains(s.logText(), "SERVICE_HOST") {
		t.Errorf("log: %s", s.logText())
	}
}
