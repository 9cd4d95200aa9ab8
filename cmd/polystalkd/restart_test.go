package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestPausesGrow: a process that cannot run restarts less and less often, but does not stop.
func TestPausesGrow(t *testing.T) {
	if p, _ := restartPause(nil, time.Millisecond); p != 0 {
		t.Errorf("the first time it waits for %v", p)
	}
	l := &inherited{}
	for _, want := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		p, short := restartPause(l, time.Second)
		if p != want {
			t.Errorf("after %d short lives it waits for %v, want %v", short, p, want)
		}
		l.Short = short
	}
	l.Short = 1 << 30
	if p, _ := restartPause(l, time.Second); p != pauseMax {
		t.Errorf("it waits for %v", p)
	}
	if p, short := restartPause(l, 2*time.Minute); p != 0 || short != 0 {
		t.Errorf("after a long life it waits for %v, and counts %d short ones", p, short)
	}
}

// TestForeignVariableIsRefused: a user may have set the variable.
func TestForeignVariableIsRefused(t *testing.T) {
	t.Setenv(restartVariable, "yes")
	if _, err := readInherited(); err == nil || !strings.Contains(err.Error(), "leave it out") {
		t.Errorf("%v", err)
	}
	if _, found := os.LookupEnv(restartVariable); found {
		t.Error("the variable is still there")
	}
	t.Setenv(restartVariable, `{"Sockets":{"Of":{"beanstalkd":[987]}}}`)
	l, err := readInherited()
	must(t, err)
	if _, err := l.Sockets.Sockets(); err == nil || !strings.Contains(err.Error(), "987") {
		t.Errorf("%v", err)
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
