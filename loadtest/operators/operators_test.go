package main

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"polystalk/codec/conversation"
	"testing"
	"time"
)

// TestMain plays a scene if this is the process of a scene.
func TestMain(m *testing.M) {
	flag.Parse()
	if *played != "" {
		if err := run(context.Background()); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestScenes plays all scenes for a short time each: none may fail.
func TestScenes(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	if _, err := exec.LookPath("nice"); err != nil {
		t.Skip(err)
	}
	path, err := conversation.Program("polystalkd")
	if err != nil {
		t.Fatal(err)
	}
	*program, *jobs, rounds, *length, rate = path, 3000, 1, 200*time.Millisecond, 200
	if err := run(t.Context()); err != nil {
		t.Error(err)
	}
}
