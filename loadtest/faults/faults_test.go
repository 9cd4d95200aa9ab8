package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/codec/conversation"
)

// built returns the path of the server's program.
func built(t *testing.T) string {
	t.Helper()
	path, err := conversation.Program("polystalkd")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func rngOf(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// shortRun returns the options of a run that takes seconds.
func shortRun(t *testing.T, args string) *options {
	t.Helper()
	o, err := parseOptions(append(strings.Fields(args), "-program", built(t)))
	if err != nil {
		t.Fatal(err)
	}
	o.calm, o.patience, o.stock, o.dir = 100*time.Millisecond, 10*time.Second, 3000, filepath.Join(t.ArtifactDir(), strconv.Itoa(o.nodes))
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestNothingIsLost(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, args := range []string{
		"-rounds 6 -only kill,kill,crash-loop,term",
		"-nodes 3 -rounds 8 -only kill-leader,kill-leader,kill-follower,transfer,isolate,replaced,wiped",
	} {
		r, err := play(t.Context(), shortRun(t, args))
		if err != nil {
			t.Fatal(err)
		}
		if !r.clean() || r.h.countsNow().acknowledged == 0 || r.h.countsNow().deleted == 0 {
			var b strings.Builder
			r.print(&b)
			t.Error(b.String())
		}
	}
}

// The loss of a server's data is detected.
func TestLossIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	r, err := play(t.Context(), shortRun(t, "-rounds 1 -only amnesia"))
	if r == nil {
		t.Fatal(err)
	}
	if r.clean() || r.h.violations()[lost]+r.h.violations()[idTwice] == 0 {
		t.Errorf("found %v, %v", r.h.violations(), err)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for _, tt := range []struct{ args, says string }{
		{"-only nonsense", `no fault "nonsense"`},
		{"-only kill-two", "needs 3 servers"},
		{"-nodes 0", "1 or more"},
		{"-program /nowhere/polystalkd", "make build"},
		{"more", "not a flag"},
	} {
		args := append([]string{"-program", os.Args[0]}, strings.Fields(tt.args)...)
		if _, err := parseOptions(args); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, want one with %q", tt.args, err, tt.says)
		}
	}
}
