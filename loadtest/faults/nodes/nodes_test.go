package nodes

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fleetOf is of nodes that run a shell script.
func fleetOf(t *testing.T, nodes int, script string) *Fleet {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := New(Options{Dir: dir, Programs: []string{program}, Nodes: nodes, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestAnEndThatNobodyOrderedIsAnAccident(t *testing.T) {
	f := fleetOf(t, 1, "exit 7")
	n := f.All()[0]
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	<-n.Ended()
	if a := f.Accidents(); len(a) != 1 || a[0] != (Accident{"n1", "exit status 7"}) {
		t.Errorf("accidents are %v", a)
	}
	if a := f.Accidents(); len(a) != 0 {
		t.Errorf("they are told again: %v", a)
	}
}

func TestAKilledNodeStartsAgain(t *testing.T) {
	f := fleetOf(t, 1, "exec sleep 1000")
	n := f.All()[0]
	for range 2 {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		if err := n.Start(); err == nil {
			t.Error("it was started twice")
		}
		if err := n.Wipe(); err == nil {
			t.Error("its directory was emptied under it")
		}
		if n.PID() == 0 || !n.Running() {
			t.Error("it does not run")
		}
		n.Kill()
		if n.PID() != 0 || n.Running() {
			t.Error("it runs still")
		}
	}
	if err := os.WriteFile(filepath.Join(n.Dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Wipe(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(n.Dir); err != nil || len(left) != 0 {
		t.Errorf("%v are left, %v", left, err)
	}
	if a := f.Accidents(); len(a) != 0 {
		t.Errorf("ordered ends are accidents: %v", a)
	}
}

func TestWhoDoesNotEndIsKilled(t *testing.T) {
	f := fleetOf(t, 1, "trap '' TERM\necho > \"$6/ready\"\nwhile :; do sleep 0.1; done")
	n := f.All()[0]
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	for _, err := os.Stat(filepath.Join(n.Dir, "ready")); err != nil; _, err = os.Stat(filepath.Join(n.Dir, "ready")) {
		time.Sleep(time.Millisecond)
	}
	if err := n.Terminate(t.Context(), 50*time.Millisecond); err == nil {
		t.Error("no error although it had to be killed")
	}
	if n.Running() {
		t.Error("it runs still")
	}
}

// TestWiresAreCutInOneDirection: bytes from one node to the other are kept back, on
// connections that either has made, and those in the other direction are not.
func TestWiresAreCutInOneDirection(t *testing.T) {
	f := fleetOf(t, 2, "exit")
	one, two := f.All()[0], f.All()[1]
	calls := make(map[*Node]net.Conn) // by who has made them
	answers := make(map[*Node]net.Conn)
	for _, pair := range [][2]*Node{{one, two}, {two, one}} {
		l, err := net.Listen("tcp", pair[1].Cluster)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c, err := net.Dial("tcp", f.Wires.relays[wire{pair[0].Number, pair[1].Number}].Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		calls[pair[0]], answers[pair[0]] = c, a
	}
	type side struct{ from, to net.Conn }
	blocked := []side{{calls[one], answers[one]}, {answers[two], calls[two]}}
	open := []side{{answers[one], calls[one]}, {calls[two], answers[two]}}
	f.Wires.Cut(one, two)
	for _, s := range append(blocked, open...) {
		if _, err := s.from.Write([]byte("hello\n")); err != nil {
			t.Fatal(err)
		}
	}
	hears := func(s side, within time.Duration) bool {
		s.to.SetReadDeadline(time.Now().Add(within))
		line, err := bufio.NewReader(s.to).ReadString('\n')
		return err == nil && line == "hello\n"
	}
	for i, s := range open {
		if !hears(s, 10*time.Second) {
			t.Errorf("open side %d hears nothing", i)
		}
	}
	for i, s := range blocked {
		if hears(s, 30*time.Millisecond) {
			t.Errorf("blocked side %d hears", i)
		}
	}
	f.Wires.Mend(false)
	for i, s := range blocked {
		if !hears(s, 10*time.Second) {
			t.Errorf("side %d does not hear what was kept back", i)
		}
	}
}
