package compare

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"polystalk/loadtest/proc"
	"polystalk/loadtest/workload"
)

// A command that has {ready} is ready when it says so, however early its port answers.
func TestReadyIsAFileIfTheCommandHasOne(t *testing.T) {
	script := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nsleep 0.2\necho > \"$1\"\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	asked := false
	p := &workload.Protocol{Version: func(context.Context, string) (string, error) {
		asked = true
		return "1", nil
	}}
	target, err := ParseTarget(script+" {ready} {dir} {port}", p)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), proc.NewSpawner(), p, target, workload.Load{})
	if err != nil {
		t.Fatal(err)
	}
	ready := s.ready
	if _, err := os.Stat(ready); err != nil || !asked {
		t.Errorf("it counts as ready: %v, asked %v", err, asked)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(ready); err == nil {
		t.Error("the file is left")
	}
}
