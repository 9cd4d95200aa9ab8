package daemon

import (
	"bytes"
	"errors"
	"os/exec"
	"testing"
	"time"
)

// Outcome is how a run that ended by itself ended.
type Outcome struct {
	Code           int
	Stdout, Stderr string
}

// RunToEnd runs a program that is expected to end by itself.
func RunToEnd(t *testing.T, program string, env []string, args ...string) Outcome {
	t.Helper()
	noteSources()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(Hang, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !timer.Stop() {
		t.Fatalf("%s %q did not end; stderr:\n%s", program, args, &stderr)
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return Outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
