package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"polystalk/loadtest/bench"
)

// fleetOf returns nodes that run a shell script.
func fleetOf(t *testing.T, nodes int, script string) *fleet {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := &fleet{dir: dir, programs: []string{program}}
	if err := f.makeNodes(nodes); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestAnEndThatNobodyOrderedIsAnAccident(t *testing.T) {
	f := fleetOf(t, 1, "exit 7")
	n := f.all()[0]
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	<-n.ended
	if a := f.takeAccidents(); len(a) != 1 || a[0] != "n1 ended by itself: exit status 7" {
		t.Errorf("accidents are %v", a)
	}
	if a := f.takeAccidents(); len(a) != 0 {
		t.Errorf("they are told again: %v", a)
	}
}

func TestAKilledNodeStartsAgain(t *testing.T) {
	f := fleetOf(t, 1, "exec sleep 1000")
	n := f.all()[0]
	for range 2 {
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
		if n.start() == nil || n.wipe() == nil || !n.running() {
			t.Error("a running node was started or emptied, or does not run")
		}
		n.kill()
		if n.running() {
			t.Error("it still runs")
		}
	}
	if err := os.WriteFile(filepath.Join(n.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.wipe(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(n.dir); err != nil || len(left) != 0 {
		t.Errorf("%v are left, %v", left, err)
	}
	if a := f.takeAccidents(); len(a) != 0 {
		t.Errorf("ordered ends are accidents: %v", a)
	}
}

// Bytes from one node to the other are held back, on connections that either has made; bytes
// in the other direction are not.
func TestWiresAreCutInOneDirection(t *testing.T) {
	f := fleetOf(t, 2, "exit")
	one, two := f.all()[0], f.all()[1]
	calls, answers := make(map[*node]net.Conn), make(map[*node]net.Conn) // by the node that connects
	for _, pair := range [][2]*node{{one, two}, {two, one}} {
		l, err := net.Listen("tcp", pair[1].cluster)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c, err := net.Dial("tcp", f.wires[wire{pair[0].number, pair[1].number}].Addr())
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
	f.cut(one, two)
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
	for i := range open {
		if !hears(open[i], 10*time.Second) || hears(blocked[i], 30*time.Millisecond) {
			t.Errorf("side %d: the open one hears nothing, or the blocked one hears", i)
		}
	}
	f.mend(false)
	for i, s := range blocked {
		if !hears(s, 10*time.Second) {
			t.Errorf("side %d does not hear what was held back", i)
		}
	}
}

// Requests go to the socket in the node's directory; a refusal is an error with the reason.
func TestNodesAreAskedAtTheirSockets(t *testing.T) {
	f := fleetOf(t, 3, "exec sleep 1000")
	var asked []string
	for i, n := range f.all() {
		l, err := net.Listen("unix", filepath.Join(n.dir, "cluster.sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Method == "GET" { // two forward it, the third believes that it leads
				fmt.Fprintf(w, `{"role": "leader", "node": "n%d", "term": %d}`, 2-i/2, 10-i)
				return
			}
			asked = append(asked, strings.TrimSpace(fmt.Sprint(n.name, " ", r.Method, " ", r.URL, " ", string(body))))
			if r.Method == "DELETE" {
				http.Error(w, "it leads", http.StatusConflict)
			}
		}))
	}
	if _, _, err := f.leader(t.Context()); err == nil {
		t.Error("a server leads that does not run")
	}
	for _, n := range f.all() {
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
	}
	leader, status, err := f.leader(t.Context())
	if err != nil || leader != f.all()[1] || status.Term != 10 {
		t.Fatalf("the leader is %v in term %d, %v", leader, status.Term, err)
	}
	if err := leader.transfer(t.Context(), f.all()[0]); err != nil {
		t.Error(err)
	}
	if err := leader.remove(t.Context(), f.all()[2]); err == nil || !strings.Contains(err.Error(), "it leads") {
		t.Errorf("error %v, want the reason", err)
	}
	want := []string{`n2 POST /api/v1/cluster/transfer {"node":"n1"}`, "n2 DELETE /api/v1/cluster/members/n3"}
	if strings.Join(asked, "; ") != strings.Join(want, "; ") {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// The first node founds the cluster, the next join, and a member needs neither flag.
func TestArgumentsOfACluster(t *testing.T) {
	f := fleetOf(t, 2, "exit")
	one, two := f.all()[0], f.all()[1]
	has := func(n *node, flag string) bool { return strings.Contains(strings.Join(f.arguments(n), " "), flag) }
	if !has(one, "--cluster-new") || has(one, "--cluster-join") || !has(one, "--cluster-dial "+two.cluster+"=") {
		t.Errorf("the first: %q", f.arguments(one))
	}
	one.member = true
	if has(one, "--cluster-new") || has(one, "--cluster-join") {
		t.Errorf("the first again: %q", f.arguments(one))
	}
	if has(two, "--cluster-new") || !has(two, "--cluster-join "+one.cluster) {
		t.Errorf("the second: %q", f.arguments(two))
	}
}

// A client dials again after its connection broke, and what was not answered is in doubt. A
// reply that is no answer is told; a refused put is not in doubt.
func TestClientsTellWhatTheyAreAnswered(t *testing.T) {
	for _, tt := range []struct {
		answer string // to a put
		check  func(c counts, wrong int) bool
	}{
		{"INSERTED %d\r\n", func(c counts, wrong int) bool { return c.acknowledged >= 3 && wrong == 0 }},
		{"", func(c counts, wrong int) bool {
			return c.acknowledged == 0 && c.refused == 0 && c.put >= 3 && wrong == 0
		}},
		{"OUT_OF_MEMORY\r\n", func(c counts, wrong int) bool { return c.refused >= 3 && wrong == 0 }},
		{"NOT_FOUND\r\n", func(c counts, wrong int) bool { return c.acknowledged == 0 && wrong >= 3 }},
		{"INSERTED x\r\n", func(c counts, wrong int) bool { return c.acknowledged == 0 && wrong >= 3 }},
		{"INSERTED 1\n", func(c counts, wrong int) bool { return c.acknowledged == 0 && wrong >= 3 }},
		{"\r\n", func(c counts, wrong int) bool { return c.acknowledged == 0 && wrong >= 3 }},
		{strings.Repeat("x", 10_000) + "\r\n", func(c counts, wrong int) bool { return c.acknowledged == 0 && wrong >= 3 }},
	} {
		w := &crew{h: newHistory(tubeNames(), 0, nil), patience: 10 * time.Second, ctx: t.Context(), names: tubeNames(), stock: 1000}
		id := 0
		for range 3 {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				r := bufio.NewReader(server)
				line, _ := r.ReadString('\n')
				fmt.Fprintf(server, "USING %s\r\n", strings.TrimPrefix(strings.TrimSpace(line), "use "))
				line, _ = r.ReadString('\n')
				var pri, delay, ttr, size int
				fmt.Sscanf(line, "put %d %d %d %d", &pri, &delay, &ttr, &size)
				r.Discard(size + 2)
				id++
				io.WriteString(server, strings.ReplaceAll(tt.answer, "%d", fmt.Sprint(id)))
			}()
			c := &conn{nc: client, r: bufio.NewReader(client), patience: w.patience, holder: w.h.connect()}
			if err := w.produce(c, rngOf(1), 1); err != nil && err != errBroken {
				w.wrong = append(w.wrong, err)
			}
			c.close()
		}
		if c := w.h.countsNow(); !tt.check(c, len(w.wrong)) {
			t.Errorf("%.40q: %+v, %v", tt.answer, c, w.wrong)
		}
	}
	var p pause
	p.begin()
	p.acknowledged(bench.Now() + int64(time.Hour))
	if p.sinceBegin() < 59*time.Minute || p.puts() != 1 {
		t.Errorf("a pause of an hour is measured as %v", p.sinceBegin())
	}
}
