package main

import (
	"math/rand/v2"
	"strings"
	"testing"

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

// options of a run that takes seconds.
func shortRun(t *testing.T, more ...string) *options {
	t.Helper()
	o, err := parseOptions(append([]string{"-program", built(t), "-calm", "100ms", "-patience", "10s", "-stock", "3000", "-dir", t.ArtifactDir()}, more...))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestNothingIsLostByOneServer(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	r, err := play(t.Context(), shortRun(t, "-rounds", "6", "-only", "kill*4,crash-loop,term"))
	if err != nil {
		t.Fatal(err)
	}
	if !r.clean() || r.counts.acknowledged == 0 || r.counts.deleted == 0 {
		var b strings.Builder
		r.print(&b)
		t.Error(b.String())
	}
}

func TestNothingIsLostByACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	r, err := play(t.Context(), shortRun(t, "-nodes", "3", "-rounds", "6", "-only", "kill-leader*2,kill-follower,transfer,isolate,replaced"))
	if err != nil {
		t.Fatal(err)
	}
	if !r.clean() || r.counts.acknowledged == 0 || r.counts.deleted == 0 {
		var b strings.Builder
		r.print(&b)
		t.Error(b.String())
	}
}

// A server that forgets everything is found out.
func TestLossIsFound(t *testing.T) {
	r, err := play(t.Context(), shortRun(t, "-rounds", "1", "-only", "amnesia"))
	if r == nil {
		t.Fatal(err)
	}
	if r.clean() || r.rules[lost]+r.rules[idTwice] == 0 {
		t.Errorf("found %v, %v", r.rules, err)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	program := built(t)
	for _, tt := range []struct{ args, says string }{
		{"-only nonsense", `no fault "nonsense"`},
		{"-only kill*0", "number of times"},
		{"-nodes 0", "1 or more"},
		{"-program /nowhere/polystalkd", "make build"},
		{"more", "not a flag"},
	} {
		args := append([]string{"-program", program}, strings.Fields(tt.args)...)
		if _, err := parseOptions(args); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, want one with %q", tt.args, err, tt.says)
		}
	}
}
