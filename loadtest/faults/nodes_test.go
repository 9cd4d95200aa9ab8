package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
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
	<-n.process.Ended
	if a := f.takeAccidents(); len(a) != 1 || a[0] != "n1 ended by itself: exit status 7" {
		t.Errorf("accidents are %v", a)
	}
	if a := f.takeAccidents(); len(a) != 0 {
		t.Errorf("they are told again: %v", a)
	}
}

// Bytes from one node to the other are held back, on connections that either node opened; bytes in
// the other direction are not.
func TestWiresAreCutInOneDirection(t *testing.T) {
	f := fleetOf(t, 2, "exit")
	one, two := f.all()[0], f.all()[1]
	connect := func(from, to *node) (call, answer net.Conn) {
		l, err := net.Listen("tcp", to.cluster)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if call, err = net.Dial("tcp", f.wires[wire{from.number, to.number}].Addr()); err == nil {
			answer, err = l.Accept()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { call.Close(); answer.Close() })
		return call, answer
	}
	a, b := connect(one, two)
	c, d := connect(two, one)
	blocked, open := [][2]net.Conn{{a, b}, {d, c}}, [][2]net.Conn{{b, a}, {c, d}}
	f.cut(one, two)
	for _, s := range append(blocked, open...) {
		if _, err := s[0].Write([]byte("hello\n")); err != nil {
			t.Fatal(err)
		}
	}
	hears := func(s [2]net.Conn, within time.Duration) bool {
		s[1].SetReadDeadline(time.Now().Add(within))
		line, err := bufio.NewReader(s[1]).ReadString('\n')
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

// A client dials again after its connection breaks, and unanswered commands are in doubt. An
// unexpected reply is reported; a refused put is not in doubt.
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
			c := newConn(client, w.patience, w.h)
			if err := w.produce(c, rngOf(1), 1); err != nil && err != errBroken {
				w.wrong = append(w.wrong, err.Error())
			}
			c.close()
		}
		if c := w.h.countsNow(); !tt.check(c, len(w.wrong)) {
			t.Errorf("%.40q: %+v, %v", tt.answer, c, w.wrong)
		}
	}
	h := newHistory(tubeNames(), 0, nil)
	h.beginPause()
	if h.inserted(h.newToken(), 1, call{0, bench.Now() + int64(time.Hour)}); h.longestPause() < 59*time.Minute {
		t.Errorf("a pause of an hour is measured as %v", h.longestPause())
	}
}
