package main

import (
	"flag"
	"os"
	"os/exec"
	"polystalk/codec/conversation"
	"testing"
	"time"
)

// TestMain plays a scene if this process is an operator's.
func TestMain(m *testing.M) {
	flag.Parse()
	if *scene != "" {
		play(*scene, *socket)
		return
	}
	os.Exit(m.Run())
}

// TestScenes plays all of them, for a short while each: none may end with what must not be.
func TestScenes(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	if _, err := exec.LookPath("nice"); err != nil {
		t.Skip(err)
	}
	program, err := conversation.Program("polystalkd")
	if err != nil {
		t.Fatal(err)
	}
	*server, *jobs, *rounds, *length, *rate = program, 3000, 1, 200*time.Millisecond, 200
	if err := run(); err != nil {
		t.Error(err)
	}
}
